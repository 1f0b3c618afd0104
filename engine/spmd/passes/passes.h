// Passes: functions from program to program, each in a file of its own name, in the order in which
// partition() applies them; each is tested by the text before and after.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

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

/// What follows a contraction is done by the contraction itself: its bias, a gelu, the sum over microbatches.
/// For devices whose kernels can: FusedEinsum, and KernelContext::accumulates. Fuses where one instruction
/// alone reads the contraction's result, in its layout:
///   %2 = einsum(%x, %w), %3 = add(%2, %b), %4 = gelu(%3)   into  %4 = fused_einsum(%x, %w, %b, bias, gelu)
///   %5 = einsum(%x, %dy), %6 = accumulate(%5)              into  %6 = accumulate(%x, %dy, einsum)
Program fuse_epilogues(Program program);

/// Fusions and trees of elementwise operations are done in one pass over memory. For devices that make kernels
/// for them: FusedElementwise.
///   %2 = dropout(%x, rate=0.1), %3 = add(%2, %y)   into  %3 = fused_elementwise(%x, %y, #2 = dropout(#0, ..
/// What others read, too, is a further result; what nobody else reads needs no memory. Constants that
/// elementwise operations alone read become part of them. Nothing moves across a collective, and nothing
/// waits for its last reader where that takes more memory than before.
Program fuse_elementwise(Program program);

/// Turns each collective into a start, where its inputs are ready, and a done, before the first use of a
/// result.
Program split_collectives(Program program);

/// Results take over the memory of an operand whose last reader they are, and variables are updated where
/// they stand: sets Value::alias where Operation::in_place allows it, and removes copies into variables whose
/// new value can be made in the variable's own memory (the guard of the copy then guards the instruction that
/// makes it).
Program reuse_memory(Program program);

struct FlightOptions {
  /// Bytes by which operands in flight may enlarge the temporaries of a position; nothing: a fiftieth of
  /// these.
  std::optional<int64_t> more = {};
  /// Bytes that a collective has for itself while it is in flight, beside the temporaries; null: none. The
  /// same in all processes.
  std::function<int64_t(const Program& program, const Instruction& instruction)> scratch = {};
};

/// From its start to its done a collective is in flight, and what it reads keeps its memory until it has been
/// sent. Puts each done as late as its result and memory allow, and writes into Instruction::kept what the
/// collectives read until then. Along the program the operands in flight, which nothing else reads any more,
/// may fill what the step leaves free below its largest need of temporaries on a position, and take `more`
/// bytes beyond it; the scratch memory of several takes no more than `more` or what the largest has. A done
/// stands before what writes over an operand. Collectives land in the order in which they started. For
/// programs after reuse_memory.
Program land_collectives(Program program, const FlightOptions& options = {});

/// Largest number of bytes, on one position, of values that have memory of their own and that a group makes
/// earlier than its members would.
inline constexpr int64_t kGroupBytes = int64_t{1} << 20;

/// What an optimizer does with each variable is done for many at once. For devices that start one kernel for
/// all: MultiTensor. Puts operations of one kind of the update, on different variables, into one where the first
/// of them is:
///   %a/new = adam_update(%a, ..), %b/new = adam_update(%b, ..)   into  %a/new, %b/new = multi_tensor(%a, .., %b,
///   ..)
/// What only its later members need comes before it, too. The last pass: memory is assigned already.
Program group_updates(Program program);

}  // namespace mtf
