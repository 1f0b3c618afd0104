#include "engine/runtime/thread_pool.h"

#include <immintrin.h>

namespace mtf {
namespace {

/// How often a waiting worker looks before it sleeps: some tens of microseconds.
constexpr int kSpins = 4000;

}  // namespace

ThreadPool::ThreadPool(int threads, const std::function<void()>& prepare) {
  prepare();
  for (int worker = 1; worker < threads; ++worker) {
    threads_.emplace_back([this, worker, prepare] {
      prepare();
      work(worker);
    });
  }
}

ThreadPool::~ThreadPool() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadPool::run(int64_t tasks, Call call, void* context) {
  if (tasks <= 0) return;
  if (threads_.empty() || tasks == 1) {
    for (int64_t task = 0; task < tasks; ++task) call(context, task, 0);
    return;
  }
  tasks_ = tasks;
  call_ = call;
  context_ = context;
  error_ = nullptr;
  next_.store(0, std::memory_order_relaxed);
  busy_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  {
    const std::lock_guard lock(mutex_);
    section_.fetch_add(1, std::memory_order_release);
  }
  wake_.notify_all();
  take_tasks(0);
  for (int spins = 0; busy_.load(std::memory_order_acquire) > 0; ++spins) {
    if (spins < kSpins) {
      _mm_pause();
    } else {
      std::this_thread::yield();
    }
  }
  if (error_) std::rethrow_exception(error_);
}

void ThreadPool::work(int worker) {
  uint64_t seen = 0;
  while (true) {
    for (int spins = 0; spins < kSpins && section_.load(std::memory_order_acquire) == seen && !stop_;
         ++spins) {
      _mm_pause();
    }
    if (section_.load(std::memory_order_acquire) == seen) {
      std::unique_lock lock(mutex_);
      wake_.wait(lock, [&] { return stop_ || section_.load(std::memory_order_acquire) != seen; });
    }
    if (stop_) return;
    seen = section_.load(std::memory_order_acquire);
    take_tasks(worker);
    busy_.fetch_sub(1, std::memory_order_release);
  }
}

void ThreadPool::take_tasks(int worker) {
  for (int64_t task; (task = next_.fetch_add(1, std::memory_order_relaxed)) < tasks_;) {
    try {
      call_(context_, task, worker);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
  }
}

}  // namespace mtf
