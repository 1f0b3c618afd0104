// mtf-train FILE.yaml... [key=value...]: trains, explains or traces a model. `mtf-train --help` says more.
#include <string>
#include <vector>

#include "trainer/programs/run.h"

int main(int argc, char** argv) { return mtf::run_main(std::vector<std::string>(argv + 1, argv + argc)); }
