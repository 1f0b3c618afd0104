#include "trainer/metrics/bleu_tokenizer.h"

#include <fmt/format.h>
#include <unicode/utf8.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "data/input_file.h"
#include "data/vocabulary/sentencepiece_vocabulary.h"
#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/replace_all.h"
#include "engine/config/types.h"
#include "trainer/metrics/rewrite_pairs.h"
#include "trainer/metrics/separate.h"
#include "trainer/metrics/unicode.h"

namespace mtf {
namespace {

constexpr std::array<std::pair<BleuTokenizer, std::string_view>, 9> kTokenizerNames = {
    {{BleuTokenizer::k13a, "13a"},
     {BleuTokenizer::kIntl, "intl"},
     {BleuTokenizer::kChar, "char"},
     {BleuTokenizer::kZh, "zh"},
     {BleuTokenizer::kNone, "none"},
     {BleuTokenizer::kSpm, "spm"},
     {BleuTokenizer::kFlores101, "flores101"},
     {BleuTokenizer::kFlores200, "flores200"},
     {BleuTokenizer::kSpBleu1k, "spBLEU-1K"}}};

/// The URL and the file name of a tokenizer's model in sacreBLEU; empty without a model.
struct ModelSource {
  std::string_view url, file;
};
ModelSource model_of(BleuTokenizer tokenizer) {
  switch (tokenizer) {
    case BleuTokenizer::kSpm:
    case BleuTokenizer::kFlores101:
      return {"https://dl.fbaipublicfiles.com/fairseq/models/flores/sacrebleu_tokenizer_spm.model",
              "sacrebleu_tokenizer_spm.model"};
    case BleuTokenizer::kFlores200:
      return {"https://tinyurl.com/flores200sacrebleuspm", "flores200sacrebleuspm"};
    case BleuTokenizer::kSpBleu1k:
      return {"https://www.dlnlp.ai/spBLEU-1K/spbleu-1k_tokenizer_spm.model",
              "spbleu-1k_tokenizer_spm.model"};
    default:
      return {};
  }
}

std::string tokenize_13a(std::string_view line) {
  std::string text = " ";
  text.append(line).append(" ");
  replace_all(text, "<skipped>", "");
  replace_all(text, "-\n", "");
  replace_all(text, "\n", " ");
  unescape(text);
  return separate_periods(separate_symbols(text));
}

/// The characters that sacreBLEU treats as Chinese: ideographs, their parts, full-width forms, dingbats. The
/// first range is an error of sacreBLEU, which wrote the ideographs from U+20000 with a four-digit escape. It
/// is kept for equal results: ’ “ … → ∞ and others become separate tokens.
constexpr std::array<std::pair<char32_t, char32_t>, 17> kChinese = {{{0x2001, 0x2a6d},
                                                                     {0x2e80, 0x2eff},
                                                                     {0x2f00, 0x2fdf},
                                                                     {0x2ff0, 0x2fff},
                                                                     {0x3000, 0x303f},
                                                                     {0x3100, 0x312f},
                                                                     {0x31a0, 0x31bf},
                                                                     {0x31c0, 0x31ef},
                                                                     {0x3200, 0x33ff},
                                                                     {0x3400, 0x4db5},
                                                                     {0x4e00, 0x9fbb},
                                                                     {0xf900, 0xfa2d},
                                                                     {0xfa30, 0xfa6a},
                                                                     {0xfa70, 0xfad9},
                                                                     {0xfe10, 0xfe1f},
                                                                     {0xfe30, 0xfe4f},
                                                                     {0xff00, 0xffef}}};

bool is_chinese(char32_t character) {
  return character >= kChinese.front().first && std::ranges::any_of(kChinese, [character](const auto& range) {
           return range.first <= character && character <= range.second;
         });
}

/// Calls `visit(bytes, character)` for each character of a text.
template <class Visit>
void for_each_character(std::string_view text, const Visit& visit) {
  const auto size = static_cast<int64_t>(text.size());
  for (int64_t begin = 0, end = 0; begin < size; begin = end) {
    UChar32 character = 0;
    U8_NEXT_OR_FFFD(text.data(), end, size, character);
    visit(text.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)),
          static_cast<char32_t>(character));
  }
}

std::string tokenize_zh(std::string_view line) {
  std::string text;
  text.reserve(2 * line.size());
  for_each_character(strip(line), [&text](std::string_view bytes, char32_t character) {
    const bool alone = is_chinese(character);
    if (alone) text += ' ';
    text += bytes;
    if (alone) text += ' ';
  });
  return separate_periods(separate_symbols(text));
}

/// A character of the line, or a blank that was inserted.
struct ClassedCharacter {
  const char* begin;
  uint32_t size;
  CharacterClass of_character;

  bool is(CharacterClass c) const { return of_character == c; }
};
using ClassedText = std::vector<ClassedCharacter>;

/// Separates punctuation that is not preceded, or not followed, by a number. Matches are found from left to
/// right and do not overlap.
ClassedText separate_punctuation(const ClassedText& text) {
  constexpr ClassedCharacter kBlank = {" ", 1, CharacterClass::kOther};
  using Character = ClassedCharacter;
  const auto first = rewrite_pairs<ClassedText>(
      text,
      [](const Character& a, const Character& b) {
        return b.is(CharacterClass::kPunctuation) && !a.is(CharacterClass::kNumber);
      },
      [&](ClassedText& output, const Character& a, const Character& b) {
        output.insert(output.end(), {a, kBlank, b, kBlank});
      });
  return rewrite_pairs<ClassedText>(
      first,
      [](const Character& a, const Character& b) {
        return a.is(CharacterClass::kPunctuation) && !b.is(CharacterClass::kNumber);
      },
      [&](ClassedText& output, const Character& a, const Character& b) {
        output.insert(output.end(), {kBlank, a, kBlank, b});
      });
}

std::string tokenize_intl(std::string_view line) {
  ClassedText text;
  text.reserve(line.size());
  for_each_character(line, [&text](std::string_view bytes, char32_t character) {
    text.push_back({bytes.data(), static_cast<uint32_t>(bytes.size()), class_of(character)});
  });
  std::string result;
  result.reserve(2 * line.size());
  for (const ClassedCharacter& character : separate_punctuation(text)) {
    const bool alone = character.is(CharacterClass::kSymbol);
    if (alone) result += ' ';
    result.append(character.begin, character.size);
    if (alone) result += ' ';
  }
  return result;
}

std::string tokenize_char(std::string_view line) {
  std::string result;
  result.reserve(2 * line.size());
  for_each_character(line, [&result](std::string_view bytes, char32_t /*character*/) {
    result += bytes;
    result += ' ';
  });
  return result;
}

}  // namespace

std::string_view name_of(BleuTokenizer tokenizer) {
  return std::ranges::find(kTokenizerNames, tokenizer, &decltype(kTokenizerNames)::value_type::first)->second;
}

std::optional<BleuTokenizer> bleu_tokenizer_named(std::string_view name) {
  const auto* const found =
      std::ranges::find(kTokenizerNames, name, &decltype(kTokenizerNames)::value_type::second);
  return found == kTokenizerNames.end() ? std::nullopt : std::optional(found->first);
}

std::vector<std::string> bleu_tokenizer_names() {
  std::vector<std::string> names;
  for (const auto& [tokenizer, name] : kTokenizerNames) names.emplace_back(name);
  return names;
}

std::string_view signature_of(BleuTokenizer tokenizer) {
  return name_of(tokenizer == BleuTokenizer::kSpm ? BleuTokenizer::kFlores101 : tokenizer);
}

std::string bleu_tokenize(std::string_view line, BleuTokenizer tokenizer,
                          const SentencePieceVocabulary* pieces) {
  line = strip_right(line);
  switch (tokenizer) {
    case BleuTokenizer::k13a:
      return tokenize_13a(line);
    case BleuTokenizer::kIntl:
      return tokenize_intl(line);
    case BleuTokenizer::kChar:
      return tokenize_char(line);
    case BleuTokenizer::kZh:
      return tokenize_zh(line);
    case BleuTokenizer::kNone:
      return std::string(line);
    case BleuTokenizer::kSpm:
    case BleuTokenizer::kFlores101:
    case BleuTokenizer::kFlores200:
    case BleuTokenizer::kSpBleu1k:
      break;
  }
  MTF_CHECK(pieces != nullptr, "the tokenizer {} has no model", name_of(tokenizer));
  return fmt::format("{}", fmt::join(pieces->pieces(line), " "));
}

std::unique_ptr<const SentencePieceVocabulary> read_pieces(BleuTokenizer tokenizer, const std::string& path) {
  const ModelSource source = model_of(tokenizer);
  if (source.file.empty()) return nullptr;
  std::string file = path;
  if (file.empty()) {
    const char* const home = std::getenv("SACREBLEU");
    file = fmt::format("{}/models/{}", home != nullptr ? home : config::expand_home("~/.sacrebleu"),
                       source.file);
    std::error_code ignored;
    if (!std::filesystem::exists(file, ignored))
      throw Error(ErrorKind::kUsage, fmt::format("-tok {}: its model is not here", name_of(tokenizer)),
                  fmt::format("download {} and name the file: `--spm-model FILE`", source.url));
  }
  return std::make_unique<SentencePieceVocabulary>(
      read_file(file, "a SentencePiece model", kLargestVocabularyFile), file);
}

}  // namespace mtf
