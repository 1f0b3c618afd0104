// The program mtf-vocab, which trains SentencePiece vocabularies, and encodes and decodes texts.
#pragma once

#include <string>
#include <vector>

namespace mtf {

/// Runs mtf-vocab with the arguments `words` and returns the exit code.
int vocab_main(const std::vector<std::string>& words);

}  // namespace mtf
