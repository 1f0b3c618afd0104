// The program `mtf-launch`: several copies of a program on this machine.
#pragma once

#include <string>
#include <vector>

#include "trainer/programs/launch/launcher.h"

namespace mtf {

/// The words of the command line. `help` and `version` ask for no launch.
struct LaunchWords {
  LaunchCommand launch;
  bool help = false;
  bool version = false;
};

/// Throws Error (kUsage). Options end at `--` or at the first word that is none: the program.
LaunchWords parse_launch_words(const std::vector<std::string>& words);

/// The program's exit code.
int launch_main(const std::vector<std::string>& words);

}  // namespace mtf
