// Problems as a user reads them.
#pragma once

#include <string>
#include <vector>

#include "engine/base/error.h"

namespace mtf {

inline std::vector<std::string> texts(const std::vector<Problem>& problems) {
  std::vector<std::string> result;
  for (const Problem& problem : problems) result.push_back(problem.to_string());
  return result;
}

/// Returns the problems one per line, each with its end of line.
inline std::string lines_of(const std::vector<Problem>& problems) {
  std::string result;
  for (const Problem& problem : problems) result += problem.to_string() + "\n";
  return result;
}

}  // namespace mtf
