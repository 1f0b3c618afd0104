// mtf-vocab --output FILE.model TEXT... trains a SentencePiece vocabulary. See `mtf-vocab --help`.
#include <string>
#include <vector>

#include "trainer/programs/vocab_main.h"

int main(int argc, char** argv) { return mtf::vocab_main(std::vector<std::string>(argv + 1, argv + argc)); }
