#include "engine/base/periodic_thread.h"

#include <condition_variable>
#include <mutex>
#include <stop_token>

namespace mtf {
namespace {

/// False: the thread is to stop.
bool rest(const std::stop_token& stop, std::chrono::milliseconds pause) {
  std::mutex mutex;  // nobody else's: only a stop ends the wait early
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
