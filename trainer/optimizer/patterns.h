// Patterns of names of variables: regular expressions that occur in them.
//
//   matches_any("block_000/dense/kernel", {"dense/", "bias$"})     // true
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/error.h"

namespace mtf {

/// True when one of the regular expressions occurs in `name`.
bool matches_any(const std::string& name, const std::vector<std::string>& patterns);

/// Throws Error (kConfig) at `mark` unless every pattern, which stands in `key`, occurs in one of `names`.
void check_patterns_occur(std::string_view key, const std::vector<std::string>& patterns,
                          const std::vector<std::string>& names, const Mark& mark);

/// Returns the pattern of this name alone as a configuration has it, where `$$` is a dollar sign: "^embedding$$".
std::string exact_pattern(const std::string& name);

/// Returns what is wrong with the pattern, for a message that begins with `key`, in which it stands; empty if it is sound.
std::string pattern_problem(const std::string& key, const std::string& pattern);

}  // namespace mtf
