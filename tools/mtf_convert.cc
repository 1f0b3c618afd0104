// mtf-convert FROM TO: weights from one format into another. `mtf-convert --help` says more.
#include <string>
#include <vector>

#include "trainer/programs/convert/main.h"

int main(int argc, char** argv) { return mtf::convert_main(std::vector<std::string>(argv + 1, argv + argc)); }
