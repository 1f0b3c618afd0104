// mtf-convert FROM TO converts weights from one format to another. See `mtf-convert --help`.
#include <string>
#include <vector>

#include "trainer/programs/convert/main.h"

int main(int argc, char** argv) { return mtf::convert_main(std::vector<std::string>(argv + 1, argv + argc)); }
