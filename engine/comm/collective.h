// Collectives between the mesh positions of a group: positions that differ only along some mesh dimensions.
//
// A collective is prepared once and run many times. Sums follow one fixed binary tree over the mesh
// coordinates (docs/numerics.md "Sums over mesh dimensions"), so that every implementation on the CPU gives
// the same bits: sum(lo, hi) = sum(lo, mid) + sum(mid, hi), where mid = lo + the largest power of two below
// hi - lo. Several mesh dimensions are nested, the last one innermost. Sums are computed in float32, or in
// float64 for float64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/layout.h"

namespace mtf {

/// A range of entries along a dimension that moves to a member; `source` is the member that has it.
struct Transfer {
  int64_t source = 0;
  int64_t source_begin = 0;
  int64_t begin = 0;
  int64_t count = 0;
};

struct Collective {
  enum class Kind { kAllReduce, kReduceScatter, kAllGather, kAllToAll, kExchange };

  Kind kind = Kind::kAllReduce;
  Reduction reduction = Reduction::kSum;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> group;  ///< sizes of the mesh dimensions of the group; members are numbered row-major
  std::vector<int64_t> input;  ///< sizes of the input of one member, row-major
  int dimension = -1;          ///< axis of the input that is scattered, gathered, split or shifted
  int concat_dimension = -1;   ///< all_to_all: the axis that grows
  std::vector<std::vector<Transfer>>
      transfers;  ///< exchange: what each member receives; other entries become zero

  int64_t members() const;
};

/// A prepared collective for one group size and shape. It has no state, so it is used for all groups.
class PreparedCollective {
 public:
  virtual ~PreparedCollective() = default;
  /// Returns the number of independent tasks that compute the result of one member; it only depends on the
  /// shapes.
  virtual int64_t tasks() const = 0;
  /// Computes tasks [begin, end) of the result of `member` from the inputs of all members. Returns the bytes
  /// that this member would receive from others if each slice were reduced by its owner (reduce-scatter, then
  /// all-gather), for the elements of these tasks. `guard` is that of KernelCall, for devices.
  virtual double run(std::span<const std::byte* const> inputs, int64_t member, std::byte* result,
                     int64_t begin, int64_t end, const bool* guard = nullptr) const = 0;
};

/// Prepares a collective between positions whose memory this process can read: results are computed directly
/// from the members' memory.
std::unique_ptr<PreparedCollective> prepare_in_process(const Collective& collective);

}  // namespace mtf
