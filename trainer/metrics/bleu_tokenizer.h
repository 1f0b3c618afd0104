// The tokenisers of BLEU, with the same results as those of sacreBLEU 2.6.
//
//   bleu_tokenize("It's 3.5%.", BleuTokenizer::k13a)   // its words are: It's 3.5 % .
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mtf {

class SentencePieceVocabulary;

enum class BleuTokenizer {
  k13a,   ///< mteval-v13a of NIST, for Western languages; the default
  kIntl,  ///< mteval-v14 with international tokenisation: punctuation and symbols of all scripts
  kChar,  ///< every character is a token
  kZh,    ///< each Chinese character is a token; the rest is tokenised as by 13a
  kNone,  ///< the text is already tokenised
  // The following tokenisers use a SentencePiece model that sacreBLEU downloads.
  kSpm,        ///< the old name of kFlores101
  kFlores101,  ///< the model of the FLORES-101 benchmark (Goyal et al., 2022)
  kFlores200,  ///< the model of FLORES-200 (NLLB Team, 2022)
  kSpBleu1k,   ///< the model spBLEU-1K for 1,000 languages
};

/// Returns "13a", "intl", "char", "zh", "none", "spm", "flores101", "flores200" or "spBLEU-1K".
std::string_view name_of(BleuTokenizer tokenizer);
/// Returns the name in a signature: that of name_of(), but "flores101" for kSpm.
std::string_view signature_of(BleuTokenizer tokenizer);
std::optional<BleuTokenizer> bleu_tokenizer_named(std::string_view name);
std::vector<std::string> bleu_tokenizer_names();

/// Returns `line` with white space between the tokens, for split_words(). White space at the end of the line
/// is ignored. `pieces` is the model, for tokenisers that have one.
std::string bleu_tokenize(std::string_view line, BleuTokenizer tokenizer,
                          const SentencePieceVocabulary* pieces = nullptr);

/// Reads the model of a tokenizer, or returns null if it has none. The model is in the file `path` or, if
/// that is empty, in the file that sacreBLEU has downloaded to $SACREBLEU/models, by default
/// ~/.sacrebleu/models. Throws Error: kUsage, with the model's URL, when the downloaded file does not exist;
/// kData when the file is no model.
std::unique_ptr<const SentencePieceVocabulary> read_pieces(BleuTokenizer tokenizer, const std::string& path);

}  // namespace mtf
