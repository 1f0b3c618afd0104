#include "data/vocabulary/wordpiece_vocabulary.h"

#include <fmt/format.h>
#include <unicode/locid.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/unistr.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <array>
#include <utility>

#include "data/input_file.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/hash.h"
#include "engine/base/printable.h"
#include "engine/base/utf8.h"

namespace mtf {
namespace {

constexpr std::string_view kUnknownPiece = "[UNK]", kPadPiece = "[PAD]";
/// Pieces that decode() leaves out.
constexpr std::array<std::string_view, 3> kSilentPieces = {kPadPiece, "[CLS]", "[SEP]"};
/// Beyond it no file has a piece, and each place of a word is compared with pieces of all lengths.
constexpr size_t kLongestWordPiece = 4096;

uint32_t category_of(char32_t character) { return U_GET_GC_MASK(static_cast<UChar32>(character)); }

bool is_blank(char32_t character) {
  return character == U' ' || character == U'\t' || character == U'\n' || character == U'\r' ||
         (character >= 0x80 && (category_of(character) & U_GC_ZS_MASK) != 0);
}

/// Where words are divided: what is_blank() says, and the separators of lines and paragraphs.
bool divides_words(char32_t character) {
  return character == U' ' || (character >= 0x80 && (category_of(character) & U_GC_Z_MASK) != 0);
}

bool is_dropped(char32_t character) {
  constexpr char32_t kReplacement = 0xfffd;
  return character == 0 || character == kReplacement ||
         (category_of(character) & (U_GC_CC_MASK | U_GC_CF_MASK)) != 0;
}

/// The blocks of unified and compatibility ideographs, which have no letters of Japanese or Korean.
bool is_ideograph(char32_t c) {
  constexpr std::array<std::pair<char32_t, char32_t>, 8> kBlocks = {{{0x4e00, 0x9fff},
                                                                     {0x3400, 0x4dbf},
                                                                     {0x20000, 0x2a6df},
                                                                     {0x2a700, 0x2b73f},
                                                                     {0x2b740, 0x2b81f},
                                                                     {0x2b820, 0x2ceaf},
                                                                     {0xf900, 0xfaff},
                                                                     {0x2f800, 0x2fa1f}}};
  return std::ranges::any_of(kBlocks,
                             [c](const auto& block) { return c >= block.first && c <= block.second; });
}

/// Unicode's punctuation, and what ASCII has besides letters, digits and blanks.
bool is_punctuation(char32_t c) {
  if (c < 0x80) return c > U' ' && c < 0x7f && u_isalnum(static_cast<UChar32>(c)) == 0;
  return (category_of(c) & U_GC_P_MASK) != 0;
}

bool is_ascii(std::u32string_view text) {
  return std::ranges::all_of(text, [](char32_t c) { return c < 0x80; });
}

std::string encode_utf8(std::u32string_view text) {
  std::string bytes;
  for (const char32_t c : text) append_utf8(c, bytes);
  return bytes;
}

icu::UnicodeString to_unicode(std::u32string_view text) {
  return icu::UnicodeString::fromUTF32(reinterpret_cast<const UChar32*>(text.data()),
                                       static_cast<int32_t>(text.size()));
}

std::u32string from_unicode(const icu::UnicodeString& text) {
  std::u32string result;
  for (int32_t at = 0; at < text.length(); at = text.moveIndex32(at, 1))
    result += static_cast<char32_t>(text.char32At(at));
  return result;
}

/// Decomposed (NFD), without nonspacing marks.
std::u32string without_accents(std::u32string_view text) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* const normalizer = icu::Normalizer2::getNFDInstance(error);
  MTF_CHECK(U_SUCCESS(error), "NFD: {}", u_errorName(error));
  std::u32string decomposed = from_unicode(normalizer->normalize(to_unicode(text), error));
  MTF_CHECK(U_SUCCESS(error), "NFD: {}", u_errorName(error));
  std::erase_if(decomposed, [](char32_t c) { return (category_of(c) & U_GC_MN_MASK) != 0; });
  return decomposed;
}

/// By Unicode's full case mapping without language-specific rules.
std::u32string lowered(std::u32string_view text) {
  if (!is_ascii(text)) return from_unicode(to_unicode(text).toLower(icu::Locale::getRoot()));
  std::u32string result(text);
  for (char32_t& c : result) {
    if (c >= U'A' && c <= U'Z') c += U'a' - U'A';
  }
  return result;
}

}  // namespace

WordPieceVocabulary::WordPieceVocabulary(std::string_view lines, const std::string& name,
                                         const WordPieceRules& rules)
    : rules_(rules) {
  Hash128 hash;
  hash.add(std::as_bytes(std::span(lines)));
  fingerprint_ =
      fmt::format("wordpiece:{}:{}{}{}:{}", hash.hex(), rules.lowercase ? 1 : 0, rules.strip_accents ? 1 : 0,
                  rules.chinese_characters ? 1 : 0, rules.longest_word);
  while (!lines.empty()) {
    const size_t end = std::min(lines.find('\n'), lines.size());
    std::string_view line = lines.substr(0, end);
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.remove_prefix(std::min(end + 1, lines.size()));
    if (line.size() > kLongestWordPiece)
      throw Error(ErrorKind::kData,
                  fmt::format("{}: line {}: a piece of {} bytes", name, pieces_.size() + 1, line.size()),
                  fmt::format("pieces of at most {} bytes, one a line", kLongestWordPiece));
    longest_ = std::max(longest_, line.size());
    ids_[std::string(line)] = static_cast<int32_t>(pieces_.size());
    pieces_.emplace_back(line);
  }
  if (pieces_.empty() || pieces_[kPadId] != kPadPiece)
    throw Error(ErrorKind::kData,
                fmt::format("{}: no WordPiece vocabulary: the first line is `{}`", name,
                            pieces_.empty() ? "" : printable(pieces_[0].substr(0, 40))),
                "a file such as BERT's vocab.txt, which begins with [PAD]");
  const auto unknown = ids_.find(kUnknownPiece);
  if (unknown == ids_.end())
    throw Error(ErrorKind::kData, fmt::format("{}: it has no piece {}", name, kUnknownPiece),
                "a line [UNK], which stands for words that cannot be spelled");
  unknown_ = unknown->second;
}

std::u32string WordPieceVocabulary::cleaned(std::string_view text) const {
  std::u32string clean;
  for (size_t at = 0; at < text.size();) {
    const char32_t c = next_character(text, at);
    if (is_blank(c)) {
      clean += U' ';
    } else if (rules_.chinese_characters && is_ideograph(c)) {
      clean.append({U' ', c, U' '});
    } else if (!is_dropped(c)) {
      clean += c;
    }
  }
  if (rules_.lowercase) clean = lowered(clean);
  if (rules_.strip_accents && !is_ascii(clean)) clean = without_accents(clean);
  return clean;
}

std::vector<int32_t> WordPieceVocabulary::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  const std::u32string clean = cleaned(text);
  const std::u32string_view all(clean);
  size_t begin = 0;
  const auto end_word = [&](size_t end) {
    if (end > begin) append_word(all.substr(begin, end - begin), ids);
    begin = end + 1;
  };
  for (size_t at = 0; at < clean.size(); ++at) {
    if (divides_words(clean[at])) {
      end_word(at);
    } else if (is_punctuation(clean[at])) {
      end_word(at);
      append_word(all.substr(at, 1), ids);
    }
  }
  end_word(clean.size());
  return ids;
}

void WordPieceVocabulary::append_word(std::u32string_view word, std::vector<int32_t>& ids) const {
  if (std::ssize(word) > rules_.longest_word) return ids.push_back(unknown_);
  const size_t known = ids.size();
  std::string rest = encode_utf8(word);
  for (size_t prefix = 0; rest.size() > prefix;) {  // bytes of ## that stand before what is left of the word
    auto found = ids_.end();
    size_t length = std::min(rest.size(), longest_);
    for (; length > prefix; --length) {
      if (length < rest.size() && U8_IS_TRAIL(rest[length])) continue;
      found = ids_.find(std::string_view(rest).substr(0, length));
      if (found != ids_.end()) break;
    }
    if (found == ids_.end()) {
      ids.resize(known);
      return ids.push_back(unknown_);
    }
    ids.push_back(found->second);
    rest.replace(0, length, kContinuation);
    prefix = kContinuation.size();
  }
}

std::string WordPieceVocabulary::decode(std::span<const int32_t> ids) const {
  std::string text;
  for (const int32_t id : ids) {
    std::string_view word =
        id < 0 || id >= size() ? kPadPiece : std::string_view(pieces_[static_cast<size_t>(id)]);
    if (std::ranges::find(kSilentPieces, word) != kSilentPieces.end()) continue;
    if (word.starts_with(kContinuation) && !text.empty()) {
      word.remove_prefix(kContinuation.size());
    } else if (!text.empty()) {
      text += ' ';
    }
    text += word;
  }
  return text;
}

std::string WordPieceVocabulary::piece(int32_t id) const {
  return id < 0 || id >= size() ? std::string() : pieces_[static_cast<size_t>(id)];
}

std::unique_ptr<Vocabulary> read_wordpiece_vocabulary(const std::string& path, const WordPieceRules& rules) {
  return std::make_unique<WordPieceVocabulary>(
      read_file(path, "a WordPiece vocabulary", kLargestVocabularyFile), path, rules);
}

}  // namespace mtf
