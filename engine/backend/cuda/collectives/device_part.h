// One part of a collective between GPUs of several processes: messages in one round or two, and kernels of
// the compute stream before, between and after them.
//
// Sums that NCCL rounds once for each addition are left to it. The others (bfloat16, maxima, which keep NaN)
// are made by the owner of each share from all members' elements, as everywhere else: with the bits of one
// process. Data goes through scratch memory where it does not lie together at either end, and where a guard
// decides later whether it is wanted.
#pragma once

#include <memory>

#include "engine/backend/cuda/collectives/device_collectives.h"
#include "engine/backend/cuda/collectives/nccl_groups.h"
#include "engine/backend/cuda/collectives/scratch_blocks.h"
#include "engine/backend/cuda/device_kernel.h"

namespace mtf::cuda {

struct PartContext {
  Device& device;
  ScratchBlocks& scratch;
  const NcclGroup& group;
  Collective collective;
  const std::byte* input;
  std::byte* result;
  const bool* guard;  ///< null: the result is always wanted
};

/// In each run: begin(), before(), the messages of a round and after() for each round, end().
class DevicePart {
 public:
  explicit DevicePart(const PartContext& context);
  virtual ~DevicePart() = default;

  virtual int rounds() const { return 1; }
  /// Enqueue kernels.
  virtual void before() {}
  virtual void after(int round) = 0;
  /// Called within DeviceCollectives::run().
  virtual void send(int round, DeviceCollectives& wire) = 0;
  /// Payload of a run, to other processes.
  int64_t bytes_sent() const { return bytes_sent_; }

  void begin() { scratch_ = blocks_.take(scratch_bytes_, scratch_); }
  void end() { blocks_.give_back(scratch_); }

 protected:
  int size() const { return size_; }
  int rank() const { return rank_; }
  /// Every other rank.
  template <class Visit>
  void for_peers(const Visit& visit) const {
    for (int peer = 0; peer < size_; ++peer)
      if (peer != rank_) visit(peer);
  }
  /// Where it is in scratch memory.
  int64_t reserve(int64_t bytes);
  std::byte* scratch(int64_t place) const { return scratch_ + place; }
  Launcher guarded() const { return {device_, guard_}; }
  Launcher always() const { return {device_, static_cast<const bool*>(nullptr)}; }

  const Collective collective_;
  const std::byte* const input_;
  std::byte* const result_;
  const bool* const guard_;
  int64_t bytes_sent_ = 0;

 private:
  Device& device_;
  ScratchBlocks& blocks_;
  const int size_, rank_;
  int64_t scratch_bytes_ = 0;
  std::byte* scratch_ = nullptr;  ///< of this run, or of the last
};

std::unique_ptr<DevicePart> prepare_device_part(const PartContext& context);

/// all_reduce and reduce_scatter; the others.
std::unique_ptr<DevicePart> prepare_sum_part(const PartContext& context);
std::unique_ptr<DevicePart> prepare_move_part(const PartContext& context);

}  // namespace mtf::cuda
