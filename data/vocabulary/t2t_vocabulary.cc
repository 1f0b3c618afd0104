#include "data/vocabulary/t2t_vocabulary.h"

#include <fmt/format.h>
#include <unicode/uchar.h>
#include <unicode/utf8.h>

#include <algorithm>

#include "data/input_file.h"
#include "engine/base/error.h"
#include "engine/base/hash.h"
#include "engine/base/parse_number.h"
#include "engine/base/printable.h"
#include "engine/base/utf8.h"

namespace mtf {
namespace {

/// Stands for itself in no escaped text.
constexpr char kEndOfPart = '_';
/// Needed to spell out any character.
constexpr std::string_view kEscapeCharacters = "\\_u;0123456789";
/// Each place of a text is compared with subwords of all lengths. Those of real files have less than 100
/// bytes.
constexpr size_t kLongestSubword = 4096;
/// What a code that is no character is read as.
constexpr char32_t kNoCharacter = 0x3013;

bool is_word_character(char32_t character) {
  return (U_GET_GC_MASK(static_cast<UChar32>(character)) & (U_GC_L_MASK | U_GC_N_MASK)) != 0;
}

std::string decimal_escape(char32_t character) {
  return fmt::format("\\{};", static_cast<uint32_t>(character));
}

/// "\213;" at the front of `text`: the bytes it takes, and the character; 0 bytes when there is none.
size_t parse_decimal_escape(std::string_view text, char32_t& character) {
  const size_t end = text.find_first_not_of("0123456789", 1);
  if (end == std::string_view::npos || end == 1 || text[end] != ';') return 0;
  const auto code = parse_number<uint32_t>(text.substr(1, end - 1));
  character = code && *code <= UCHAR_MAX_VALUE ? static_cast<char32_t>(*code) : kNoCharacter;
  return end + 1;
}

std::string unescape(std::string_view part) {
  std::string text;
  while (!part.empty()) {
    char32_t character = 0;
    size_t length = 1;
    if (part.starts_with("\\u")) {
      text += '_';
      length = 2;
    } else if (part.starts_with("\\\\")) {
      text += '\\';
      length = 2;
    } else if (part[0] == '\\' && (length = parse_decimal_escape(part, character)) > 0) {
      append_utf8(character, text, kNoCharacter);
    } else {
      length = 1;
      text += part[0];
    }
    part.remove_prefix(length);
  }
  return text;
}

std::string_view without_quotes(std::string_view line) {
  constexpr std::string_view kBlanks = " \t\r\f\v";
  const size_t begin = std::min(line.find_first_not_of(kBlanks), line.size());
  line = line.substr(begin, line.find_last_not_of(kBlanks) + 1 - begin);
  for (const char quote : {'\'', '"'}) {
    if (line.starts_with(quote) && line.ends_with(quote))
      return line.size() < 2 ? "" : line.substr(1, line.size() - 2);
  }
  return line;
}

std::vector<std::string> split_lines(std::string_view text) {
  std::vector<std::string> subwords;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    subwords.emplace_back(without_quotes(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return subwords;
}

void check_reserved(const std::vector<std::string>& subwords, const std::string& name) {
  const auto is = [&](size_t id, std::string_view word) {
    return subwords.size() > id &&
           (subwords[id] == word || subwords[id] == fmt::format("{}{}", word, kEndOfPart));
  };
  if (is(kPadId, "<pad>") && is(kEosId, "<EOS>")) return;
  const bool from_datasets = !subwords.empty() && subwords[0].starts_with("### SubwordTextEncoder");
  const std::string found = from_datasets ? "this is a file of TensorFlow Datasets"
                            : subwords.empty()
                                ? "the file is empty"
                                : fmt::format("the first line is `{}`", printable(subwords[0].substr(0, 40)));
  throw Error(ErrorKind::kData, fmt::format("{}: no file of tensor2tensor's subwords: {}", name, found),
              "the first two lines are '<pad>' and '<EOS>'");
}

}  // namespace

T2tVocabulary::T2tVocabulary(std::string_view lines, const std::string& name)
    : subwords_(split_lines(lines)) {
  check_reserved(subwords_, name);
  Hash128 hash;
  for (size_t id = 0; id < subwords_.size(); ++id) {
    const std::string& subword = subwords_[id];
    if (subword.size() > kLongestSubword)
      throw Error(ErrorKind::kData,
                  fmt::format("{}: line {}: a subword of {} bytes", name, id + 1, subword.size()),
                  fmt::format("subwords of at most {} bytes", kLongestSubword));
    for (size_t at = 0; at < subword.size();) alphabet_.insert(next_character(subword, at));
    hash.add(std::as_bytes(std::span(subword)));
    hash.add(std::as_bytes(std::span("\n", 1)));
    longest_ = std::max(longest_, subword.size());
    if (id > kEosId && !subword.empty()) ids_[subword] = static_cast<int32_t>(id);
  }
  alphabet_.insert(kEscapeCharacters.begin(), kEscapeCharacters.end());
  fingerprint_ = "t2t:" + hash.hex();
  for (const char character : kEscapeCharacters) {
    if (ids_.contains(std::string_view(&character, 1))) continue;
    throw Error(ErrorKind::kData, fmt::format("{}: the subword `{}` is missing", name, character),
                fmt::format("each of {} is one, so that all characters can be spelled", kEscapeCharacters));
  }
}

std::vector<int32_t> T2tVocabulary::encode(std::string_view text) const {
  std::vector<int32_t> ids;
  std::string part;  // escaped
  bool in_word = false;
  size_t part_begin = 0;
  const auto end_part = [&](size_t end) {
    const bool implied =
        part_begin > 0 && end < text.size() && text.substr(part_begin, end - part_begin) == " ";
    if (!implied) append_part(part + kEndOfPart, ids);
    part.clear();
    part_begin = end;
  };
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t character = next_character(text, at);
    const bool word_character = is_word_character(character);
    if (begin > 0 && word_character != in_word) end_part(begin);
    in_word = word_character;
    append_escaped(character, part);
  }
  if (!text.empty()) end_part(text.size());
  return ids;
}

void T2tVocabulary::append_escaped(char32_t character, std::string& text) const {
  if (character == '\\') {
    text += "\\\\";
  } else if (character == kEndOfPart) {
    text += "\\u";
  } else if (character == '\n' || !alphabet_.contains(character)) {
    text += decimal_escape(character);
  } else {
    append_utf8(character, text);
  }
}

void T2tVocabulary::append_part(std::string_view escaped, std::vector<int32_t>& ids) const {
  while (!escaped.empty()) {
    int32_t id = 0;
    size_t length = longest(escaped, id);
    if (length > 0) {
      ids.push_back(id);
    } else {  // a character of the alphabet that is no subword by itself: not in files of tensor2tensor
      append_part(decimal_escape(next_character(escaped, length)), ids);
    }
    escaped.remove_prefix(length);
  }
}

size_t T2tVocabulary::longest(std::string_view text, int32_t& id) const {
  for (size_t length = std::min(longest_, text.size()); length > 0; --length) {
    if (length < text.size() && U8_IS_TRAIL(text[length])) continue;
    const auto found = ids_.find(text.substr(0, length));
    if (found == ids_.end()) continue;
    id = found->second;
    return length;
  }
  return 0;
}

std::string T2tVocabulary::decode(std::span<const int32_t> ids) const {
  std::string escaped;
  for (const int32_t id : ids) {
    if (id == kEosId) break;
    if (id > kPadId && id < size()) escaped += subwords_[static_cast<size_t>(id)];
  }
  std::string text;
  bool after_word = false;
  for (size_t begin = 0; begin < escaped.size();) {
    const size_t end = std::min(escaped.find(kEndOfPart, begin), escaped.size());
    const std::string part = unescape(std::string_view(escaped).substr(begin, end - begin));
    begin = end + 1;
    if (part.empty()) continue;
    size_t first = 0;
    const bool word = is_word_character(next_character(part, first));
    if (after_word && word) text += ' ';
    text += part;
    after_word = word;
  }
  return text;
}

std::string T2tVocabulary::piece(int32_t id) const {
  return id < 0 || id >= size() ? std::string() : subwords_[static_cast<size_t>(id)];
}

std::unique_ptr<Vocabulary> read_t2t_vocabulary(const std::string& path) {
  return std::make_unique<T2tVocabulary>(read_file(path, "a file of subwords", kLargestVocabularyFile), path);
}

}  // namespace mtf
