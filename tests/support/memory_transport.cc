#include "tests/support/memory_transport.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <list>
#include <mutex>
#include <tuple>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/error.h"

namespace mtf {

namespace {

/// The pending sends, or receives, of one buffer.
struct Traffic {
  std::vector<int> pending;  ///< their peers
  int64_t ended = 0;         ///< number of transfers that have ended but were not waited for
};

/// A send or a receive whose counterpart has not been posted yet.
struct Posted {
  Traffic* traffic;
  int from, to;
  uint64_t tag;
  std::byte* memory;
  size_t bytes;

  bool meets(const Posted& other) const {
    return std::tie(from, to, tag) == std::tie(other.from, other.to, other.tag);
  }
  void end(int peer) const {
    traffic->pending.erase(std::ranges::find(traffic->pending, peer));
    ++traffic->ended;
  }
};

[[noreturn]] void peer_lost(const std::string& message) { throw Error(ErrorKind::kPeerLost, message); }

}  // namespace

struct MemoryNetworkState {
  MemoryNetworkState(size_t size, std::chrono::milliseconds timeout)
      : timeout(timeout), lost(size), aborted(size) {}

  const std::chrono::milliseconds timeout;
  std::mutex mutex;
  std::condition_variable changed;
  std::list<Posted> sends, receives;
  std::vector<bool> lost;            ///< by rank
  std::vector<std::string> aborted;  ///< by rank: the reason; empty if it has not aborted
};

namespace {

class MemoryBuffer final : public MessageBuffer {
 public:
  MemoryBuffer(MemoryNetworkState& state, int rank, std::span<std::byte> memory)
      : state_(state), rank_(rank), memory_(memory) {}

  ~MemoryBuffer() override {
    const std::lock_guard lock(state_.mutex);
    state_.sends.remove_if([&](const Posted& posted) { return posted.traffic == &sends_; });
    state_.receives.remove_if([&](const Posted& posted) { return posted.traffic == &receives_; });
  }

  void send(int peer, uint64_t tag, size_t offset, size_t bytes) override {
    const std::lock_guard lock(state_.mutex);
    const Posted send{&sends_, rank_, peer, tag, place(peer, offset, bytes), bytes};
    sends_.pending.push_back(peer);
    if (const auto receive =
            std::ranges::find_if(state_.receives, [&](const Posted& posted) { return posted.meets(send); });
        receive != state_.receives.end()) {
      deliver(send, *receive);
      state_.receives.erase(receive);
    } else {
      state_.sends.push_back(send);
    }
  }

  void receive(int peer, uint64_t tag, size_t offset, size_t bytes) override {
    const std::lock_guard lock(state_.mutex);
    const Posted receive{&receives_, peer, rank_, tag, place(peer, offset, bytes), bytes};
    receives_.pending.push_back(peer);
    if (const auto send =
            std::ranges::find_if(state_.sends, [&](const Posted& posted) { return posted.meets(receive); });
        send != state_.sends.end()) {
      deliver(*send, receive);
      state_.sends.erase(send);
    } else {
      state_.receives.push_back(receive);
    }
  }

  void wait_sent() override { wait(sends_); }
  void wait_received() override { wait(receives_); }

 private:
  std::byte* place(int peer, size_t offset, size_t bytes) const {
    MTF_CHECK(peer >= 0 && peer < static_cast<int>(state_.lost.size()) && peer != rank_, "rank {}", peer);
    MTF_CHECK(offset <= memory_.size() && bytes <= memory_.size() - offset, "bytes {} + {} of {}", offset,
              bytes, memory_.size());
    throw_if_lost(peer);
    return memory_.data() + offset;
  }

  void deliver(const Posted& send, const Posted& receive) {
    MTF_CHECK(send.bytes == receive.bytes, "rank {} sends {} bytes, rank {} receives {}", send.from,
              send.bytes, send.to, receive.bytes);
    if (send.bytes > 0) std::memcpy(receive.memory, send.memory, send.bytes);
    send.end(send.to);
    receive.end(receive.from);
    state_.changed.notify_all();
  }

  void throw_if_lost(int peer) const {
    if (const std::string& reason = state_.aborted[static_cast<size_t>(rank_)]; !reason.empty())
      peer_lost(reason);
    if (state_.lost[static_cast<size_t>(peer)]) peer_lost("rank " + std::to_string(peer) + " is lost");
  }

  void wait(Traffic& traffic) {
    std::unique_lock lock(state_.mutex);
    const auto deadline = std::chrono::steady_clock::now() + state_.timeout;
    while (traffic.ended == 0) {
      MTF_CHECK(!traffic.pending.empty(), "rank {} waits for a message that it has not posted", rank_);
      for (const int peer : traffic.pending) throw_if_lost(peer);
      if (state_.changed.wait_until(lock, deadline) == std::cv_status::timeout && traffic.ended == 0)
        peer_lost("rank " + std::to_string(traffic.pending.front()) + " has sent nothing in time");
    }
    --traffic.ended;
  }

  MemoryNetworkState& state_;
  const int rank_;
  const std::span<std::byte> memory_;
  Traffic sends_, receives_;
};

class MemoryTransport final : public Transport {
 public:
  MemoryTransport(MemoryNetworkState& state, int rank) : state_(state), rank_(rank) {}

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(state_.lost.size()); }
  std::unique_ptr<MessageBuffer> buffer(std::span<std::byte> memory) override {
    return std::make_unique<MemoryBuffer>(state_, rank_, memory);
  }
  void check() override {
    const std::lock_guard lock(state_.mutex);
    if (const std::string& reason = state_.aborted[static_cast<size_t>(rank_)]; !reason.empty())
      peer_lost(reason);
    for (size_t peer = 0; peer < state_.lost.size(); ++peer)
      if (state_.lost[peer]) peer_lost("rank " + std::to_string(peer) + " is lost");
  }
  void abort(const std::string& reason) override {
    const std::lock_guard lock(state_.mutex);
    state_.aborted[static_cast<size_t>(rank_)] = reason;
    state_.changed.notify_all();
  }

 private:
  MemoryNetworkState& state_;
  const int rank_;
};

}  // namespace

MemoryNetwork::MemoryNetwork(int size, std::chrono::milliseconds timeout)
    : state_(std::make_unique<MemoryNetworkState>(static_cast<size_t>(size), timeout)) {}

MemoryNetwork::~MemoryNetwork() = default;

std::unique_ptr<Transport> MemoryNetwork::transport(int rank) {
  return std::make_unique<MemoryTransport>(*state_, rank);
}

void MemoryNetwork::lose(int rank) {
  const std::lock_guard lock(state_->mutex);
  state_->lost[static_cast<size_t>(rank)] = true;
  state_->changed.notify_all();
}

}  // namespace mtf
