// The text formats that text_reader.h reads. Each is a class in text_formats.cc or tfrecord_format.cc.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/text/text_reader.h"

namespace mtf {

/// The arguments that every format needs besides its options.
struct FormatContext {
  const std::vector<std::string>& files;  ///< the files of one group, which are read side by side
  const TextLimit& limit;
  const BySide<int64_t>& vocabulary_sizes;
  TextProblems& problems;
  int64_t& blank_lines;  ///< incremented for each blank line that is skipped
};

}  // namespace mtf
