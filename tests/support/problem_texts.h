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

}  // namespace mtf
