// Collectives among the positions of a mesh that differ only in some mesh dimensions.
//
// A collective is prepared once. Sums follow one fixed tree over the mesh coordinates (docs/numerics.md
// "Sums over mesh dimensions"), so that every implementation on the CPU gives the same bits: sum(lo, hi) =
// sum(lo, mid) + sum(mid, hi), mid = lo + the largest power of two below hi - lo; several mesh dimensions:
// the last first, nested; in float32 (float64 for float64).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "engine/core/dtype.h"
#include "engine/core/layout.h"

namespace mtf {

/// Entries that move along a dimension; `source` is a member of the group.
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
  std::vector<int64_t> group;  ///< sizes of the mesh dimensions that the group spans; members count row-major
  std::vector<int64_t> input;  ///< sizes of one member's input, row-major
  int dimension = -1;          ///< scattered, gathered, split (all_to_all) or shifted axis of the input
  int concat_dimension = -1;   ///< all_to_all: the axis that grows
  std::vector<std::vector<Transfer>>
      transfers;  ///< exchange: what each member receives; the rest becomes zero

  int64_t members() const;
};

/// A collective for one group size and shape. Stateless: used for all groups.
class PreparedCollective {
 public:
  virtual ~PreparedCollective() = default;
  /// Independent parts of one member's result; a pure function of the shapes.
  virtual int64_t tasks() const = 0;
  /// Makes tasks [begin, end) of the result of `member` from the inputs of all members. Returns the bytes
  /// that this member receives from others when every slice is reduced by its owner (reduce-scatter, then
  /// all-gather), counted from the elements handled. `guard`: that of KernelCall, for devices.
  virtual double run(std::span<const std::byte* const> inputs, int64_t member, std::byte* result,
                     int64_t begin, int64_t end, const bool* guard = nullptr) const = 0;
};

/// Among positions whose memory this host reads: results are made straight from the members' memory.
std::unique_ptr<PreparedCollective> prepare_in_process(const Collective& collective);

}  // namespace mtf
