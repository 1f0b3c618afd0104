#include "engine/runtime/thread_pool.h"

#include <immintrin.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>

namespace mtf {
namespace {

using std::chrono::nanoseconds;

/// How long a waiting thread spins before it sleeps: about the time that a sleeping thread takes to wake.
constexpr nanoseconds kSearch = std::chrono::microseconds(50);
/// Iterations between two looks at the clock, each of which takes as long as some iterations.
constexpr int kPauses = 16;

nanoseconds now() { return std::chrono::steady_clock::now().time_since_epoch(); }

/// Spins until `done()` and returns true, with the time in `end`. Returns false after kSearch, or as soon as
/// `pointless()`; `end` is then the latest time that was read.
template <class Done, class Pointless>
bool search(nanoseconds begin, nanoseconds& end, const Done& done, const Pointless& pointless) {
  do {
    if (pointless()) return false;
    for (int i = 0; i < kPauses; ++i) {
      if (done()) {
        end = now();
        return true;
      }
      _mm_pause();
    }
    end = now();
  } while (end - begin < kSearch);
  return false;
}

}  // namespace

ThreadPool::ThreadPool(int threads, const std::function<void()>& prepare)
    : active_(threads - 1), active_workers_(threads - 1), workers_(static_cast<size_t>(threads - 1)) {
  prepare();
  for (int worker = 1; worker < threads; ++worker) {
    Worker& state = workers_[static_cast<size_t>(worker) - 1];
    state.thread = std::thread([this, worker, prepare] {
      prepare();
      work(worker);
    });
    pthread_getcpuclockid(state.thread.native_handle(), &state.clock);
  }
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  active_ = threads();
  active_.notify_all();
  ++section_;
  section_.notify_all();
  for (Worker& worker : workers_) worker.thread.join();
}

ThreadPool::Nanoseconds ThreadPool::Worker::processor_time() const {
  timespec time{};
  clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + nanoseconds(time.tv_nsec);
}

void ThreadPool::run(int64_t tasks, int64_t sharers, Call call, void* context) {
  if (tasks <= 0) return;
  if (tasks > 1 && workers_.size() > static_cast<size_t>(active_workers_.count())) try_more_workers();
  if (tasks == 1 || active_workers_.count() == 0) {
    call(context, 0, tasks, 0);
    return;
  }
  tasks_ = tasks;
  sharers_.store(sharers, std::memory_order_relaxed);
  shared_tasks_.store(tasks, std::memory_order_relaxed);
  call_ = call;
  context_ = context;
  error_ = nullptr;
  core_.store(sched_getcpu(), std::memory_order_relaxed);
  undone_.store(tasks, std::memory_order_relaxed);
  untaken_.store(tasks, std::memory_order_release);
  section_.fetch_add(1, std::memory_order_release);
  section_.notify_all();
  const int64_t done = take_tasks(0);
  if (undone_.fetch_sub(done, std::memory_order_acq_rel) != done) wait_for_tasks();
  if (error_) std::rethrow_exception(error_);
}

/// Sleeps when the workers take long. Counts the time in which the last worker has no core as lost.
void ThreadPool::wait_for_tasks() {
  const auto done = [&] { return undone_.load(std::memory_order_acquire) == 0; };
  const nanoseconds begin = now();
  nanoseconds asleep = begin;
  if (search(begin, asleep, done, [] { return false; })) return;
  for (Worker& worker : workers_) worker.processor_time_before = worker.processor_time();
  for (int64_t undone; (undone = undone_.load(std::memory_order_acquire)) > 0;)
    undone_.wait(undone, std::memory_order_acquire);
  const nanoseconds end = now();
  const Worker& last = workers_[static_cast<size_t>(last_.load(std::memory_order_relaxed)) - 1];
  nanoseconds lost =
      std::max(nanoseconds(0), end - asleep - (last.processor_time() - last.processor_time_before));
  if (2 * lost > end - asleep) lost += asleep - begin;
  active_workers_.wait_ended({.now = end, .lost = lost, .worked = processor_time_of_tasks()});
  active_ = active_workers_.count();
}

void ThreadPool::try_more_workers() {
  const nanoseconds time = now();
  if (!active_workers_.may_raise(time)) return;
  active_workers_.raise(time, processor_time_of_tasks());
  active_ = active_workers_.count();
  active_.notify_all();
}

nanoseconds ThreadPool::processor_time_of_tasks() const {
  nanoseconds sum(0);
  for (const Worker& worker : workers_)
    sum += worker.processor_time() - nanoseconds(worker.searched.load(std::memory_order_relaxed));
  return sum;
}

void ThreadPool::work(int worker) {
  uint32_t seen = 0;
  while (wait_for_section(worker, seen)) {
    const int64_t done = take_tasks(worker);
    if (done == 0) continue;
    last_.store(worker, std::memory_order_relaxed);
    if (undone_.fetch_sub(done, std::memory_order_acq_rel) == done) undone_.notify_one();
  }
}

/// Waits until there is a section other than `seen` and this worker takes part. Returns false if the pool
/// ends.
bool ThreadPool::wait_for_section(int worker, uint32_t& seen) {
  const auto begun = [&] { return section_.load(std::memory_order_acquire) != seen; };
  const nanoseconds begin = now();
  nanoseconds end = begin;
  // A worker on the core of the calling thread would only keep that thread from running.
  search(begin, end, begun, [&] { return sched_getcpu() == core_.load(std::memory_order_relaxed); });
  // A search that took longer than kSearch has lost its core in between.
  workers_[static_cast<size_t>(worker) - 1].searched.fetch_add(std::min(end - begin, kSearch).count(),
                                                               std::memory_order_relaxed);
  section_.wait(seen, std::memory_order_acquire);
  for (int active; (active = active_.load(std::memory_order_acquire)) < worker;)
    active_.wait(active, std::memory_order_acquire);
  seen = section_.load(std::memory_order_acquire);
  return !stop_;
}

/// The number of tasks that a worker takes when `left` are untaken: each of the workers an equal range of three quarters of the
/// tasks, then of three quarters of the rest, and so on.
int64_t ThreadPool::range_of(int64_t left) const {
  const int64_t sharers = sharers_.load(std::memory_order_relaxed);
  if (sharers == 0) return 1;
  int64_t rest = shared_tasks_.load(std::memory_order_relaxed), range;
  while ((range = rest * 3 / 4 / sharers) > 1 && rest - left >= range * sharers) rest -= range * sharers;
  return std::clamp<int64_t>(range, 1, left);
}

/// Runs tasks until none is left and returns their number. A task that has been taken keeps the section alive
/// until it is done, so call_ and context_ are valid; a worker that takes no task does not read them.
int64_t ThreadPool::take_tasks(int worker) {
  int64_t done = 0;
  for (int64_t left = untaken_.load(std::memory_order_relaxed); left > 0;) {
    const int64_t taken = range_of(left);
    if (!untaken_.compare_exchange_weak(left, left - taken, std::memory_order_acquire,
                                        std::memory_order_relaxed))
      continue;
    try {
      call_(context_, tasks_ - left, tasks_ - left + taken, worker);
    } catch (...) {
      const std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
    }
    done += taken;
    left = untaken_.load(std::memory_order_relaxed);
  }
  return done;
}

}  // namespace mtf
