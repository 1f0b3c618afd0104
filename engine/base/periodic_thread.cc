#include "engine/base/periodic_thread.h"

#include <condition_variable>
#include <mutex>
#include <stop_token>

namespace mtf {
namespace {

/// Waits for `pause`, or until a stop is requested. Returns false if the thread must stop.
bool rest(const std::stop_token& stop, std::chrono::milliseconds pause) {
  std::mutex mutex;  // local, because only a stop request ends the wait early
  std::unique_lock lock(mutex);
  std::condition_variable_any stopped;
  stopped.wait_for(lock, stop, pause, [] { return false; });
  return !stop.stop_requested();
}

}  // namespace

PeriodicThread::PeriodicThread(std::chrono::milliseconds pause, std::function<bool()> turn)
    : thread_([pause, turn = std::move(turn)](const std::stop_token& stop) {
        while (rest(stop, pause) && turn()) continue;
      }) {}

}  // namespace mtf
