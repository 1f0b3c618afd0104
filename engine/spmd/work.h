// The work of an instruction on one position: its kind, FLOPs, and bytes of memory that it reads and writes.
//
//   if (const std::optional<Work> work = work_of(program, instruction)) total[work->kind].bytes += work->bytes;
#pragma once

#include <optional>
#include <string_view>

#include "engine/spmd/program.h"

namespace mtf {

enum class WorkKind {
  kProduct,      ///< contractions: matrix products, convolutions
  kAttention,    ///< attention and its gradient
  kElementwise,  ///< each element of the result depends on one element of each operand
  kNorm,         ///< normalizations and the moments that they use
  kReduction,    ///< softmax, losses, sums, pools, and all that belongs to no other kind
  kMovement,     ///< copies, transposes, slices, lookups in tables
  kUpdate,       ///< all else in the phase of updates, norms of gradients included
  kCollective,
};
inline constexpr size_t kWorkKinds = static_cast<size_t>(WorkKind::kCollective) + 1;

/// "products", "attention", "elementwise", "norms", "reductions", "movement", "updates", "collectives".
std::string_view name_of(WorkKind kind);
/// True for contractions and attention, which are bound by FLOPs; the others are bound by bytes.
constexpr bool has_flops(WorkKind kind) { return kind == WorkKind::kProduct || kind == WorkKind::kAttention; }

/// What one position does in one execution.
struct Work {
  WorkKind kind = WorkKind::kReduction;
  double flops = 0;
  /// Bytes read and written: each operand and each result once. Tables count the rows that are looked up, and
  /// an operation that changes a part of its operand in place counts that part. Collectives: bytes sent.
  double bytes = 0;
};

/// Returns the work of an instruction; nothing for a loop, whose body has the work, and for a wait.
std::optional<Work> work_of(const Program& program, const Instruction& instruction);

}  // namespace mtf
