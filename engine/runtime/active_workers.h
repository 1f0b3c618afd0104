// ActiveWorkers decides how many workers of a thread pool take part in parallel sections. A worker that has
// to share its core holds up the other threads, which wait for it. Where that costs more time than its work
// saves, fewer workers take part for a while.
//
//   ActiveWorkers active(3);
//   active.wait_ended({.now = now, .lost = lost, .worked = worked});     // count() may be 1 now
//   if (active.may_raise(now)) active.raise(now, worked);                // later 3 again
#pragma once

#include <chrono>

namespace mtf {

class ActiveWorkers {
 public:
  using Nanoseconds = std::chrono::nanoseconds;

  /// A wait of the calling thread for workers, reported after it has ended.
  struct Wait {
    Nanoseconds now;     ///< end of the wait, by a steady clock
    Nanoseconds lost;    ///< part of the wait in which the awaited worker had no core
    Nanoseconds worked;  ///< processor time that all workers have spent on tasks since the pool began
  };

  explicit ActiveWorkers(int workers) : workers_(workers), count_(workers) {}

  /// The number of workers that take part, without the calling thread.
  int count() const { return count_; }

  /// Records a wait; may lower count().
  void wait_ended(const Wait& wait);
  /// True if fewer than all workers take part and it is time to try more.
  bool may_raise(Nanoseconds now) const { return count_ < workers_ && now >= resume_; }
  /// Lets about twice as many threads take part. `now` and `worked` are as in Wait.
  void raise(Nanoseconds now, Nanoseconds worked);

 private:
  void begin_window(Nanoseconds now, Nanoseconds worked);

  int workers_;
  int count_;
  Nanoseconds window_begin_{0};   ///< start of the window in which losses are added up
  Nanoseconds window_worked_{0};  ///< Wait::worked at window_begin_
  Nanoseconds lost_{0};           ///< time lost in the window
  Nanoseconds resume_{0};         ///< time at which to try more workers
  Nanoseconds pause_{0};          ///< length of the latest pause, in which fewer workers took part
};

}  // namespace mtf
