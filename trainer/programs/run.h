// The program `mtf-train`: parses the command line and runs one of the modes.
#pragma once

#include <string>
#include <vector>

namespace mtf {

/// The parsed command line.
struct CommandLine {
  bool help = false;
  bool help_config = false;
  bool list_devices = false;
  bool list_layers = false;
  bool version = false;
  std::string section;                 ///< argument of --help-config; empty: all
  std::string layer;                   ///< argument of --list-layers; empty: all
  std::vector<std::string> files;      ///< the configuration files
  std::vector<std::string> arguments;  ///< the words of the form key=value
};

/// Parses the command line. Throws Error (kUsage) for words that are not options, files or key=value.
CommandLine parse_command_line(const std::vector<std::string>& words);

/// Executes the command line and returns the exit code. Throws Error.
int run(const CommandLine& command_line);

/// Parses and executes the command line, prints errors to standard error, and returns the program's exit
/// code.
int run_main(const std::vector<std::string>& words);

}  // namespace mtf
