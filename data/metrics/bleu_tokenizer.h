// The tokenisers of BLEU, as sacreBLEU 2.6 has them.
//
//   bleu_tokenize("It's 3.5%.", BleuTokenizer::k13a)   // its words: It's 3.5 % .
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mtf {

enum class BleuTokenizer {
  k13a,   ///< mteval-v13a of NIST, for Western languages; the default
  kIntl,  ///< mteval-v14 with international tokenisation: punctuation and symbols of all scripts
  kChar,  ///< every character is a token
  kZh,    ///< Chinese characters are tokens; the rest as 13a
  kNone,  ///< the text is tokenised already
};

/// "13a", "intl", "char", "zh", "none".
std::string_view name_of(BleuTokenizer tokenizer);
std::optional<BleuTokenizer> bleu_tokenizer_named(std::string_view name);
std::vector<std::string> bleu_tokenizer_names();

/// `line` with white space between the tokens, where split_words finds them. White space at the end of the
/// line is ignored.
std::string bleu_tokenize(std::string_view line, BleuTokenizer tokenizer);

}  // namespace mtf
