#include "engine/runtime/active_workers.h"

#include <algorithm>

namespace mtf {
namespace {

using std::chrono::milliseconds;

/// The span of time over which losses are compared with work. Over a shorter one, chance would decide:
/// schedulers give a thread some milliseconds at once.
constexpr milliseconds kWindow(10);
/// The length of a pause as a multiple of the time lost before it. It is large, so that a failed attempt to
/// use more workers costs only a small share of the time.
constexpr int kPausePerLoss = 16;
constexpr milliseconds kLongestPause(500);

}  // namespace

/// Lowers count() to half of the threads, or to the calling thread alone, when the time lost exceeds the time
/// that the remaining threads would need for the work of the others.
void ActiveWorkers::wait_ended(const Wait& wait) {
  lost_ += wait.lost;
  if (wait.now - window_begin_ < kWindow) return;
  const Nanoseconds worked = wait.worked - window_worked_;
  const int threads = count_ + 1, fewer = lost_ > worked ? 1 : threads / 2;
  if (count_ > 0 && lost_ > worked * (threads - fewer) / (count_ * fewer)) {
    const bool soon = wait.now - resume_ < pause_;
    const Nanoseconds pause = std::max<Nanoseconds>(soon ? 2 * pause_ : pause_ / 2, kPausePerLoss * lost_);
    pause_ = std::min<Nanoseconds>(pause, kLongestPause);
    resume_ = wait.now + pause_;
    count_ = fewer - 1;
  }
  begin_window(wait.now, wait.worked);
}

void ActiveWorkers::raise(Nanoseconds now, Nanoseconds worked) {
  count_ = std::min(workers_, 2 * count_ + 1);
  resume_ = now + kWindow;
  begin_window(now, worked);
}

void ActiveWorkers::begin_window(Nanoseconds now, Nanoseconds worked) {
  window_begin_ = now;
  window_worked_ = worked;
  lost_ = Nanoseconds(0);
}

}  // namespace mtf
