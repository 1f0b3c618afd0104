// Patterns of names of variables: regular expressions that occur in them.
//
//   matches_any("block_000/dense/kernel", {"dense/", "bias$"})     // true
#pragma once

#include <string>
#include <vector>

namespace mtf {

/// True when one of the regular expressions occurs in `name`.
bool matches_any(const std::string& name, const std::vector<std::string>& patterns);

/// Returns the pattern of this name alone as a configuration has it, where `$$` is a dollar sign: "^embedding$$".
std::string exact_pattern(const std::string& name);

/// Returns what is wrong with the pattern, for a message that begins with `key`, in which it stands; empty if it is sound.
std::string pattern_problem(const std::string& key, const std::string& pattern);

}  // namespace mtf
