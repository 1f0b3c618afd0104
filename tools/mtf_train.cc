// mtf-train FILE.yaml... [key=value...] trains, evaluates or explains a model. See `mtf-train --help`.
#include <string>
#include <vector>

#include "trainer/programs/run.h"

int main(int argc, char** argv) { return mtf::run_main(std::vector<std::string>(argv + 1, argv + argc)); }
