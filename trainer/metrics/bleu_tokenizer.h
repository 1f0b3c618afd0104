// The tokenisers of BLEU, as sacreBLEU 2.6 has them.
//
//   bleu_tokenize("It's 3.5%.", BleuTokenizer::k13a)   // its words: It's 3.5 % .
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
  kZh,    ///< Chinese characters are tokens; the rest as 13a
  kNone,  ///< the text is tokenised already
  // The pieces of a SentencePiece model that sacreBLEU downloads.
  kSpm,        ///< as kFlores101, under its old name
  kFlores101,  ///< of the FLORES-101 benchmark (Goyal et al., 2022)
  kFlores200,  ///< of FLORES-200 (NLLB Team, 2022)
  kSpBleu1k,   ///< spBLEU-1K, of 1,000 languages
};

/// "13a", "intl", "char", "zh", "none", "spm", "flores101", "flores200", "spBLEU-1K".
std::string_view name_of(BleuTokenizer tokenizer);
/// In a signature: the name, but "flores101" for kSpm.
std::string_view signature_of(BleuTokenizer tokenizer);
std::optional<BleuTokenizer> bleu_tokenizer_named(std::string_view name);
std::vector<std::string> bleu_tokenizer_names();

/// `line` with white space between the tokens, where split_words finds them. White space at the end of the
/// line is ignored. `pieces`: of a tokenizer with a model.
std::string bleu_tokenize(std::string_view line, BleuTokenizer tokenizer,
                          const SentencePieceVocabulary* pieces = nullptr);

/// The model of a tokenizer that has one, nothing for the others: the file `path`, or where that is empty the
/// one that sacreBLEU has downloaded (to $SACREBLEU/models, by default ~/.sacrebleu/models). Throws Error:
/// kUsage, with its address, when it is not there; kData when it is no model.
std::unique_ptr<const SentencePieceVocabulary> read_pieces(BleuTokenizer tokenizer, const std::string& path);

}  // namespace mtf
