// The formats that text_reader.h reads, one class each in text_formats.cc and tfrecord_format.cc.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/text/text_reader.h"

namespace mtf {

/// What all formats need beside their options.
struct FormatContext {
  const std::vector<std::string>& files;  ///< of the group
  const TextLimit& limit;
  const BySide<int64_t>& vocabulary_sizes;
  TextProblems& problems;
  int64_t& blank_lines;  ///< counted where they are passed over
};

}  // namespace mtf
