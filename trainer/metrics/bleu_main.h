// The main function of mtf-bleu.
#pragma once

#include <string>
#include <vector>

namespace mtf {

/// Runs mtf-bleu with the arguments `words` and returns its exit code.
int bleu_main(const std::vector<std::string>& words);

}  // namespace mtf
