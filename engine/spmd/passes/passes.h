// Passes are functions from program to program. They are declared in the order in which partition() applies
// them, each is implemented in a file of its own name, and tests compare the program text before and after.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "engine/spmd/pipeline.h"
#include "engine/spmd/program.h"

namespace mtf {

/// The largest number of bytes, on one position, of a result that share_operations keeps alive for a later reader.
inline constexpr int64_t kSharedBytes = int64_t{1} << 20;

/// Leaves out variables that the program neither reads nor sets: weights of which it reads copies.
Program drop_unread_variables(Program program);

/// Sends what is the same in all iterations of a loop (a table that stages share) once, before the loop.
Program hoist_sends(Program program);

/// Makes the results of equal elementwise operations on the same operands once: the masks and weights that every
/// layer casts, constants. Dropout is left alone.
///   %1 = cast(%w), .., %5 = cast(%w)   into   %1 = cast(%w)
/// A later reader keeps the result alive. That is no loss up to kSharedBytes, while the result has other readers
/// anyway, and within the forward pass, at the end of which memory is fullest. Other operations are repeated.
Program share_operations(Program program);

/// Makes each exchange once: where the backward pass exchanges the same margins of the same tensor as the forward pass,
/// it reads those, which are kept. Margins of more than a quarter of the tensor are exchanged again instead.
Program share_exchanges(Program program);

/// Fuses into norms and their gradients what each of them would be another pass over memory for (FusedIntoNorm), with
/// the bits of the separate instructions: the mask of their result or of its gradient, the sum with the gradient that
/// goes around the norm, and, if `with_parameters`, the gradients of the scale and the bias.
///   %2 = rms_norm(%x, %s), %3 = multiply(%2, %m)            into  %3 = rms_norm(%x, %s, %m, mask)
///   %4 = multiply(%dy, %m), %5 = rms_norm_gradient(%x, %s, %4, %r), %6 = add_n(%dz, %5)
///                                                           into  %6 = rms_norm_gradient(%x, %s, %dy, %r, %m, %dz, ..)
/// Applies where the values have one layout and where no more memory is kept alive.
Program fuse_norms(Program program, bool with_parameters);

/// Replaces an all_reduce whose result is only sliced over some of its mesh dimensions by a reduce_scatter:
/// the all_reduce would move too much data.
Program fuse_reduce_scatter(Program program);

/// Moves each all_reduce and reduce_scatter directly after the instruction that makes its input. It then runs
/// while the backward pass continues, and the unreduced sum dies early.
Program start_reductions_early(Program program);

/// Moves gathers of parameters up to `layers` layers ahead of their use, within their phase.
Program schedule_gathers(Program program, int layers);

/// The largest number of bytes, on one position, that bucket_reductions puts into one all_reduce.
inline constexpr int64_t kBucketBytes = int64_t{1} << 20;

/// Merges all_reduces into one of several values if they have the same mesh dimensions, type and reduction
/// and their results vary over the same mesh dimensions, as long as no result is needed in between and the
/// bucket stays within `bytes`.
Program bucket_reductions(Program program, int64_t bytes);

/// Reorders local operations between collectives so that those that vary over the same mesh dimensions are
/// adjacent. A segment ends wherever these dimensions change; constants up to kSharedBytes come first and end none.
Program group_segments(Program program);

/// Fuses what follows a contraction into it: its bias, a gelu or relu, terms that are added to it, the sum over
/// microbatches; and into the gradient of a look-up the gradient to which it is added. For devices whose kernels
/// support this: FusedEinsum, FusedGatherGradient and KernelContext::accumulates. Applies where a single instruction
/// reads the contraction's result, in its layout:
///   %2 = einsum(%x, %w), %3 = add(%2, %b), %4 = gelu(%3)   into  %4 = fused_einsum(%x, %w, %b, bias, gelu)
///   %2 = einsum(%x, %w), %3 = add(%r, %2)                  into  %3 = fused_einsum(%x, %w, %r, addend)
///   %2 = einsum(%a, %b), %3 = einsum(%c, %d), %4 = add_n(%2, %3)
///     into  %2 = einsum(%a, %b), %4 = fused_einsum(%c, %d, %2, addend)
///   %5 = einsum(%x, %dy), %6 = accumulate(%5)              into  %6 = accumulate(%x, %dy, einsum)
/// A relu is fused only in training, where a NaN that it turns into 0 is seen by the gradients.
Program fuse_epilogues(Program program);

/// Fuses sequences and trees of elementwise operations, which then make one pass over memory. For devices
/// that generate kernels for FusedElementwise.
///   %2 = dropout(%x, rate=0.1), %3 = add(%2, %y)   into  %3 = fused_elementwise(%x, %y, #2 = dropout(#0, ..
/// An intermediate value that others read becomes a further result; one that nobody else reads needs no
/// memory. Constants that only elementwise operations read become part of them. Nothing moves across a
/// collective, and no fusion is made that would keep more memory alive for its last reader than it saves.
Program fuse_elementwise(Program program);

/// Moves each accumulate of a loop directly after the instruction that makes its term, so that a gradient of a microbatch is not
/// kept beside the sum over the microbatches until the end of the backward pass. Terms that a collective makes stay where they
/// are: it goes on while others are computed.
///   repeat 2: %1 = f(%0), %2 = g(%1), %3 = accumulate(%1), %4 = accumulate(%2)
///   into  repeat 2: %1 = f(%0), %3 = accumulate(%1), %2 = g(%1), %4 = accumulate(%2)
Program accumulate_early(Program program);

/// What takes as long as so many FLOPs of products. The order only needs to know roughly how long chunks take beside each
/// other. The defaults are rough figures of a processor such as that of configs/hardware/cpu_32_cores_100g.yaml: 85 GFLOP/s
/// and 5 GB/s of memory for each of 32 cores, which share a network of 8 GB/s.
struct PipelineCosts {
  double read_byte = 20;   ///< a byte that is read or written
  double sent_byte = 200;  ///< a byte that a collective sends
};

/// Takes the loop over microbatches apart, so that the stages of a pipeline work on different microbatches at the same time:
/// each has its microbatches in the order of the schedule (pipeline_order.h), and the instructions of all stages stand in the
/// order of their predicted moments. What is sent stands behind what makes it. Each microbatch has values of its own, so
/// that memory holds those that are between their forward and backward pass:
///   repeat 2: %1 = relu(%0) at stages=0, %2 = send(%1, to 1, stages), %3 = relu(%2) at stages=1
///   into  %1 = relu(%0), %2 = send(%1), %4 = relu(%0) of iteration 1, %3 = relu(%2), %5 = send(%4), %6 = relu(%5)
Program pipeline_loops(Program program, const Pipeline& pipeline, const PipelineCosts& costs = {});

/// Turns each collective into a start, where its inputs are ready, and a done, before the first use of a
/// result.
Program split_collectives(Program program);

/// Lets results take over the memory of an operand of which they are the last reader, and updates variables
/// in place. Sets Value::alias where Operation::in_place allows it, and removes copies into variables whose
/// new value can be computed in the variable's own memory; the guard of the copy then guards the instruction
/// that computes it.
Program reuse_memory(Program program);

struct FlightOptions {
  /// The bytes by which operands in flight may enlarge the temporaries of a position. The default is a
  /// fiftieth of the temporaries.
  std::optional<int64_t> more = {};
  /// The scratch bytes that a collective needs while it is in flight, besides the temporaries. Must be the
  /// same in all processes. Null: no collective needs any.
  std::function<int64_t(const Program& program, const Instruction& instruction)> scratch = {};
};

/// Delays the done of each collective as far as its result and memory allow. From its start to its done a
/// collective is in flight, and the memory that it reads is kept until it has been sent; Done::kept
/// lists these values. At any instruction, the operands in flight that nothing else reads any more
/// may fill the memory that the step leaves free below its peak of temporaries on a position, plus `more`
/// bytes. The scratch memory of all collectives in flight takes at most `more` bytes, or what the largest of
/// them needs. An instruction that overwrites an operand comes after the done. Collectives land in the order
/// in which they started. For programs after reuse_memory.
Program land_collectives(Program program, const FlightOptions& options = {});

/// The largest number of bytes, on one position, of values with memory of their own that a group computes
/// earlier than its members would.
inline constexpr int64_t kGroupBytes = int64_t{1} << 20;

/// Merges the operations that an optimizer runs for each variable into operations on many variables. For
/// devices that start one kernel for all of them: MultiTensor. Operations of one kind in the update, on
/// different variables, become one at the place of the first of them:
///   %a/new = adam_update(%a, ..), %b/new = adam_update(%b, ..)
///   into  %a/new, %b/new = multi_tensor(%a, .., %b, ..)
/// What only the later members need is moved before it as well. Memory is already assigned.
Program group_updates(Program program);

/// Merges the casts of variables from float32 to bfloat16 into one operation, at the place of the first of
/// them. For devices that start one kernel for all of them: MultiTensor. Only casts whose results the backward
/// pass reads join, as these live through the forward pass in any case:
///   %a = cast(%v), .., %b = cast(%w)   into   %a, %b = multi_tensor(%v, %w, 2 cast)
/// Casts that are gathered stay where schedule_gathers has put them. Memory is already assigned.
Program group_casts(Program program);

/// Makes one product of several that multiply the same tensor with tensors of one shape (the queries, keys and values
/// of a layer, and the gradients of their weights), at the place of the first of them. For devices that gain by fewer
/// and larger products. The other factors, and likewise the results, are put one after the other into common memory,
/// along a dimension `_stack`; the former values become parts of it (Value::offset):
///   %q = einsum(%x, %wq), %k = einsum(%x, %wk)
///   into  %y = einsum(%x, %w), where %wq, %wk are the parts of %w and %q, %k those of %y
/// Applies where all factors are known by then, and the last readers of the parts belong to the same layer and phase,
/// so that hardly more memory is in use. Memory is already assigned.
Program stack_products(Program program);

/// Copies results that the backward pass reads again to the memory of a GPU's machine after their last use in the forward
/// pass, and back before their first use in the backward pass. Those of at least `least_bytes` on a position, which depend on
/// the inputs of the program, move:
///   %1 = f(%x), %2 = g(%1), .. %9 = g_gradient(%1, ..)
///   into  %1 = f(%x), %2 = g(%1), %1_host = to_host(%1), .. done(%1_host), ..
///         %1_back = from_host(%1_host), .. done(%1_back), %9 = g_gradient(%1_back, ..)
/// Both copies are in flight while other instructions run. At any time at most a window of bytes is in flight to the host,
/// and another is on the GPU ahead of its first use: a sixteenth of all that is kept, or the largest value. What would come
/// back before a window of others has been read stays. Memory is already assigned.
Program offload_activations(Program program, int64_t least_bytes);

}  // namespace mtf
