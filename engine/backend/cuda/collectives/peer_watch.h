// PeerWatch checks that the collectives of a device can still finish. One that waits for a process that is
// gone runs forever, and so does every thread that waits for the device.
//
//   PeerWatch watch([&] { host.check(); collectives.check(); }, [&] { collectives.abort(); }, timeout);
//   watch.during([&] { device.wait(stream); });       // throws the error that the watch has found
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <mutex>

#include "engine/base/periodic_thread.h"
#include "engine/comm/rendezvous/store.h"

namespace mtf::cuda {

/// A thread that calls `look` repeatedly until it throws, or until a call of during() has lasted longer than
/// `timeout`. It then keeps the error and calls `end`, which must end all work of the device.
class PeerWatch {
 public:
  PeerWatch(std::function<void()> look, std::function<void()> end, Milliseconds timeout);
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  /// Throws the error that the thread has found, if there is one.
  void check();
  /// Runs `call`, which waits for the device or enqueues work and may block. An error of the thread takes
  /// precedence over one of the call, which is a consequence. Only one call at a time is covered by the
  /// timeout.
  template <class Call>
  void during(const Call& call) {
    check();
    const Waiting waiting(*this);
    try {
      call();
    } catch (...) {
      check();
      throw;
    }
    check();
  }

 private:
  using Clock = std::chrono::steady_clock;

  class Waiting {
   public:
    explicit Waiting(PeerWatch& watch) : watch_(watch) { watch_.since_ = Clock::now(); }
    ~Waiting() { watch_.since_ = Clock::time_point::max(); }

   private:
    PeerWatch& watch_;
  };

  void look();
  /// Looks once. Returns false when the watch has ended.
  bool go_on();

  const std::function<void()> look_, end_;
  const Milliseconds timeout_;
  /// The start of the running during(); max if there is none.
  std::atomic<Clock::time_point> since_ = Clock::time_point::max();
  std::mutex mutex_;
  std::exception_ptr error_;
  PeriodicThread thread_;
};

}  // namespace mtf::cuda
