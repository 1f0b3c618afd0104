// A thread that calls a function at intervals until it is destroyed.
//
//   PeriodicThread watch(std::chrono::milliseconds(100), [&] { look(); return true; });
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace mtf {

/// Objects that `turn` uses must outlive the thread: make it the last member of its class.
class PeriodicThread {
 public:
  /// Calls `turn` after each `pause`, until it returns false. It must not throw.
  PeriodicThread(std::chrono::milliseconds pause, std::function<bool()> turn);
  /// Ends a pause at once, and waits for a running turn.
  ~PeriodicThread() = default;
  PeriodicThread(const PeriodicThread&) = delete;
  PeriodicThread& operator=(const PeriodicThread&) = delete;

 private:
  std::jthread thread_;
};

}  // namespace mtf
