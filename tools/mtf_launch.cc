// mtf-launch -n N -- PROGRAM ARGUMENT... runs several copies of a program that work together. See `mtf-launch
// --help`.
#include <string>
#include <vector>

#include "trainer/programs/launch/main.h"

int main(int argc, char** argv) { return mtf::launch_main(std::vector<std::string>(argv + 1, argv + argc)); }
