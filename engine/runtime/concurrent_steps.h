// Finds steps that may run at the same time, so that workers wait for each other once for several steps. The tasks of a
// single one are often too few, or too short.
//
//   steps.ends = concurrent_steps(program, steps.steps);    // {2, 3}: the first two steps together, then the third one
#pragma once

#include <cstddef>
#include <vector>

#include "engine/spmd/program.h"

namespace mtf {

struct KernelStep;

/// The most steps that run at the same time; each is compared with the others.
constexpr size_t kMostConcurrentSteps = 32;

/// Returns the ends of groups of consecutive steps, in each of which no step reads or writes memory that another one writes.
std::vector<size_t> concurrent_steps(const Program& program, const std::vector<KernelStep>& steps);

}  // namespace mtf
