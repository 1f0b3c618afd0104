// Rewrites options in the form of Python's argparse, which sacreBLEU uses, for cxxopts: -tok VALUE, -m VALUE
// VALUE..., --tok for --tokenize.
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

/// The separator between the values of an option: a control character that cxxopts accepts.
constexpr char kValueSeparator = 0x1f;

/// Returns the words with every option as --name or --name=VALUE, and kValueSeparator between several values.
/// Long names may be abbreviated if that is unambiguous. Words that are not options, and all words after
/// "--", are unchanged. Throws Error (kUsage) for an unknown option or a missing value.
std::vector<std::string> with_long_names(const std::vector<std::string>& words,
                                         const std::vector<OptionName>& options);

}  // namespace mtf
