// The program behind `mtf-train`: from the words of the command line to one of the modes.
#pragma once

#include <string>
#include <vector>

namespace mtf {

/// What the command line asks for.
struct CommandLine {
  bool help = false;
  bool help_config = false;
  bool list_devices = false;
  bool list_layers = false;
  bool version = false;
  std::string section;                 ///< of --help-config; empty: all
  std::string layer;                   ///< of --list-layers; empty: all
  std::vector<std::string> files;      ///< FILE.yaml
  std::vector<std::string> arguments;  ///< key=value
};

/// Throws Error (kUsage) for words that are neither options, files nor key=value.
CommandLine parse_command_line(const std::vector<std::string>& words);

/// Does what the command line asks for. Returns the exit code; throws Error.
int run(const CommandLine& command_line);

/// run() with errors printed to standard error; the program's exit code.
int run_main(const std::vector<std::string>& words);

}  // namespace mtf
