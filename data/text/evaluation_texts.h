// The texts of an evaluation set before tokenisation: the inputs to decode, and the references with which
// metrics (BLEU, chrF) compare the outputs.
#pragma once

#include <string>
#include <vector>

#include "data/text/text_options.h"
#include "data/text/tokenize.h"

namespace mtf {

/// Text i belongs to example i, which is row i of the evaluation source.
struct EvaluationTexts {
  std::vector<std::string> inputs;                   ///< [examples]; empty if the source has no inputs
  std::vector<std::vector<std::string>> references;  ///< [references, examples]
};

/// Reads the files of the source. If `references` (one file per reference) is not empty, it replaces the
/// source's targets. Ids are decoded by the vocabularies. Throws Error (kData) with all problems, such as a
/// reference file whose number of lines differs from the number of examples.
EvaluationTexts read_evaluation_texts(const TextSourceOptions& options,
                                      const std::vector<config::Path>& references,
                                      const TextVocabularies& vocabularies, const Mark& mark = {},
                                      const TextLimit& limit = {});

}  // namespace mtf
