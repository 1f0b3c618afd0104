#include "engine/base/placed_at.h"

#include <utility>
#include <vector>

namespace mtf {

Error placed_at(const Error& error, const Mark& mark) {
  std::vector<Problem> problems = error.problems();
  for (Problem& problem : problems) {
    if (!problem.mark.known()) problem.mark = mark;
  }
  return Error(std::move(problems));
}

}  // namespace mtf
