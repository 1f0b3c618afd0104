// mtf-compare RUN_A RUN_B reports whether two runs differ, and where first. See `mtf-compare --help`.
#include <string>
#include <vector>

#include "trainer/programs/compare/compare.h"

int main(int argc, char** argv) { return mtf::compare_main(std::vector<std::string>(argv + 1, argv + argc)); }
