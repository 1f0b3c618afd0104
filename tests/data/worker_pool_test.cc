#include "data/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>

namespace mtf {
namespace {

TEST(WorkerPool, RunsEachTaskOnce) {
  for (const int threads : {1, 2, 5}) {
    WorkerPool pool(threads);
    for (const int64_t tasks : {0, 1, 3, 100}) {
      std::vector<std::atomic<int>> runs(static_cast<size_t>(tasks));
      pool.run(tasks, [&](int64_t i) { ++runs[static_cast<size_t>(i)]; });
      for (const std::atomic<int>& count : runs) EXPECT_EQ(count, 1);
    }
  }
}

TEST(WorkerPool, RethrowsAndGoesOn) {
  WorkerPool pool(4);
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::string message;
    try {
      pool.run(100, [](int64_t i) {
        if (i == 3) throw std::runtime_error("three");
        if (i > 3) std::this_thread::sleep_for(std::chrono::microseconds(20));
      });
    } catch (const std::runtime_error& error) {
      message = error.what();
    }
    EXPECT_EQ(message, "three");
    std::atomic<int> runs = 0;
    pool.run(10, [&](int64_t) { ++runs; });
    EXPECT_EQ(runs, 10);
  }
}

TEST(WorkerPool, MayBeSharedByThreads) {
  WorkerPool pool(3);
  std::atomic<int> runs = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      for (int j = 0; j < 50; ++j) pool.run(7, [&](int64_t) { ++runs; });
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(runs, 4 * 50 * 7);
}

}  // namespace
}  // namespace mtf
