#include "data/vocabulary/added_tokens.h"

#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <utility>

#include "engine/base/utf8.h"

namespace mtf {
namespace {

/// What \w is in Rust's regular expressions.
bool is_in_word(UChar32 c) {
  constexpr uint32_t kCategories = U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return u_hasBinaryProperty(c, UCHAR_ALPHABETIC) != 0 || (U_GET_GC_MASK(c) & kCategories) != 0 ||
         u_hasBinaryProperty(c, UCHAR_JOIN_CONTROL) != 0;
}

/// The character before a place of the text, and where it begins.
std::pair<UChar32, size_t> character_before(std::string_view text, size_t at) {
  UChar32 character = 0;
  auto begin = static_cast<int32_t>(std::min<size_t>(at, U8_MAX_LENGTH));
  const char* const bytes = text.data() + at - begin;
  const int32_t end = begin;
  U8_PREV(bytes, 0, begin, character);
  return {character, at - static_cast<size_t>(end - begin)};
}

UChar32 character_at(std::string_view text, size_t& at) {
  return static_cast<UChar32>(next_character(text, at));
}

bool is_beside_word(std::string_view text, size_t begin, size_t end) {
  return (begin > 0 && is_in_word(character_before(text, begin).first)) ||
         (end < text.size() && is_in_word(character_at(text, end)));
}

size_t begin_of_blanks(std::string_view text, size_t at) {
  while (at > 0) {
    const auto [character, begin] = character_before(text, at);
    if (u_isUWhiteSpace(character) == 0) break;
    at = begin;
  }
  return at;
}

size_t end_of_blanks(std::string_view text, size_t at) {
  for (size_t next = at; next < text.size() && u_isUWhiteSpace(character_at(text, next)) != 0;) at = next;
  return at;
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::ranges::sort(tokens_, {}, &AddedToken::text);
  for (const AddedToken& token : tokens_) {
    if (!first_bytes_.ends_with(token.text[0])) first_bytes_ += token.text[0];
  }
}

const AddedToken* AddedTokens::longest_at(std::string_view text, size_t begin) const {
  const AddedToken* longest = nullptr;
  // The tokens from `first` to `last` begin with the bytes of the text from `begin` to `end`.
  auto first = tokens_.begin(), last = tokens_.end();
  for (size_t end = begin; first != last; ++end) {
    const size_t length = end - begin;
    if (length > 0 && first->text.size() == length) longest = &*first++;
    if (end == text.size()) break;
    const auto next = [&](const AddedToken& token) { return static_cast<unsigned char>(token.text[length]); };
    const auto byte = static_cast<unsigned char>(text[end]);
    first = std::ranges::lower_bound(first, last, byte, {}, next);
    last = std::ranges::upper_bound(first, last, byte, {}, next);
  }
  return longest;
}

std::vector<AddedTokens::Part> AddedTokens::divide(std::string_view text) const {
  std::vector<Part> parts;
  size_t done = 0;
  size_t at = 0;
  while ((at = std::min(text.find_first_of(first_bytes_, at), text.size())) < text.size()) {
    const AddedToken* const token = longest_at(text, at);
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + token->text.size();
    at = end;
    if (token->is_whole_word && is_beside_word(text, begin, end)) continue;
    if (token->takes_blanks_before) begin = std::max(begin_of_blanks(text, begin), done);
    if (token->takes_blanks_behind) end = end_of_blanks(text, end);
    if (begin > done) parts.push_back({text.substr(done, begin - done)});
    parts.push_back({text.substr(begin, end - begin), token});
    done = end;
  }
  if (done < text.size()) parts.push_back({text.substr(done)});
  return parts;
}

}  // namespace mtf
