// Passes: small functions from program to program, each tested by the text before and after.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/spmd/program.h"

namespace mtf {

/// all_reduce followed by nothing but a slice over one of its mesh dimensions moves too much data:
/// reduce_scatter does both.
Program fuse_reduce_scatter(Program program);

/// Moves each all_reduce and reduce_scatter to right after the instruction that makes its input: it runs
/// while the backward pass goes on, and the unreduced sum dies early.
Program start_reductions_early(Program program);

/// Moves gathers of parameters up to `layers` layers ahead of their use, within their phase.
Program schedule_gathers(Program program, int layers);

/// Largest number of bytes, on one position, that bucket_reductions puts into one all_reduce.
inline constexpr int64_t kBucketBytes = int64_t{1} << 20;

/// Merges all_reduces over the same mesh dimensions, of the same type and kind, with results that vary alike,
/// into one of several values, as long as no result is needed in between and the bucket stays within `bytes`.
Program bucket_reductions(Program program, int64_t bytes);

/// Reorders local operations between collectives so that those that vary over the same mesh dimensions stand
/// together: each change ends a segment.
Program group_segments(Program program);

/// Turns each collective into a start, where its inputs are ready, and a done, before the first use of a
/// result.
Program split_collectives(Program program);

/// Decides the memory order of every value. The CPU kernels read and write declared order (einsum packs what
/// does not suit it), so all values keep it.
Program set_memory_orders(Program program);

/// Which values an instruction, its body included, reads and writes.
std::vector<ValueId> reads(const Instruction& instruction);
std::vector<ValueId> writes(const Instruction& instruction);
/// Number of readers of each value: instructions, views and program outputs.
std::unordered_map<ValueId, int> count_uses(const Program& program);

}  // namespace mtf
