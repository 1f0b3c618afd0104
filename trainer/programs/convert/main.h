// The program mtf-convert, which converts weights from one format to another.
#pragma once

#include <string>
#include <vector>

namespace mtf {

/// Runs mtf-convert with the arguments `words` and returns the exit code.
int convert_main(const std::vector<std::string>& words);

}  // namespace mtf
