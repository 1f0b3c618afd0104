// ThreadPool has workers that run the tasks of one parallel section at a time. Results never depend on which
// worker runs a task. A section ends when its tasks are done: a worker that gets no core in time takes none,
// and nobody waits for it.
//
//   ThreadPool pool(2, [] { /* once in each thread */ });
//   pool.run(100, [&](int64_t task, int worker) { ... });
//   pool.run_ranges(100, [&](int64_t begin, int64_t end, int worker) { ... });   // for short tasks
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <ctime>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include "engine/runtime/active_workers.h"

namespace mtf {

class ThreadPool {
 public:
  /// Starts `threads` workers, the calling thread included; `prepare` runs once in each.
  ThreadPool(int threads, const std::function<void()>& prepare);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls body(task, worker) for every task in [0, tasks) and returns when all are done. Does not allocate.
  /// Rethrows the first exception.
  template <class Body>
  void run(int64_t tasks, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    const Call call = [](void* context, int64_t begin, int64_t end, int worker) {
      for (int64_t task = begin; task < end; ++task) (*static_cast<Plain*>(context))(task, worker);
    };
    run(tasks, 0, call, &body);
  }
  /// Calls body(begin, end, worker) for ranges of tasks, each task once. Every worker begins with a large part of them, since some
  /// work is done once for each range, and ranges become shorter towards the end.
  template <class Body>
  void run_ranges(int64_t tasks, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    const Call call = [](void* context, int64_t begin, int64_t end, int worker) {
      (*static_cast<Plain*>(context))(begin, end, worker);
    };
    run(tasks, int64_t{active_workers_.count() + 1}, call, &body);
  }

 private:
  using Call = void (*)(void* context, int64_t begin, int64_t end, int worker);
  using Nanoseconds = std::chrono::nanoseconds;

  /// A thread that the pool has started.
  struct alignas(64) Worker {
    std::thread thread;
    clockid_t clock{};                     ///< measures the processor time of the thread
    std::atomic<int64_t> searched{0};      ///< nanoseconds spent spinning without a task
    Nanoseconds processor_time_before{0};  ///< at the time when the calling thread fell asleep

    Nanoseconds processor_time() const;
  };

  void run(int64_t tasks, int64_t sharers, Call call, void* context);
  void work(int worker);
  bool wait_for_section(int worker, uint32_t& seen);
  int64_t take_tasks(int worker);
  int64_t range_of(int64_t left) const;
  void wait_for_tasks();
  void try_more_workers();
  Nanoseconds processor_time_of_tasks() const;

  // Separate cache lines hold what workers wait for and what each task writes.
  alignas(64) std::atomic<uint32_t> section_{0};  ///< number of the current parallel section
  std::atomic<int> active_;                       ///< workers numbered up to this one take tasks
  std::atomic<int> core_{-1};                     ///< core on which the calling thread began the section
  std::atomic<bool> stop_{false};
  /// The workers between whom the section's tasks are divided in ranges; 0: they take one at a time. With the values of another
  /// section a worker takes more or fewer at a time.
  std::atomic<int64_t> sharers_{0}, shared_tasks_{0};
  alignas(64) std::atomic<int64_t> untaken_{0};  ///< tasks of the section that nobody has taken
  // The next three are written before untaken_ and do not change while a task that has been taken is not
  // done.
  int64_t tasks_ = 0;
  Call call_ = nullptr;
  void* context_ = nullptr;
  alignas(64) std::atomic<int64_t> undone_{0};  ///< tasks of the section that are not done
  std::atomic<int> last_{0};                    ///< worker that was the last to do a task

  std::mutex error_mutex_;
  std::exception_ptr error_;
  ActiveWorkers active_workers_;
  std::vector<Worker> workers_;  ///< element i is worker i + 1; worker 0 is the calling thread
};

}  // namespace mtf
