// all_reduce and reduce_scatter between GPUs.
#include <numeric>
#include <utility>
#include <vector>

#include "engine/backend/cuda/collectives/device_part.h"
#include "engine/backend/cuda/copy_blocks.h"
#include "engine/backend/cuda/moves.h"
#include "engine/comm/move_plan.h"

namespace mtf::cuda {
namespace {

/// Elements of the input as the ranks share them out: those of the result of each rank lie together.
class SumPart : public DevicePart {
 public:
  explicit SumPart(const PartContext& context)
      : DevicePart(context),
        scatters_(collective_.kind == Collective::Kind::kReduceScatter),
        element_(static_cast<int64_t>(size_of(collective_.dtype))),
        extent_(collective_.input, scatters_ ? collective_.dimension : 0),
        elements_(extent_.outer * extent_.size * extent_.inner),
        packs_(scatters_ && extent_.outer > 1),
        packed_(packs_ ? reserve(elements_ * element_) : 0) {}

  void before() override {
    if (!packs_) return;
    const int64_t part = extent_.size / size() * extent_.inner * element_;
    const BlockCopy copy{.from = input_,
                         .to = scratch(packed_),
                         .rows = size(),
                         .runs = extent_.outer,
                         .length = part,
                         .from_row = part,
                         .to_row = part * extent_.outer,
                         .from_run = part * size(),
                         .to_run = part};
    copy_blocks(always(), {&copy, 1});
  }

 protected:
  const std::byte* source() const { return packs_ ? scratch(packed_) : input_; }
  OwnedShare share(int rank) const {
    if (!scatters_) return OwnedShare::of(elements_, element_, size(), rank);
    return {elements_ / size() * rank, elements_ / size()};
  }
  int64_t result_bytes() const { return (scatters_ ? share(rank()).count : elements_) * element_; }
  void copy_result(const std::byte* from) const {
    const BlockCopy copy{.from = from, .to = result_, .length = result_bytes()};
    copy_blocks(guarded(), {&copy, 1});
  }

  const bool scatters_;
  const int64_t element_;  ///< bytes
  const AxisExtent extent_;
  const int64_t elements_;  ///< of the input

 private:
  const bool packs_;
  const int64_t packed_;
};

/// NCCL adds.
class LibrarySum final : public SumPart {
 public:
  explicit LibrarySum(const PartContext& context)
      : SumPart(context), summed_(guard_ == nullptr ? 0 : reserve(result_bytes())) {
    for_peers([&](int peer) {
      bytes_sent_ += share(peer).count * element_;
      if (!scatters_) bytes_sent_ += share(rank()).count * element_;
    });
  }

  void send(int, DeviceCollectives& wire) override {
    if (elements_ == 0) return;
    std::byte* to = guard_ == nullptr ? result_ : scratch(summed_);
    if (scatters_) {
      wire.reduce_scatter(source(), to, share(rank()).count, collective_.dtype);
    } else {
      wire.all_reduce(source(), to, elements_, collective_.dtype);
    }
  }
  void after(int) override {
    if (guard_ != nullptr) copy_result(scratch(summed_));
  }

 private:
  const int64_t summed_;
};

/// The owner of a share adds what all have of it, in the order of the tree; in a second round all get the
/// results of all_reduce.
class OwnersSum final : public SumPart {
 public:
  explicit OwnersSum(const PartContext& context)
      : SumPart(context), own_(share(rank())), arrived_(static_cast<size_t>(size())) {
    Collective sum = collective_;
    sum.kind = Collective::Kind::kAllReduce;
    sum.input = {own_.count};
    sum_ = prepare_device_collective(sum, context.device);
    for_peers([&](int peer) {
      arrived_[static_cast<size_t>(peer)] = reserve(own_.count * element_);
      bytes_sent_ += share(peer).count * element_;
      if (!scatters_) bytes_sent_ += own_.count * element_;
    });
    if (!scatters_ && guard_ != nullptr) collected_ = reserve(result_bytes());
  }

  int rounds() const override { return scatters_ ? 1 : 2; }

  void send(int round, DeviceCollectives& wire) override {
    for_peers([&](int peer) {
      const OwnedShare theirs = share(peer);
      if (round == 0) {
        send(wire, source(), theirs, peer);
        if (own_.count > 0) wire.receive(arrived(peer), own_.count * element_, peer);
      } else {
        send(wire, collected(), own_, peer);
        if (theirs.count > 0)
          wire.receive(collected() + theirs.begin * element_, theirs.count * element_, peer);
      }
    });
  }

  void after(int round) override {
    if (round == 0) {
      std::vector<const std::byte*> inputs(static_cast<size_t>(size()), source() + own_.begin * element_);
      for_peers([&](int peer) { inputs[static_cast<size_t>(peer)] = arrived(peer); });
      std::byte* to = scatters_ ? result_ : collected() + own_.begin * element_;
      sum_->run(inputs, 0, to, 0, 1, scatters_ ? guard_ : nullptr);
    } else if (guard_ != nullptr) {
      copy_result(collected());
    }
  }

 private:
  void send(DeviceCollectives& wire, const std::byte* from, const OwnedShare& what, int peer) const {
    if (what.count > 0) wire.send(from + what.begin * element_, what.count * element_, peer);
  }
  std::byte* arrived(int peer) const { return scratch(arrived_[static_cast<size_t>(peer)]); }
  /// The results of all shares.
  std::byte* collected() const { return guard_ == nullptr ? result_ : scratch(collected_); }

  const OwnedShare own_;
  std::unique_ptr<PreparedCollective> sum_;
  std::vector<int64_t> arrived_;  ///< by rank
  int64_t collected_ = 0;
};

}  // namespace

std::unique_ptr<DevicePart> prepare_sum_part(const PartContext& context) {
  const Collective& c = context.collective;
  if (c.reduction == Reduction::kSum && DeviceCollectives::can_sum(c.dtype))
    return std::make_unique<LibrarySum>(context);
  return std::make_unique<OwnersSum>(context);
}

}  // namespace mtf::cuda
