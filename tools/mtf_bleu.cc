// mtf-bleu REFERENCE... < OUTPUT computes BLEU, chrF and TER of translations. See `mtf-bleu --help`.
#include <string>
#include <vector>

#include "trainer/metrics/bleu_main.h"

int main(int argc, char** argv) { return mtf::bleu_main(std::vector<std::string>(argv + 1, argv + argc)); }
