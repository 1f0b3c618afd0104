#include "engine/runtime/thread_pool.h"

#include <gtest/gtest.h>

#include <chrono>
#include <set>
#include <stdexcept>

namespace mtf {
namespace {

TEST(ThreadPool, RunsEveryTaskOnce) {
  for (int threads = 1; threads <= 7; ++threads) {
    ThreadPool pool(threads, [] {});
    EXPECT_EQ(pool.threads(), threads);
    for (const int64_t tasks : {0, 1, 2, 3, 100, 1001}) {
      std::vector<std::atomic<int>> count(static_cast<size_t>(tasks));
      pool.run(tasks, [&](int64_t task, int worker) {
        EXPECT_GE(worker, 0);
        EXPECT_LT(worker, threads);
        ++count[static_cast<size_t>(task)];
      });
      for (const auto& n : count) EXPECT_EQ(n, 1);
    }
  }
}

TEST(ThreadPool, RunsManyShortSections) {
  for (int threads = 1; threads <= 7; ++threads) {
    ThreadPool pool(threads, [] {});
    std::vector<int64_t> sums(static_cast<size_t>(threads) * 64);  // a cache line for each worker
    for (int section = 0; section < 1000; ++section) {
      pool.run(8, [&](int64_t task, int worker) { sums[static_cast<size_t>(worker) * 64] += task + 1; });
    }
    int64_t total = 0;
    for (int64_t sum : sums) total += sum;
    EXPECT_EQ(total, 1000 * 36);
  }
}

TEST(ThreadPool, ASectionSeesWhatTheOneBeforeWrote) {
  ThreadPool pool(4, [] {});
  std::vector<int64_t> values(64);
  for (int section = 0; section < 500; ++section) {
    pool.run(64, [&](int64_t task, int) { ++values[static_cast<size_t>((task * 7 + section) % 64)]; });
  }
  for (int64_t value : values) EXPECT_EQ(value, 500);
}

TEST(ThreadPool, WakesWorkersThatSleep) {
  ThreadPool pool(3, [] {});
  for (int section = 0; section < 20; ++section) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    std::atomic<int> done{0};
    pool.run(3, [&](int64_t, int) { ++done; });
    EXPECT_EQ(done, 3);
  }
}

TEST(ThreadPool, RethrowsAnExceptionAndGoesOn) {
  for (int threads = 1; threads <= 7; ++threads) {
    ThreadPool pool(threads, [] {});
    for (int round = 0; round < 20; ++round) {
      EXPECT_THROW(pool.run(50,
                            [](int64_t task, int) {
                              if (task % 10 == 3) throw std::runtime_error("task");
                            }),
                   std::runtime_error);
      std::atomic<int> done{0};
      pool.run(50, [&](int64_t, int) { ++done; });
      EXPECT_EQ(done, 50);
    }
  }
}

TEST(ThreadPool, PreparesEveryThreadOnce) {
  std::mutex mutex;
  std::multiset<std::thread::id> prepared;
  {
    ThreadPool pool(5, [&] {
      const std::lock_guard lock(mutex);
      prepared.insert(std::this_thread::get_id());
    });
  }
  EXPECT_EQ(prepared.size(), 5u);
  EXPECT_EQ(std::set(prepared.begin(), prepared.end()).size(), 5u);
}

}  // namespace
}  // namespace mtf
