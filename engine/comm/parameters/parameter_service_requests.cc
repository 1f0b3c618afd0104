// Requests to a parameter server in both kinds of training: set, start, pull and push.
#include <fmt/format.h>

#include "engine/comm/parameters/parameter_service.h"
#include "engine/comm/parameters/service_errors.h"

namespace mtf {
namespace {

/// The interval at which a waiting thread checks whether its worker lives, and for workers that take too long.
constexpr std::chrono::milliseconds kLookAtWorkers{100};

}  // namespace

void ParameterService::wait_while_connected(Lock& lock, const Peer& peer, const std::function<bool()>& ready,
                                            const std::function<void()>& look) {
  while (!failure_ && !ready()) {
    peer.socket.require_open();
    changed_.wait_for(lock, kLookAtWorkers);
    look();
  }
  if (failure_) throw Error(*failure_);
}

void ParameterService::wait(Lock& lock, const Peer& peer, const std::function<bool()>& ready,
                            const std::function<std::string()>& missing) {
  const std::chrono::milliseconds timeout =
      starts_ > 0 ? options_.collective_timeout : options_.connect_timeout + options_.collective_timeout;
  const auto end = std::chrono::steady_clock::now() + timeout;
  wait_while_connected(lock, peer, ready, [&] {
    if (std::chrono::steady_clock::now() > end && !ready()) fail(Error(ErrorKind::kPeerLost, missing()));
  });
}

void ParameterService::answer_with(Peer& peer, ParameterOperation operation, const void* data, size_t bytes) {
  peer.socket.send({.operation = static_cast<uint16_t>(operation)},
                   {static_cast<const std::byte*>(data), bytes});
}

void ParameterService::require_chief(const Peer& peer, const Frame& frame) const {
  if (peer.worker != 0)
    refuse_request(fmt::format("worker {} asks for operation {} of the chief", peer.worker, frame.operation));
}

void ParameterService::read(Peer& peer, const Frame& frame, std::span<std::byte> value,
                            std::vector<double>* squares) {
  const size_t bytes = value.size() + (squares != nullptr ? options_.squares * sizeof(double) : 0);
  if (frame.bytes != bytes) {
    refuse_request(fmt::format("worker {} sends {} bytes where {} are due", peer.worker, frame.bytes, bytes));
  }
  peer.socket.receive_bytes(value);
  if (squares == nullptr) return;
  squares->resize(options_.squares);
  peer.socket.receive_bytes(std::as_writable_bytes(std::span(*squares)));
}

void ParameterService::set(Peer& peer, const Frame& frame) {
  require_chief(peer, frame);
  const std::span<std::byte> memory = storage_.variable(frame.id);
  if (memory.size() != frame.bytes || memory.empty()) {
    refuse_request(
        fmt::format("variable {} has {} bytes here, not {}", frame.id, memory.size(), frame.bytes));
  }
  {
    const std::lock_guard lock(mutex_);
    if (starts_ > 0 && options_.asynchronous) refuse_request("the variables are set already");
  }
  peer.socket.receive_bytes(memory);
  storage_.set_begin(frame.id, static_cast<int64_t>(frame.version));
}

void ParameterService::start(Peer& peer, const Frame& frame) {
  require_chief(peer, frame);
  const auto start = read<ParameterStart>(peer, frame);
  {
    const std::lock_guard lock(mutex_);
    ++starts_;
    rate_scale_ = start.rate_scale;
    state_.step = start.step;
    state_.next_row = start.next_row;
    state_.tokens = start.tokens;
    skipped_ = 0;
    dealer_.start({start.step, start.next_row,
                   start.last_step < 0 ? std::nullopt : std::optional<int64_t>(start.last_step)});
    changed_.notify_all();
  }
  answer_with(peer, ParameterOperation::kStart);
}

void ParameterService::pull(Peer& peer, const Frame& frame) {
  if (frame.bytes > (1 << 24)) refuse_request("a worker asks for too many variables");
  if (frame.bytes % sizeof(uint32_t) != 0)
    refuse_request(fmt::format("worker {} sends {} bytes where ids of {} are due", peer.worker, frame.bytes,
                               sizeof(uint32_t)));
  std::vector<uint32_t> ids(frame.bytes / sizeof(uint32_t));
  peer.socket.receive_bytes(std::as_writable_bytes(std::span(ids)));
  std::vector<std::span<const std::byte>> memories;
  for (const uint32_t id : ids) {
    memories.push_back(storage_.variable(id));
    if (memories.back().empty()) refuse_request(fmt::format("variable {} is not on this server", id));
  }
  PulledState state;
  {
    Lock lock(mutex_);
    const auto version = static_cast<int64_t>(frame.version);
    const int64_t starts = frame.id;
    wait(
        lock, peer, [&] { return starts_ >= starts && state_.step >= version; },
        [&] {
          return starts_ >= starts ? missing_gradients() : std::string("the chief did not set the variables");
        });
    state = state_;
    if (options_.asynchronous) {
      // Others may update the variables while they are being sent.
      peer.pulled.resize(memories.size());
      for (size_t i = 0; i < memories.size(); ++i) {
        peer.pulled[i].assign(memories[i].begin(), memories[i].end());
        memories[i] = peer.pulled[i];
      }
    }
  }
  answer_with(peer, ParameterOperation::kPull, &state, sizeof(state));
  for (size_t i = 0; i < ids.size(); ++i) {
    peer.socket.send({.operation = static_cast<uint16_t>(ParameterOperation::kVariable), .id = ids[i]},
                     memories[i]);
  }
}

void ParameterService::push(Peer& peer, const Frame& frame) {
  {
    // The worker learns of a failure in the answer to its next request.
    Lock lock(mutex_);
    if (failure_) {
      lock.unlock();
      peer.socket.skip_bytes(frame.bytes);
      return;
    }
    if (frame.id != peer.received || frame.id >= peer.parts.size() ||
        frame.bytes != peer.parts[frame.id].bytes) {
      refuse_request(fmt::format("worker {} pushes tensor {} of {} bytes, which is not the next one",
                                 peer.worker, frame.id, frame.bytes));
    }
    if (!options_.asynchronous && static_cast<int64_t>(frame.version) != state_.step) {
      refuse_request(fmt::format("worker {} pushes gradients of version {}, but {} is in hand", peer.worker,
                                 frame.version, state_.step));
    }
  }
  peer.socket.receive_bytes((*peer.pushed)[frame.id]);
  Lock lock(mutex_);
  ++peer.received;
  if (!options_.asynchronous) sum(peer.parts[frame.id].gradient, lock);
}

}  // namespace mtf
