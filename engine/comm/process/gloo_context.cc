#include "engine/comm/process/gloo_context.h"

#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/tcp/pair.h>
#include <unistd.h>

#include <thread>
#include <utility>

#include "engine/base/check.h"

namespace mtf {

namespace {

namespace tcp = gloo::transport::tcp;

constexpr std::chrono::microseconds kPauseOfLoop{20};

/// A pair that takes over a socket. A pair listens as soon as it is created; its listening socket is closed
/// at once and replaced.
class PairOfSocket final : public tcp::Pair {
 public:
  using tcp::Pair::Pair;

  /// Replaces the socket. Returns false if somebody has connected to the pair before: it is then unusable.
  bool adopt(Socket& socket) {
    const std::lock_guard lock(m_);
    if (state_ != LISTENING) return false;
    device_->unregisterDescriptor(fd_, this);
    ::close(fd_);
    fd_ = socket.release();
    handleConnected();
    return true;
  }

  /// While another thread uses the pair, Gloo leaves the events for the next round of its loop, which comes at
  /// once. If that thread waits for a core, the rounds would take the core from it.
  void handleEvents(int events) override {
    if (!m_.try_lock()) {
      std::this_thread::sleep_for(kPauseOfLoop);
      return;
    }
    m_.unlock();
    Pair::handleEvents(events);
  }
};

class ContextOfSockets final : public tcp::Context {
 public:
  using tcp::Context::Context;

  void adopt(int peer, Socket socket) {
    for (bool is_done = false; !is_done;) {
      auto pair = std::make_unique<PairOfSocket>(this, device_.get(), peer, getTimeout());
      is_done = pair->adopt(socket);
      if (is_done) pairs_[static_cast<size_t>(peer)] = std::move(pair);
    }
  }
};

}  // namespace

std::shared_ptr<gloo::transport::Context> context_of_sockets(std::shared_ptr<gloo::transport::Device> device,
                                                             int rank, std::vector<Socket> sockets,
                                                             std::chrono::milliseconds timeout) {
  auto tcp_device = std::dynamic_pointer_cast<tcp::Device>(device);
  MTF_CHECK(tcp_device != nullptr, "Gloo's device is not one of its TCP transport");
  const int size = static_cast<int>(sockets.size());
  auto context = std::make_shared<ContextOfSockets>(std::move(tcp_device), rank, size);
  context->setTimeout(timeout);
  for (int peer = 0; peer < size; ++peer)
    if (peer != rank) context->adopt(peer, std::move(sockets[static_cast<size_t>(peer)]));
  return context;
}

}  // namespace mtf
