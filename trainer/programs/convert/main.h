// The program mtf-convert: weights from one format into another.
#pragma once

#include <string>
#include <vector>

namespace mtf {

/// `words`: the arguments. Returns the exit code.
int convert_main(const std::vector<std::string>& words);

}  // namespace mtf
