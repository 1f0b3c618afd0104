// Tests that values that strangers put into a store count as not set.
#include "engine/comm/rendezvous/signed_store.h"

#include <gmock/gmock.h>

#include <future>

#include "engine/comm/rendezvous/failure_report.h"
#include "tests/support/memory_store.h"

namespace mtf {
namespace {

constexpr Milliseconds kAtOnce(0), kPatient(20'000);

TEST(SignedStore, OnlyThoseWithTheSecretAreHeard) {
  MemoryStore whole;
  const Secret secret("the secret of this run");
  SignedStore one(whole, secret), other(whole, secret), stranger(whole, Secret("another secret, as long"));
  one.set("a", "value");
  EXPECT_EQ(other.get("a", kAtOnce), "value");
  EXPECT_EQ(stranger.get("a", kAtOnce), std::nullopt);
  for (const std::string& forged : {std::string("value"), std::string(), std::string(100, 'x')}) {
    whole.set("b", forged);
    EXPECT_EQ(one.get("b", kAtOnce), std::nullopt);
  }
  whole.set("b", *whole.get("a", kAtOnce));
  EXPECT_EQ(one.get("b", kAtOnce), std::nullopt) << "the value of another key";
  stranger.set("b", "value");
  EXPECT_EQ(one.get("b", Milliseconds(50)), std::nullopt);
  EXPECT_EQ(one.add("n", 2), 2);
}

TEST(SignedStore, AValueIsAwaitedBehindAForgedOne) {
  MemoryStore whole;
  SignedStore store(whole, Secret("the secret of this run"));
  whole.set("a", "forged");
  auto late = std::async(std::launch::async, [&] { return store.get("a", kPatient); });
  EXPECT_EQ(late.wait_for(Milliseconds(50)), std::future_status::timeout);
  store.set("a", "right");
  EXPECT_EQ(late.get(), "right");
}

TEST(SignedStore, ValuesOfAnEarlierSessionAreWorthNothing) {
  MemoryStore whole;
  const Secret secret("the secret of this run");
  SignedStore store(whole, secret);
  store.begin_session("yesterday");
  store.set("a", "old");
  store.begin_session("today");
  EXPECT_EQ(store.get("a", kAtOnce), std::nullopt);
}

TEST(FailureReport, WhatIsNoReportBlamesNobody) {
  MemoryStore store;
  for (const char* rank : {"1", "-1", "1x", "", "99999999999", "seven"}) {
    store.set("failed", rank);
    EXPECT_EQ(failed_rank(store, 3), std::nullopt) << rank << ", which has reported nothing";
  }
  store.set("failed", "1");
  for (const char* report :
       {"", "{}", "[1]", R"({"order": 1, "kind": 77, "text": "x"})", R"({"order": "a"})"}) {
    store.set("error/1", report);
    EXPECT_EQ(failed_rank(store, 3), std::nullopt) << report;
  }
  publish(store, 1, Error(ErrorKind::kData, "no data"));
  EXPECT_EQ(failed_rank(store, 3), 1);
  EXPECT_EQ(read_failure(store, 1)->text, "no data");
  EXPECT_EQ(failed_rank(store, 1), std::nullopt) << "no rank of a run of one";
  store.set(left_key(1), "");
  EXPECT_EQ(failed_rank(store, 3), std::nullopt) << "it has come to the end of the run";
}

}  // namespace
}  // namespace mtf
