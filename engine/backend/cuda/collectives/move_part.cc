// all_gather, all_to_all and exchange between GPUs.
#include <vector>

#include "engine/backend/cuda/collectives/device_part.h"
#include "engine/backend/cuda/collectives/piece_copy.h"
#include "engine/backend/cuda/moves.h"

namespace mtf::cuda {
namespace {

class Gather final : public DevicePart {
 public:
  explicit Gather(const PartContext& context)
      : DevicePart(context),
        extent_(collective_.input, collective_.dimension),
        bytes_(extent_.outer * extent_.size * extent_.inner *
               static_cast<int64_t>(size_of(collective_.dtype))),
        in_place_(extent_.outer == 1 && guard_ == nullptr),
        gathered_(in_place_ ? 0 : reserve(bytes_ * size())),
        arrange_(in_place_ ? nullptr : prepare_device_collective(collective_, context.device)) {
    bytes_sent_ = bytes_ * (size() - 1);
  }

  void send(int, DeviceCollectives& wire) override {
    if (bytes_ > 0) wire.all_gather(input_, in_place_ ? result_ : scratch(gathered_), bytes_);
  }

  void after(int) override {
    if (in_place_ || bytes_ == 0) return;
    std::vector<const std::byte*> inputs;
    for (int member = 0; member < size(); ++member) inputs.push_back(scratch(gathered_) + member * bytes_);
    arrange_->run(inputs, rank(), result_, 0, 1, guard_);
  }

 private:
  const AxisExtent extent_;
  const int64_t bytes_;  ///< of an input
  const bool in_place_;
  const int64_t gathered_;
  std::unique_ptr<PreparedCollective> arrange_;  ///< null: in place
};

/// The pieces that go from one member to another are one message.
class Pieces final : public DevicePart {
 public:
  explicit Pieces(const PartContext& context) : DevicePart(context), plan_(plan_moves(collective_)) {
    for_peers([&](int peer) {
      out_.push_back(message(rank(), peer));
      bytes_sent_ += out_.back().bytes;
      in_.push_back(message(peer, rank()));
    });
  }

  void before() override {
    std::vector<BlockCopy> copies;
    for (const Message& message : out_) {
      std::byte* to = scratch(message.place);
      for (const MovePiece& piece : pieces(rank(), message.peer)) {
        BlockCopy copy = own_copy(piece);
        copy.from = input_ + piece.source_begin;
        copy.to = to;
        copy.to_row = piece.count * piece.length;
        copy.to_run = piece.length;
        copies.push_back(copy);
        to += bytes_of(piece);
      }
    }
    copy_blocks(always(), copies);
  }

  void send(int, DeviceCollectives& wire) override {
    for (const Message& message : out_)
      if (message.bytes > 0) wire.send(scratch(message.place), message.bytes, message.peer);
    for (const Message& message : in_)
      if (message.bytes > 0) wire.receive(scratch(message.place), message.bytes, message.peer);
  }

  void after(int) override {
    std::vector<BlockCopy> copies;
    for (const Message& message : in_) {
      const std::byte* from = scratch(message.place);
      for (const MovePiece& piece : pieces(message.peer, rank())) {
        BlockCopy copy = own_copy(piece);
        copy.from = from;
        copy.from_row = piece.count * piece.length;
        copy.from_run = piece.length;
        copies.push_back(copy);
        from += bytes_of(piece);
      }
    }
    for (const MovePiece& piece : pieces(rank(), rank())) copies.push_back(own_copy(piece));
    for (const MovePiece& piece : plan_.zeros(rank())) {
      copies.push_back(own_copy(piece));
      copies.back().from = nullptr;
    }
    copy_blocks(guarded(), copies);
  }

 private:
  /// In scratch memory.
  struct Message {
    int peer = 0;
    int64_t bytes = 0, place = 0;
  };

  std::vector<MovePiece> pieces(int source, int member) const {
    std::vector<MovePiece> result;
    for (const MovePiece& piece : plan_.of(member))
      if (piece.source == source) result.push_back(piece);
    return result;
  }
  int64_t bytes_of(const MovePiece& piece) const { return plan_.rows * piece.count * piece.length; }
  Message message(int source, int member) {
    int64_t bytes = 0;
    for (const MovePiece& piece : pieces(source, member)) bytes += bytes_of(piece);
    return {source == rank() ? member : source, bytes, reserve(bytes)};
  }
  BlockCopy own_copy(const MovePiece& piece) const { return copy_of(plan_, piece, input_, result_); }

  const MovePlan plan_;
  std::vector<Message> out_, in_;
};

}  // namespace

std::unique_ptr<DevicePart> prepare_move_part(const PartContext& context) {
  if (context.collective.kind == Collective::Kind::kAllGather) return std::make_unique<Gather>(context);
  return std::make_unique<Pieces>(context);
}

}  // namespace mtf::cuda
