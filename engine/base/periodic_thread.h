// A thread that does something at intervals for as long as it lives.
//
//   PeriodicThread watch(std::chrono::milliseconds(100), [&] { look(); return true; });
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace mtf {

/// What `turn` uses must live longer: a thread is the last member of its class.
class PeriodicThread {
 public:
  /// Calls `turn` after each `pause`, until it returns false. It must not throw.
  PeriodicThread(std::chrono::milliseconds pause, std::function<bool()> turn);
  /// Ends a pause at once, and waits for the end of a turn.
  ~PeriodicThread() = default;
  PeriodicThread(const PeriodicThread&) = delete;
  PeriodicThread& operator=(const PeriodicThread&) = delete;

 private:
  std::jthread thread_;
};

}  // namespace mtf
