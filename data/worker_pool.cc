#include "data/worker_pool.h"

#include <utility>

#include "engine/base/check.h"

namespace mtf {

WorkerPool::WorkerPool(int threads) {
  MTF_CHECK(threads >= 1, "{} threads", threads);
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this] { work(); });
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void WorkerPool::run(int64_t tasks, const std::function<void(int64_t)>& task) {
  const std::lock_guard one_at_a_time(callers_);
  std::unique_lock lock(mutex_);
  task_ = &task;
  tasks_ = tasks;
  begun_ = 0;
  error_ = nullptr;
  changed_.notify_all();
  run_tasks(lock);
  changed_.wait(lock, [this] { return running_ == 0; });
  tasks_ = begun_ = 0;
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

void WorkerPool::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || begun_ < tasks_; });
    if (stop_) return;
    run_tasks(lock);
  }
}

void WorkerPool::run_tasks(std::unique_lock<std::mutex>& lock) {
  while (begun_ < tasks_) {
    const int64_t number = begun_++;
    ++running_;
    const std::function<void(int64_t)>& task = *task_;
    lock.unlock();
    std::exception_ptr error;
    try {
      task(number);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    --running_;
    if (error && (!error_ || number < failed_)) {
      error_ = error;
      failed_ = number;
    }
    if (error) begun_ = tasks_;
  }
  if (running_ == 0) changed_.notify_all();
}

}  // namespace mtf
