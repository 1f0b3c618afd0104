// mtf-bleu REFERENCE... < OUTPUT: BLEU, chrF and TER of translations. `mtf-bleu --help` says more.
#include <string>
#include <vector>

#include "trainer/metrics/bleu_main.h"

int main(int argc, char** argv) { return mtf::bleu_main(std::vector<std::string>(argv + 1, argv + argc)); }
