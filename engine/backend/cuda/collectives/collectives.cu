// Collectives among positions of one device: each result is computed directly from the members' memory.
#include <utility>
#include <vector>

#include "engine/backend/cuda/collectives/tree_reduction.h"
#include "engine/backend/cuda/movement/copy_blocks.h"
#include "engine/backend/cuda/movement/moves.h"
#include "engine/comm/move_plan.h"

namespace mtf::cuda {
namespace {

/// all_reduce, and reduce_scatter along an axis.
class Reduce final : public PreparedCollective {
 public:
  Reduce(const Collective& c, Device& device)
      : device_(device),
        reduction_(prepare_device_reduction(reduction_tree(c.group), c.dtype, c.reduction, true, device)),
        element_(static_cast<int64_t>(size_of(c.dtype))),
        members_(c.members()),
        scatter_(c.kind == Collective::Kind::kReduceScatter),
        extent_(c.input, scatter_ ? c.dimension : 0) {
    if (!scatter_) extent_.size *= std::exchange(extent_.inner, 1);
    part_ = extent_.size / (scatter_ ? members_ : 1) * extent_.inner;
    size_ = extent_.outer * part_;
  }

  int64_t tasks() const override { return 1; }

  double run(std::span<const std::byte* const> inputs, int64_t member, std::byte* result, int64_t, int64_t,
             const bool* guard) const override {
    const int64_t begin = scatter_ ? member * part_ * element_ : 0;
    std::vector<DeviceReduction::Operand> operands;
    for (const std::byte* input : inputs) operands.push_back({input + begin, extent_.size * extent_.inner});
    reduction_->run(Launcher(device_, guard), operands, part_, size_, result);
    const auto received = static_cast<double>(size_ * element_);
    const auto others = static_cast<double>(members_ - 1);
    return received * (scatter_ ? others : 2 * others / static_cast<double>(members_));
  }

 private:
  Device& device_;
  std::unique_ptr<DeviceReduction> reduction_;
  int64_t element_;  ///< bytes of an element
  int64_t members_;
  bool scatter_;
  AxisExtent extent_;
  int64_t part_ = 0, size_ = 0;  ///< elements of the result in one row of the outer axes, and in all
};

/// The copy of a piece from the input of its source to the result.
BlockCopy copy_of(const MovePlan& plan, const StridedCopy& piece, const std::byte* input, std::byte* result) {
  return {.from = input + piece.source_begin,
          .to = result + piece.begin,
          .rows = plan.rows,
          .runs = piece.count,
          .length = piece.length,
          .from_row = plan.source_row,
          .to_row = plan.result_row,
          .from_run = piece.source_step,
          .to_run = piece.step};
}

/// all_gather, all_to_all and exchange.
class StridedCopies final : public PreparedCollective {
 public:
  StridedCopies(MovePlan plan, Device& device) : plan_(std::move(plan)), device_(device) {}

  int64_t tasks() const override { return 1; }

  double run(std::span<const std::byte* const> inputs, int64_t member, std::byte* result, int64_t, int64_t,
             const bool* guard) const override {
    std::vector<BlockCopy> copies;
    int64_t received = 0;
    for (const StridedCopy& piece : plan_.of(member)) {
      copies.push_back(copy_of(plan_, piece, inputs[piece.source], result));
      if (piece.source != member) received += plan_.rows * piece.count * piece.length;
    }
    for (const StridedCopy& piece : plan_.zeros(member)) {
      copies.push_back({.to = result + piece.begin,
                        .rows = plan_.rows,
                        .length = piece.length,
                        .to_row = plan_.result_row});
    }
    copy_blocks(Launcher(device_, guard), copies);
    return static_cast<double>(received);
  }

 private:
  MovePlan plan_;
  Device& device_;
};

}  // namespace

std::unique_ptr<PreparedCollective> prepare_device_collective(const Collective& c, Device& device) {
  if (c.kind == Collective::Kind::kAllReduce || c.kind == Collective::Kind::kReduceScatter)
    return std::make_unique<Reduce>(c, device);
  return std::make_unique<StridedCopies>(plan_moves(c), device);
}

}  // namespace mtf::cuda
