// The ids of a language model: those of its tokeniser's file, and those of this program (data/vocabulary/renumbering.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/vocabulary/renumbering.h"
#include "trainer/programs/convert/causal_lm_config.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// Settles which tokens begin and end a text, and returns the value of `data.vocabulary`. Files to copy and notes are added to
/// `import`.
std::string settle_vocabulary(const std::string& from, const ImportTarget& target, CausalLmConfig& lm,
                              HuggingFaceImport& import);

/// Returns what the rows of the embedding are in the file, and sets begin, end and vocab_size.
std::vector<int32_t> settle_ids(const FileIds& ids, int64_t rows, CausalLmConfig& lm);

}  // namespace mtf
