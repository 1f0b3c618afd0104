// How many workers of a thread pool take part. A worker that has to share its core holds up the others while
// they wait for it; where that costs more time than its work saves, fewer workers take part for a while.
//
//   ActiveWorkers active(3);
//   active.wait_ended({.now = now, .lost = lost, .worked = worked});     // count() may be 1 now
//   if (active.may_raise(now)) active.raise(now, worked);                // after a while 3 again
#pragma once

#include <chrono>

namespace mtf {

class ActiveWorkers {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  /// The calling thread's wait for workers, when it has ended.
  struct Wait {
    Nanoseconds now;     ///< by a steady clock
    Nanoseconds lost;    ///< the part of the wait in which the worker that was waited for had no core
    Nanoseconds worked;  ///< processor time that all workers have spent on tasks, since the pool began
  };

  explicit ActiveWorkers(int workers) : workers_(workers), count_(workers) {}

  /// Workers that take part, the calling thread not included.
  int count() const { return count_; }

  /// May lower count().
  void wait_ended(const Wait& wait);
  /// Fewer workers take part, and it is time to try more.
  bool may_raise(Nanoseconds now) const { return count_ < workers_ && now >= resume_; }
  void raise(Nanoseconds now, Nanoseconds worked);

 private:
  void begin_window(Nanoseconds now, Nanoseconds worked);

  int workers_;
  int count_;
  Nanoseconds window_begin_{0};   ///< losses are added up since then
  Nanoseconds window_worked_{0};  ///< Wait::worked at that time
  Nanoseconds lost_{0};           ///< in the window
  Nanoseconds resume_{0};         ///< when to try more workers
  Nanoseconds pause_{0};          ///< how long fewer workers took part the last time
};

}  // namespace mtf
