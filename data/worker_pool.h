// Threads that work on the tasks of a job together with the thread that asks for it.
//
//   WorkerPool pool(4);                                     // three threads beside the caller's
//   pool.run(100, [&](int64_t task) { decode(task); });     // returns when all are done
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace mtf {

class WorkerPool {
 public:
  /// `threads` counts the caller of run() as well.
  explicit WorkerPool(int threads);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  int threads() const { return static_cast<int>(workers_.size()) + 1; }

  /// Calls task(0) .. task(tasks - 1), in any order and several at a time. If some throw, the exception of the first of
  /// these tasks is rethrown when no task runs any more; those that have not begun are left out. Several threads may call
  /// run(); one waits for the other.
  void run(int64_t tasks, const std::function<void(int64_t)>& task);

 private:
  void work();
  /// Runs tasks until none is left. `lock` holds mutex_.
  void run_tasks(std::unique_lock<std::mutex>& lock);

  std::mutex callers_;  ///< held during run()
  std::mutex mutex_;
  std::condition_variable changed_;
  const std::function<void(int64_t)>* task_ = nullptr;
  int64_t tasks_ = 0;    ///< tasks of the job
  int64_t begun_ = 0;    ///< tasks of the job that have begun
  int64_t running_ = 0;  ///< and of these not ended
  int64_t failed_ = 0;   ///< the first task that threw
  std::exception_ptr error_;
  bool stop_ = false;
  std::vector<std::thread> workers_;
};

}  // namespace mtf
