#include "engine/backend/cuda/collectives/planned_collective.h"

#include <utility>

#include "engine/backend/cuda/collectives/tree_reduction.h"
#include "engine/backend/cuda/movement/copy_blocks.h"

namespace mtf::cuda {
namespace {

class PlannedCollective final : public RemoteCollective {
 public:
  PlannedCollective(const PlannedCollectiveContext& context, DevicePlan plan)
      : context_(context),
        plan_(std::move(plan)),
        ready_(context.device.make_event()),
        sent_(context.device.make_event()) {
    for (const DevicePlan::Tree& tree : plan_.trees) {
      reductions_.push_back(
          prepare_device_reduction(tree.nodes, tree.dtype, tree.reduction, tree.is_rounded, context.device));
    }
  }

  void start() override {
    context_.watch.during([&] {
      block_ = context_.scratch.take(plan_.scratch_bytes, block_);
      scratch_ = context_.scratch.data(block_);
      enqueue(plan_.before);
      send(plan_.rounds.front());
    });
    is_started_ = true;
  }

  void wait() override {
    if (!std::exchange(is_started_, false)) return;
    context_.watch.during([&] {
      for (const DeviceRound& round : plan_.rounds) {
        if (&round != &plan_.rounds.front()) send(round);
        sent_->wait_in(context_.device.compute());
        enqueue(round.after);
      }
      context_.scratch.give_back(block_);
    });
  }

  double bytes_sent() const override { return static_cast<double>(plan_.bytes_sent); }

 private:
  void send(const DeviceRound& round) {
    ready_->record(context_.device.compute());
    ready_->wait_in(context_.stream);
    context_.library.run(context_.stream, [&] {
      for (const DeviceRound::Call& call : round.calls) make(call);
      for (const auto& [peer, data, bytes] : round.sent)
        context_.library.send(data.address(scratch_), bytes, peer);
      for (const auto& [peer, data, bytes] : round.received)
        context_.library.receive(data.address(scratch_), bytes, peer);
    });
    sent_->record(context_.stream);
  }

  void make(const DeviceRound::Call& call) {
    const std::byte* in = call.in.address(scratch_);
    std::byte* out = call.out.address(scratch_);
    switch (call.kind) {
      case Collective::Kind::kAllReduce:
        return context_.library.all_reduce(in, out, call.count, call.dtype);
      case Collective::Kind::kReduceScatter:
        return context_.library.reduce_scatter(in, out, call.count, call.dtype);
      default:
        return context_.library.all_gather(in, out, call.count * static_cast<int64_t>(size_of(call.dtype)));
    }
  }

  void enqueue(const DeviceWork& work) const {
    for (const auto& item : work) std::visit([&](const auto& some) { enqueue(some); }, item);
  }

  void enqueue(const DeviceSum& sum) const {
    std::vector<DeviceReduction::Operand> operands;
    for (const DeviceSum::Operand& operand : sum.operands)
      operands.push_back({operand.data.address(scratch_), operand.row});
    reductions_[sum.tree]->run(launcher(sum.is_guarded), operands, sum.part, sum.size,
                               sum.result.address(scratch_));
  }

  void enqueue(const DeviceCopies& copies) const {
    std::vector<BlockCopy> blocks;
    for (const DeviceCopy& copy : copies.copies) {
      blocks.push_back({.from = copy.from ? copy.from->address(scratch_) + copy.from_places.begin : nullptr,
                        .to = copy.to.address(scratch_) + copy.to_places.begin,
                        .rows = copy.runs.rows,
                        .runs = copy.runs.count,
                        .length = copy.runs.length,
                        .from_row = copy.from_places.row,
                        .to_row = copy.to_places.row,
                        .from_run = copy.from_places.step,
                        .to_run = copy.to_places.step});
    }
    copy_blocks(launcher(copies.is_guarded), blocks);
  }

  Launcher launcher(bool is_guarded) const {
    return {context_.device, is_guarded ? context_.guard : static_cast<const bool*>(nullptr)};
  }

  const PlannedCollectiveContext context_;
  const DevicePlan plan_;
  std::vector<std::unique_ptr<DeviceReduction>> reductions_;  ///< by DevicePlan::trees
  const std::unique_ptr<Event> ready_, sent_;
  // The scratch memory of this run, or of the last one.
  int block_ = BlockPool::kNone;
  std::byte* scratch_ = nullptr;
  bool is_started_ = false;
};

}  // namespace

std::unique_ptr<RemoteCollective> make_planned_collective(const PlannedCollectiveContext& context,
                                                          DevicePlan plan) {
  return std::make_unique<PlannedCollective>(context, std::move(plan));
}

}  // namespace mtf::cuda
