#include <algorithm>
#include <cstring>
#include <utility>

#include "engine/base/check.h"
#include "engine/comm/communicator.h"
#include "engine/comm/move_plan.h"
#include "engine/comm/tree_sum.h"

namespace mtf {
namespace {

constexpr int64_t kTaskElements = 1 << 15;

int64_t product(const std::vector<int64_t>& sizes) {
  int64_t result = 1;
  for (int64_t size : sizes) result *= size;
  return result;
}

/// all_reduce, and reduce_scatter along an axis.
class Reduce final : public PreparedCollective {
 public:
  explicit Reduce(const Collective& c)
      : reduction_(prepare_reduction(reduction_tree(c.group), c.dtype, c.reduction)),
        bytes_(static_cast<int64_t>(size_of(c.dtype))),
        members_(c.members()),
        scatter_(c.kind == Collective::Kind::kReduceScatter),
        extent_(c.input, scatter_ ? c.dimension : 0) {
    if (!scatter_) extent_.size *= std::exchange(extent_.inner, 1);
    part_ = (scatter_ ? extent_.size / members_ : extent_.size) * extent_.inner;
  }

  int64_t tasks() const override { return (extent_.outer * part_ + kTaskElements - 1) / kTaskElements; }

  double run(std::span<const std::byte* const> inputs, int64_t member, std::byte* result, int64_t begin,
             int64_t end, const bool*) const override {
    const int64_t last = std::min(end * kTaskElements, extent_.outer * part_);
    for (int64_t i = begin * kTaskElements; i < last;) {
      // A part of the result that is contiguous in the inputs as well.
      const int64_t row = i / part_, column = i % part_;
      const int64_t count = std::min(part_ - column, last - i);
      const int64_t source = scatter_ ? row * extent_.size * extent_.inner + member * part_ + column : i;
      reduction_->reduce(inputs, source, count, result + i * bytes_);
      i += count;
    }
    const auto received = static_cast<double>((last - begin * kTaskElements) * bytes_);
    const auto others = static_cast<double>(members_ - 1);
    return received * (scatter_ ? others : 2 * others / static_cast<double>(members_));
  }

 private:
  std::unique_ptr<TreeReduction> reduction_;
  int64_t bytes_;  ///< bytes of an element
  int64_t members_;
  bool scatter_;
  AxisExtent extent_;
  int64_t part_;  ///< number of elements of the result in one row of the outer axes
};

/// all_gather, all_to_all and exchange: copies rows of bytes from members. A task copies some rows of the
/// outer axes.
class Move final : public PreparedCollective {
 public:
  explicit Move(MovePlan plan) : plan_(std::move(plan)) {
    rows_per_task_ = std::max<int64_t>(1, kTaskElements * 4 / std::max<int64_t>(1, plan_.result_row));
  }

  /// Returns 0 if the rows are empty.
  int64_t tasks() const override {
    return plan_.result_row == 0 ? 0 : (plan_.rows + rows_per_task_ - 1) / rows_per_task_;
  }

  double run(std::span<const std::byte* const> inputs, int64_t member, std::byte* result, int64_t begin,
             int64_t end, const bool*) const override {
    int64_t received = 0;
    for (int64_t row = begin * rows_per_task_; row < std::min(end * rows_per_task_, plan_.rows); ++row) {
      std::byte* out = result + row * plan_.result_row;
      if (plan_.zero) std::memset(out, 0, static_cast<size_t>(plan_.result_row));
      for (const StridedCopy& piece : plan_.of(member)) {
        const std::byte* in = inputs[piece.source] + row * plan_.source_row + piece.source_begin;
        for (int64_t k = 0; k < piece.count; ++k) {
          std::memcpy(out + piece.begin + k * piece.step, in + k * piece.source_step,
                      static_cast<size_t>(piece.length));
        }
        if (piece.source != member) received += piece.count * piece.length;
      }
    }
    return static_cast<double>(received);
  }

 private:
  MovePlan plan_;
  int64_t rows_per_task_;
};

/// The gathered bytes of the only process.
class OwnBytes final : public PendingGather {
 public:
  explicit OwnBytes(std::string bytes) : bytes_(std::move(bytes)) {}
  std::vector<std::string> wait() override { return {std::move(bytes_)}; }

 private:
  std::string bytes_;
};

}  // namespace

int64_t Collective::members() const { return product(group); }

std::vector<double> bytes_received(const Collective& c) {
  const auto members = static_cast<size_t>(c.members());
  if (c.kind == Collective::Kind::kAllReduce || c.kind == Collective::Kind::kReduceScatter) {
    const double phases = c.kind == Collective::Kind::kAllReduce ? 2 : 1;
    const auto bytes = static_cast<double>(product(c.input)) * static_cast<double>(size_of(c.dtype));
    return std::vector<double>(members, phases * bytes * (1 - 1 / static_cast<double>(members)));
  }
  const MovePlan plan = plan_moves(c);
  std::vector<double> bytes(members);
  for (size_t member = 0; member < members; ++member) {
    for (const StridedCopy& piece : plan.of(static_cast<int64_t>(member))) {
      if (piece.source != static_cast<int64_t>(member))
        bytes[member] += static_cast<double>(plan.rows * piece.count * piece.length);
    }
  }
  return bytes;
}

std::unique_ptr<PreparedCollective> prepare_in_process(const Collective& c) {
  switch (c.kind) {
    case Collective::Kind::kAllReduce:
    case Collective::Kind::kReduceScatter:
      return std::make_unique<Reduce>(c);
    case Collective::Kind::kAllGather:
    case Collective::Kind::kAllToAll:
    case Collective::Kind::kExchange:
      return std::make_unique<Move>(plan_moves(c));
  }
  MTF_CHECK(false, "unknown collective");
}

std::unique_ptr<RemoteCollective> InProcessCommunicator::prepare(std::vector<RemotePart>,
                                                                 const std::string& name) {
  MTF_CHECK(false, "{}: there is no other process", name);
}

std::unique_ptr<PendingGather> InProcessCommunicator::start_gather(std::string bytes, const std::string&) {
  return std::make_unique<OwnBytes>(std::move(bytes));
}

Hosting hosting_of(const Communicator* communicator) {
  return communicator == nullptr ? Hosting{} : Hosting{communicator->processes(), communicator->process()};
}

std::vector<std::string> all_gather(Communicator& communicator, std::string bytes, const std::string& name) {
  return communicator.start_gather(std::move(bytes), name)->wait();
}

std::string broadcast(Communicator& communicator, std::string bytes, const std::string& name) {
  if (communicator.process() != 0) bytes.clear();
  return std::move(all_gather(communicator, std::move(bytes), name)[0]);
}

}  // namespace mtf
