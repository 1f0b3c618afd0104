// The ids of a BART and its relatives: those of the tokeniser's files, and those of this program
// (data/vocabulary/renumbering.h). Padding of the file becomes id 0, and what ends a text id 1.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "trainer/config/config.h"
#include "trainer/programs/convert/bart_config.h"
#include "trainer/programs/convert/hugging_face.h"

namespace mtf {

/// What the ids here are in the file.
struct BartIds {
  std::vector<int32_t> inputs, targets;
};

/// Settles the ids of both sides and bart.forced_begin, and returns the value of `data.vocabulary`. Files to copy and notes
/// are added to `import`. Throws Error (kCheckpoint) for a tokeniser that is none of this model.
std::string settle_bart_vocabulary(const std::string& from, const ImportTarget& target, BartConfig& bart,
                                   BartIds& ids, HuggingFaceImport& import);

/// A value of `data.vocabulary` with so many ids, without files.
std::string vocabulary_of_sizes(int64_t inputs, int64_t targets);

/// Settles what the ids of a run are in Hugging Face form, with padding, end, begin, forced_begin and the lengths of decoding
/// in `bart`, and writes the files of the tokeniser. Throws Error.
BartIds export_bart_vocabulary(const Config& config, const std::string& directory, BartConfig& bart,
                               std::vector<std::string>& notes);

}  // namespace mtf
