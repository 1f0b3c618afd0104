#include "engine/runtime/thread_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
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

TEST(ThreadPool, RunsEveryTaskOnceInRanges) {
  for (int threads = 1; threads <= 7; ++threads) {
    ThreadPool pool(threads, [] {});
    for (const int64_t tasks : {0, 1, 2, 3, 100, 1001}) {
      std::vector<std::atomic<int>> count(static_cast<size_t>(tasks));
      std::atomic<int64_t> ranges{0};
      pool.run_ranges(tasks, [&](int64_t begin, int64_t end, int worker) {
        EXPECT_LT(worker, threads);
        EXPECT_LT(begin, end);
        for (int64_t task = begin; task < end; ++task) ++count[static_cast<size_t>(task)];
        ++ranges;
      });
      for (const auto& n : count) EXPECT_EQ(n, 1);
      if (tasks > 100) {
        EXPECT_LT(ranges, tasks / 4);
      }
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

/// Holds back all threads but the one that makes the pool before they look for work.
class LateWorkers {
 public:
  std::function<void()> prepare() {
    return [this] {
      if (std::this_thread::get_id() != caller_) released_.wait(false);
    };
  }
  void release() {
    released_ = true;
    released_.notify_all();
  }

 private:
  std::thread::id caller_ = std::this_thread::get_id();
  std::atomic<bool> released_{false};
};

TEST(ThreadPool, ASectionEndsWithoutWorkersThatGetNoCore) {
  LateWorkers late;
  ThreadPool pool(4, late.prepare());
  for (int section = 0; section < 100; ++section) {
    // A late worker must not touch this vector, which is destroyed before the worker wakes.
    auto done = std::make_unique<std::vector<int>>(50);
    pool.run(50, [&](int64_t task, int worker) {
      EXPECT_EQ(worker, 0);
      ++(*done)[static_cast<size_t>(task)];
    });
    EXPECT_EQ(*done, std::vector<int>(50, 1));
  }
  late.release();
  std::set<int> workers;
  std::mutex mutex;
  for (int section = 0; section < 10'000 && workers.size() < 4; ++section) {
    pool.run(8, [&](int64_t, int worker) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const std::lock_guard lock(mutex);
      workers.insert(worker);
    });
  }
  EXPECT_EQ(workers.size(), 4u) << "released workers take tasks";
}

TEST(ThreadPool, EndsWhileWorkersHaveNotYetStarted) {
  for (int round = 0; round < 50; ++round) {
    ThreadPool pool(5, [] {});
    std::atomic<int> done{0};
    if (round % 2 == 0) pool.run(5, [&](int64_t, int) { ++done; });
    EXPECT_EQ(done, round % 2 == 0 ? 5 : 0);
  }
}

TEST(ThreadPool, OthersTakeTheTasksBehindOneThatIsHeldUp) {
  ThreadPool pool(2, [] {});
  int helped = 0;
  // On a busy machine the pool may go on without its worker.
  for (bool helps = true; helps && helped < 20; helped += helps) {
    std::atomic<int> done{0};
    pool.run(20, [&](int64_t task, int) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (task == 0 && done < 19 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      if (task == 0) helps = done == 19;
      ++done;
    });
    EXPECT_EQ(done, 20);
  }
  EXPECT_GT(helped, 0);
}

std::chrono::nanoseconds processor_time(clockid_t clock) {
  timespec time{};
  clock_gettime(clock, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

TEST(ThreadPool, WhoWaitsSleeps) {
  constexpr std::chrono::milliseconds kLong(100);
  ThreadPool pool(3, [] {});
  std::atomic<bool> taken{false};
  const auto before = processor_time(CLOCK_PROCESS_CPUTIME_ID);
  pool.run(3, [&](int64_t, int worker) {
    if (worker == 0) {
      while (!taken) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    } else {
      taken = true;
      std::this_thread::sleep_for(kLong);
    }
  });
  std::this_thread::sleep_for(kLong);
  EXPECT_LT(processor_time(CLOCK_PROCESS_CPUTIME_ID) - before, kLong / 4);
}

TEST(ThreadPool, AWorkerThatHoldsUpTheOthersIsLeftOutForAWhile) {
  constexpr int kSections = 60;
  ThreadPool pool(2, [] {});
  std::atomic<int> held_up{0};
  for (int section = 0; section < kSections; ++section) {
    pool.run(4, [&](int64_t, int worker) {
      if (worker != 0) {  // as if another program had its core
        ++held_up;
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      } else {
        const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
        while (std::chrono::steady_clock::now() < end) {
        }
      }
    });
  }
  EXPECT_LT(held_up, kSections / 2);
}

TEST(ThreadPool, ManyMoreThreadsThanCoresComputeTheSame) {
  const auto use_pool = [] {
    ThreadPool pool(16, [] {});
    std::vector<int64_t> values(40);
    for (int section = 0; section < 2000; ++section) {
      pool.run(2 + section % 39, [&](int64_t task, int worker) {
        if ((section + worker) % 97 == 5) std::this_thread::sleep_for(std::chrono::microseconds(200));
        values[static_cast<size_t>(task)] += section;
      });
    }
    for (int64_t task = 0; task < 40; ++task) {
      int64_t expected = 0;
      for (int section = 0; section < 2000; ++section) expected += task < 2 + section % 39 ? section : 0;
      EXPECT_EQ(values[static_cast<size_t>(task)], expected) << task;
    }
  };
  std::vector<std::thread> users;
  for (int i = 0; i < 3; ++i) users.emplace_back(use_pool);
  for (std::thread& user : users) user.join();
}

}  // namespace
}  // namespace mtf
