// The program `mtf-launch`, which runs several copies of a program on this machine.
#pragma once

#include <string>
#include <vector>

#include "trainer/programs/launch/launcher.h"

namespace mtf {

/// The parsed command line. With `help` or `version` nothing is launched.
struct LaunchWords {
  LaunchCommand launch;
  bool help = false;
  bool version = false;
};

/// Parses the command line. Options end at `--` or at the first word that is not an option, the program.
/// Throws Error (kUsage).
LaunchWords parse_launch_words(const std::vector<std::string>& words);

/// Runs mtf-launch and returns its exit code.
int launch_main(const std::vector<std::string>& words);

}  // namespace mtf
