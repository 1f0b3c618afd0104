#include "data/labelled/word_encoder.h"

#include <unicode/uchar.h>

#include <string>

#include "data/labelled/token_rows.h"
#include "engine/base/utf8.h"

namespace mtf {
namespace {

bool is_white(char32_t c) {
  return c == U'\0' || u_isUWhiteSpace(static_cast<UChar32>(c)) || u_iscntrl(static_cast<UChar32>(c));
}

/// ASCII symbols count as punctuation, such as $, + and ^.
bool is_symbol(char32_t c) {
  if (c < 128) return (c > 32 && c < 48) || (c > 57 && c < 65) || (c > 90 && c < 97) || (c > 122 && c < 127);
  return u_ispunct(static_cast<UChar32>(c)) != 0;
}

bool stands_alone(char32_t c) {
  return is_symbol(c) || u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_UNIFIED_IDEOGRAPH);
}

/// True if the tokens of two words that are encoded one by one say nothing of the blank between them.
bool loses_blanks(const Vocabulary& vocabulary) {
  std::vector<int32_t> ids = vocabulary.encode("a");
  const std::vector<int32_t> second = vocabulary.encode("b");
  ids.insert(ids.end(), second.begin(), second.end());
  return vocabulary.decode(ids) == "ab";
}

}  // namespace

std::vector<WordSpan> words_of(std::string_view text) {
  std::vector<WordSpan> words;
  bool after_blank = false, in_word = false;
  for (size_t at = 0; at < text.size();) {
    const size_t begin = at;
    const char32_t c = next_character(text, at);
    if (is_white(c)) {
      after_blank = true;
      in_word = false;
      continue;
    }
    if (in_word && !stands_alone(c)) {
      words.back().end = at;
      continue;
    }
    words.push_back({begin, at, after_blank});
    after_blank = false;
    in_word = !stands_alone(c);
  }
  return words;
}

WordEncoder::WordEncoder(const SourceContext& context)
    : context_(context), needs_blanks_(loses_blanks(row_vocabulary(context))) {}

std::vector<int32_t> WordEncoder::encode(std::string_view word, bool after_blank) const {
  if (!needs_blanks_ || !after_blank) return encode_text(context_, word);
  return encode_text(context_, " " + std::string(word));
}

}  // namespace mtf
