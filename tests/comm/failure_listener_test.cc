#include "engine/comm/rendezvous/failure_listener.h"

#include <gtest/gtest.h>

#include <future>

#include "engine/comm/rendezvous/failure_report.h"
#include "tests/support/memory_store.h"

namespace mtf {
namespace {

TEST(FailureListener, HearsOnceThatAnotherProcessHasFailed) {
  MemoryStore store;
  std::promise<int> heard;
  const FailureListener listener(store, 4, [&](int rank) { heard.set_value(rank); });
  std::future<int> rank = heard.get_future();
  publish(store, 2, Error(ErrorKind::kSystem, "the disk is full"));
  ASSERT_EQ(rank.wait_for(std::chrono::seconds(60)), std::future_status::ready);
  EXPECT_EQ(rank.get(), 2);
}

TEST(FailureListener, EndsAtOnceWhereNobodyFails) {
  MemoryStore store;
  const auto begin = std::chrono::steady_clock::now();
  for (int round = 0; round < 20; ++round)
    FailureListener(store, 4, [](int) { FAIL() << "nobody has failed"; });
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

}  // namespace
}  // namespace mtf
