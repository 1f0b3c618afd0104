// mtf-launch -n N -- PROGRAM ARGUMENT...: several copies of a program that work together. `mtf-launch --help`
// says more.
#include <string>
#include <vector>

#include "trainer/programs/launch/main.h"

int main(int argc, char** argv) { return mtf::launch_main(std::vector<std::string>(argv + 1, argv + argc)); }
