#include "engine/backend/cuda/device/staging.h"

#include <algorithm>
#include <cstring>

namespace mtf::cuda {
namespace {

constexpr int64_t kOutgoingHalf = 8 << 20;
constexpr int64_t kIncomingHalf = 4 << 20;
/// Parts of a half begin at multiples of this number of bytes.
constexpr int64_t kAlignment = 256;

}  // namespace

int64_t Staging::pinned_bytes() { return 2 * (kOutgoingHalf + kIncomingHalf); }

Staging::Half& Staging::prepared(Half& half, int64_t bytes) {
  if (half.memory == nullptr) half = {device_.allocate_pinned(bytes), device_.make_event()};
  return half;
}

void Staging::write(std::byte* to, const std::byte* from, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const Stream stream = device_.compute();
  while (bytes > 0) {
    if (filled_ == kOutgoingHalf) {
      outgoing_[filling_].copied->record(stream);
      filling_ = 1 - filling_;
      filled_ = 0;
      if (outgoing_[filling_].memory != nullptr) outgoing_[filling_].copied->wait();
    }
    std::byte* staged = prepared(outgoing_[filling_], kOutgoingHalf).memory->data() + filled_;
    const int64_t part = std::min(bytes, kOutgoingHalf - filled_);
    std::memcpy(staged, from, static_cast<size_t>(part));
    device_.copy(stream, to, staged, part);
    filled_ += (part + kAlignment - 1) / kAlignment * kAlignment;
    to += part;
    from += part;
    bytes -= part;
  }
}

void Staging::read(std::byte* to, const std::byte* from, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  const Stream stream = device_.compute();
  int64_t enqueued = 0;
  for (int64_t done = 0; done < bytes;) {
    for (; enqueued < std::min(bytes, done + 2 * kIncomingHalf); enqueued += kIncomingHalf) {
      Half& half = prepared(incoming_[enqueued / kIncomingHalf % 2], kIncomingHalf);
      device_.copy(stream, half.memory->data(), from + enqueued, std::min(kIncomingHalf, bytes - enqueued));
      half.copied->record(stream);
    }
    const Half& half = incoming_[done / kIncomingHalf % 2];
    const int64_t part = std::min(kIncomingHalf, bytes - done);
    half.copied->wait();
    std::memcpy(to + done, half.memory->data(), static_cast<size_t>(part));
    done += part;
  }
}

}  // namespace mtf::cuda
