// Computes the initial values of variables.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/graph/variable.h"

namespace mtf {

/// Fills a slice with the variable's initial values. Element i of the whole variable (row-major, declared
/// order) is a pure function of (seed, name, i), computed in double and rounded once: stream 0 of "Random
/// numbers" in docs/numerics.md.
void fill_initial_values(const Variable& variable, uint64_t seed, const Shape& slice,
                         const std::vector<int64_t>& begin, std::byte* data);

}  // namespace mtf
