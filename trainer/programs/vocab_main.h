// The program mtf-vocab: makes SentencePiece vocabularies and shows what vocabularies do to texts.
#pragma once

#include <string>
#include <vector>

namespace mtf {

/// `words`: the arguments. Returns the exit code.
int vocab_main(const std::vector<std::string>& words);

}  // namespace mtf
