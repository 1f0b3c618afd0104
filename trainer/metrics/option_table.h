// Options in the form of Python's argparse, which sacreBLEU uses and cxxopts cannot read: -tok VALUE,
// -m VALUE VALUE..., --tok for --tokenize.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mtf {

enum class Takes { kNothing, kValue, kValues };

struct OptionName {
  std::string_view name;        ///< without --
  std::string_view short_name;  ///< without -; may be empty
  Takes takes;
};

/// Between the values of an option: a control character that cxxopts can read.
constexpr char kValueSeparator = 0x1f;

/// Every option as --name or --name=VALUE; several values have kValueSeparator between them. Long names may
/// be shortened as long as one option is meant. Words that are no options stay as they are, all of them after
/// "--". Throws Error (kUsage) for what is no option, and where a value is missing.
std::vector<std::string> with_long_names(const std::vector<std::string>& words,
                                         const std::vector<OptionName>& options);

}  // namespace mtf
