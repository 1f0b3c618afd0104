#include "engine/comm/process/remote_job.h"

#include <algorithm>

namespace mtf {

int64_t largest_message(int processes) {
  return std::clamp<int64_t>((int64_t{4} << 20) / std::max(1, processes - 1), 128 << 10, 1 << 20);
}

Staging::Staging(Transport& transport)
    : transport_(transport), slot_bytes_(largest_message(transport.size())) {}

Staging::Slot& Staging::slot(size_t index) {
  const std::lock_guard lock(mutex_);
  while (slots_.size() <= index) {
    auto slot = std::make_unique<Slot>();
    // The memory is not initialised, so that pages that no message reaches are never allocated.
    slot->memory = std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(slot_bytes_));
    slot->buffer = transport_.buffer({slot->memory.get(), static_cast<size_t>(slot_bytes_)});
    slots_.push_back(std::move(slot));
  }
  return *slots_[index];
}

int64_t Staging::most_bytes(int processes, int64_t bytes) {
  // Contributions to and from each peer, results from each peer, and results to all: each is a share of the
  // collective, or two alternating slots if the share is divided into messages.
  const int64_t share = (bytes + processes - 1) / processes, largest = largest_message(processes);
  return (3 * int64_t{processes - 1} + 1) * (share > largest ? 2 * largest : share);
}

RemoteJob::RemoteJob(Staging& staging, CommunicationThread& thread, DType dtype, std::string name)
    : staging_(staging),
      thread_(thread),
      dtype_(dtype),
      name_(std::move(name)),
      sent_(staging.transport().size()),
      received_(staging.transport().size()) {}

RemoteMessage RemoteJob::next_sent(int peer, MessagePhase phase, int64_t bytes) {
  bytes_ += bytes;
  return {.peer = peer, .bytes = bytes, .mark = message_mark(sent_[peer]++, phase, bytes, dtype_)};
}

RemoteMessage RemoteJob::next_received(int peer, MessagePhase phase, int64_t bytes) {
  return {.peer = peer, .bytes = bytes, .mark = message_mark(received_[peer]++, phase, bytes, dtype_)};
}

void RemoteJob::stage(RemoteMessage& message, Use use, int peer, int64_t round) {
  Staging::Slot*& slot = slots_[{use, peer, round % 2}];
  if (!slot) slot = &staging_.slot(slots_.size() - 1);
  message.buffer = slot->buffer.get();
  message.offset = 0;
  message.staged = slot->memory.get();
}

RemoteJob::InPlace& RemoteJob::in_place(std::span<std::byte> value) {
  InPlace& place = in_place_[{value.data(), value.size()}];
  if (!place.buffer) place.buffer = staging_.transport().buffer(value);
  return place;
}

void RemoteJob::send_in_place(RemoteMessage& message, std::span<const std::byte> value, int64_t offset) {
  // The buffer is only sent from, so that the value does not change.
  InPlace& place = in_place({const_cast<std::byte*>(value.data()), value.size()});
  message.buffer = place.buffer.get();
  message.offset = static_cast<size_t>(offset);
  ++place.sent;
}

void RemoteJob::receive_in_place(RemoteMessage& message, std::span<std::byte> value, int64_t offset) {
  InPlace& place = in_place(value);
  message.buffer = place.buffer.get();
  message.offset = static_cast<size_t>(offset);
  ++place.received;
}

void RemoteJob::wait_in_place() {
  for (auto& [memory, place] : in_place_) {
    for (int64_t i = 0; i < place.received; ++i) place.buffer->wait_received();
    for (int64_t i = 0; i < place.sent; ++i) place.buffer->wait_sent();
  }
}

}  // namespace mtf
