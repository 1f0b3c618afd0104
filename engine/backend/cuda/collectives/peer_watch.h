// Looks whether the collectives of a device can still end. One that waits for a process that is gone runs for
// ever, and with it whoever waits for the device.
//
//   PeerWatch watch([&] { host.check(); collectives.check(); }, [&] { collectives.abort(); }, timeout);
//   watch.during([&] { device.wait(stream); });       // throws what the thread has found
#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <mutex>

#include "engine/base/periodic_thread.h"
#include "engine/comm/rendezvous/store.h"

namespace mtf::cuda {

/// A thread that calls `look` again and again until it throws, or one during() has lasted longer than
/// `timeout`. It then keeps the error and calls `end`, which ends all that the device does.
class PeerWatch {
 public:
  PeerWatch(std::function<void()> look, std::function<void()> end, Milliseconds timeout);
  PeerWatch(const PeerWatch&) = delete;
  PeerWatch& operator=(const PeerWatch&) = delete;

  /// Throws the error that the thread has found, if any.
  void check();
  /// Calls `call`, which waits for the device or enqueues what may. The thread's error comes before one of
  /// the call, which follows from it. One call at a time has the timeout.
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
  /// Looks; false: that was the end.
  bool go_on();

  const std::function<void()> look_, end_;
  const Milliseconds timeout_;
  std::atomic<Clock::time_point> since_ = Clock::time_point::max();  ///< during() lasts; max: there is none
  std::mutex mutex_;
  std::exception_ptr error_;
  PeriodicThread thread_;
};

}  // namespace mtf::cuda
