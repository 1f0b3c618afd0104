// mtf-bleu as a function.
#pragma once

#include <string>
#include <vector>

namespace mtf {

/// Runs mtf-bleu with the words of its command line and returns its exit code.
int bleu_main(const std::vector<std::string>& words);

}  // namespace mtf
