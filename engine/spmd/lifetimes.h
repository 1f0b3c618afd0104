// Computes when the memory of each value of a program is in use.
//
// Time counts the instructions of the flattened program. Each instruction is one moment; a loop is one moment
// before its body and one after it.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/spmd/program.h"

namespace mtf {

struct Lifetime {
  int64_t begin = -1;  ///< -1 if nothing reads or writes the value
  int64_t end = -1;
};

/// The lifetime of each value, by value id: from the first to the last instruction that reads or writes its
/// memory. Values that share the memory of another one have no lifetime of their own. A value that lives
/// beyond an iteration of a loop lives during the whole loop.
std::vector<Lifetime> lifetimes(const Program& program);

/// The bytes of temporaries in use on one position, by moment, without those in the host's memory. `lifetimes` are those of the program.
std::vector<int64_t> bytes_in_use(const Program& program, const std::vector<Lifetime>& lifetimes);

/// `bytes` rounded up to whole cache lines, at which values are aligned.
constexpr int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace mtf
