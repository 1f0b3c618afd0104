#include "engine/backend/cuda/device/transfers.h"

#include <array>
#include <utility>

#include "engine/base/error.h"

namespace mtf::cuda {
namespace {

/// Waits for an event before the memory that the device copies is freed.
void wait_at_end(Event& event) {
  try {
    event.wait();
  } catch (const Error&) {
    // The device has failed and copies nothing any more; another call has reported it.
  }
}

class DoubleBufferedTransfer final : public BlockTransfer {
 public:
  DoubleBufferedTransfer(Device& device, Stream copies, std::byte* to, int64_t bytes,
                         std::unique_ptr<DeviceMemory> landing, WaitFor wait_for)
      : device_(device),
        copies_(copies),
        to_(to),
        landing_(std::move(landing)),
        wait_for_(std::move(wait_for)) {
    for (size_t i = 0; i < buffers_.size(); ++i) {
      buffers_[i] = {device_.allocate_pinned(bytes), landing_->data() + static_cast<int64_t>(i) * bytes,
                     device_.make_event(), device_.make_event()};
    }
  }
  ~DoubleBufferedTransfer() override {
    for (const Buffer& buffer : buffers_) {
      wait_at_end(*buffer.arrived);
      wait_at_end(*buffer.taken);
    }
  }

  std::byte* block() override {
    wait_for_([this] { buffers_[next_].arrived->wait(); });
    return buffers_[next_].pinned->data();
  }

  void send(std::span<const BlockPart> parts) override {
    const Buffer& buffer = buffers_[next_];
    next_ = 1 - next_;
    buffer.taken->wait_in(copies_);
    for (const BlockPart& part : parts)
      device_.copy(copies_, buffer.landing + part.begin, buffer.pinned->data() + part.begin, part.bytes);
    buffer.arrived->record(copies_);
    const Stream compute = device_.compute();
    buffer.arrived->wait_in(compute);
    for (const BlockPart& part : parts)
      device_.copy(compute, to_ + part.begin, buffer.landing + part.begin, part.bytes);
    buffer.taken->record(compute);
  }

 private:
  struct Buffer {
    std::unique_ptr<PinnedMemory> pinned;
    std::byte* landing = nullptr;
    std::unique_ptr<Event> arrived;  ///< `landing` has the block
    std::unique_ptr<Event> taken;    ///< the block was copied from `landing` to its place
  };

  Device& device_;
  const Stream copies_;
  std::byte* const to_;
  const std::unique_ptr<DeviceMemory> landing_;
  const WaitFor wait_for_;
  std::array<Buffer, 2> buffers_;
  size_t next_ = 0;  ///< index of the buffer that is sent next
};

class PinnedCopy final : public HostCopy {
 public:
  PinnedCopy(Device& device, Stream copies, CopySources sources, CopyOrder order, WaitFor wait_for)
      : device_(device),
        order_(order),
        stream_(order == CopyOrder::kInLine ? device.compute() : copies),
        sources_(std::move(sources)),
        offsets_(packed_offsets(sources_)),
        wait_for_(std::move(wait_for)),
        pinned_(device.allocate_pinned(offsets_.back())),
        ready_(device.make_event()),
        copied_(device.make_event()) {}
  ~PinnedCopy() override { wait_at_end(*copied_); }

  void begin() override {
    const Stream compute = device_.compute();
    if (order_ == CopyOrder::kConcurrent) {
      ready_->record(compute);
      ready_->wait_in(stream_);
    }
    for (size_t i = 0; i < sources_.size(); ++i) {
      device_.copy(stream_, pinned_->data() + offsets_[i], sources_[i].data(),
                   static_cast<int64_t>(sources_[i].size()));
    }
    copied_->record(stream_);
  }
  void hold_back() override {
    if (order_ == CopyOrder::kConcurrent) copied_->wait_in(device_.compute());
  }
  void wait() override {
    wait_for_([this] { copied_->wait(); });
  }
  const std::byte* part(size_t source) const override { return pinned_->data() + offsets_[source]; }

 private:
  Device& device_;
  const CopyOrder order_;
  const Stream stream_;
  const CopySources sources_;
  const std::vector<int64_t> offsets_;
  const WaitFor wait_for_;
  const std::unique_ptr<PinnedMemory> pinned_;
  const std::unique_ptr<Event> ready_;   ///< the sources are computed
  const std::unique_ptr<Event> copied_;  ///< the copies are complete
};

/// Its memory outlives it, and is freed when the device has done all work.
class ConcurrentTransfer final : public MemoryTransfer {
 public:
  ConcurrentTransfer(Device& device, Stream copies, std::vector<Part> parts)
      : device_(device),
        copies_(copies),
        parts_(std::move(parts)),
        ready_(device.make_event()),
        copied_(device.make_event()) {}

  void begin() override {
    ready_->record(device_.compute());
    ready_->wait_in(copies_);
    for (const Part& part : parts_) device_.copy(copies_, part.to, part.from, part.bytes);
    copied_->record(copies_);
  }
  void hold_back() override { copied_->wait_in(device_.compute()); }

 private:
  Device& device_;
  const Stream copies_;
  const std::vector<Part> parts_;
  const std::unique_ptr<Event> ready_;   ///< the sources are computed, and the targets are free
  const std::unique_ptr<Event> copied_;  ///< the copies are complete
};

}  // namespace

std::unique_ptr<MemoryTransfer> make_memory_transfer(Device& device, Stream copies,
                                                     std::vector<MemoryTransfer::Part> parts) {
  return std::make_unique<ConcurrentTransfer>(device, copies, std::move(parts));
}

std::unique_ptr<BlockTransfer> make_block_transfer(Device& device, Stream copies, std::byte* to,
                                                   int64_t bytes, std::unique_ptr<DeviceMemory> landing,
                                                   WaitFor wait_for) {
  return std::make_unique<DoubleBufferedTransfer>(device, copies, to, bytes, std::move(landing),
                                                  std::move(wait_for));
}

std::unique_ptr<HostCopy> make_host_copy(Device& device, Stream copies, CopySources sources, CopyOrder order,
                                         WaitFor wait_for) {
  return std::make_unique<PinnedCopy>(device, copies, std::move(sources), order, std::move(wait_for));
}

}  // namespace mtf::cuda
