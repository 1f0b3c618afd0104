// When the memory of each value of a program is in use.
//
// Time counts the instructions of the flattened program: each is one moment; a loop has one before its body
// and one after it.
#pragma once

#include <vector>

#include "engine/spmd/program.h"

namespace mtf {

struct Lifetime {
  int64_t begin = -1;  ///< -1: nothing reads or writes the value
  int64_t end = -1;

  bool overlaps(const Lifetime& other) const { return begin <= other.end && other.begin <= end; }
};

/// By value: from the first to the last instruction that reads or writes its memory. Values in the memory of
/// another one have none of their own; what lives beyond an iteration of a loop lives during the whole loop.
std::vector<Lifetime> lifetimes(const Program& program);

/// Bytes of temporaries in use on one position, by moment. `lifetimes`: those of the program.
std::vector<int64_t> bytes_in_use(const Program& program, const std::vector<Lifetime>& lifetimes);

/// `bytes` rounded up to whole cache lines, at which values begin.
constexpr int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace mtf
