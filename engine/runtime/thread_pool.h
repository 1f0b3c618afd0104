// Workers that run the tasks of one parallel section at a time. Which worker runs a task never influences a
// result.
//
//   ThreadPool pool(2, [] { /* once in each thread */ });
//   pool.run(100, [&](int64_t task, int worker) { ... });
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace mtf {

class ThreadPool {
 public:
  /// `threads` workers, the calling thread included; `prepare` runs once in each.
  ThreadPool(int threads, const std::function<void()>& prepare);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;

  int threads() const { return static_cast<int>(threads_.size()) + 1; }

  /// Calls body(task, worker) for every task in [0, tasks); returns when all are done. Allocates nothing. The
  /// first exception is rethrown.
  template <class Body>
  void run(int64_t tasks, Body&& body) {
    using Plain = std::remove_reference_t<Body>;
    run(
        tasks, [](void* context, int64_t task, int worker) { (*static_cast<Plain*>(context))(task, worker); },
        &body);
  }

 private:
  using Call = void (*)(void* context, int64_t task, int worker);

  void run(int64_t tasks, Call call, void* context);
  void work(int worker);
  void take_tasks(int worker);

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<uint64_t> section_{0};  ///< number of the current parallel section
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> next_{0};  ///< next task that nobody has taken
  std::atomic<int> busy_{0};      ///< workers that have not finished the current section
  int64_t tasks_ = 0;
  Call call_ = nullptr;
  void* context_ = nullptr;
  std::exception_ptr error_;
};

}  // namespace mtf
