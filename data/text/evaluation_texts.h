// The texts of an evaluation set as people wrote them: what is decoded, and what the result is compared with
// (BLEU, chrF).
#pragma once

#include <string>
#include <vector>

#include "data/text/text_options.h"
#include "data/text/tokenize.h"

namespace mtf {

/// Text i is that of example (row) i of the source for evaluation.
struct EvaluationTexts {
  std::vector<std::string> inputs;                   ///< [examples]; empty without inputs
  std::vector<std::vector<std::string>> references;  ///< [references, examples]
};

/// Reads the files of the source, and `references` (a file each) in place of its targets where they are
/// given. Where the files hold ids the texts are what the vocabularies decode. Throws Error (kData) with all
/// that is wrong, such as references with another number of lines than there are examples.
EvaluationTexts read_evaluation_texts(const TextSourceOptions& options,
                                      const std::vector<config::Path>& references,
                                      const TextVocabularies& vocabularies, const Mark& mark = {},
                                      const TextLimit& limit = {});

}  // namespace mtf
