#include "engine/comm/parameters/batch_dealer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <vector>

namespace mtf {
namespace {

/// Passes the decisions on to another server, which has made updates of the batches `updates`.
void carry_out(const BatchDealer& dealer, std::vector<int64_t>& updates) {
  for (const Decision& decision : dealer.decisions()) {
    const auto next = static_cast<int64_t>(updates.size());
    ASSERT_LE(decision.step, next) << "a decision is missing";
    if (decision.step == next) updates.push_back(decision.batch);
  }
}

TEST(BatchDealer, KeepsTheBoundWithoutEverStandingStill) {
  std::mt19937 random(7);
  for (const int64_t bound : {0, 1, 2, 3, 8}) {
    BatchDealer dealer(5, bound);
    dealer.start({.step = 0, .next_row = 0, .last_step = 500});
    std::map<int, std::pair<int64_t, int64_t>> in_hand;  // row and version of each worker
    std::map<int, int64_t> numbers;                      // the number of each worker's batch
    std::multiset<int64_t> done;
    std::vector<int64_t> decided, elsewhere;  // numbers of the batches, at server 0 and at another server
    while (!dealer.has_ended() || !dealer.is_idle()) {
      bool moved = false;
      std::vector<int> workers{0, 1, 2, 3, 4};
      std::ranges::shuffle(workers, random);
      for (const int worker : workers) {
        if (in_hand.contains(worker)) {
          if (random() % 20 == 0) {
            dealer.lost(worker);
            in_hand.erase(worker);
            moved = true;
          } else if (dealer.may_apply(worker)) {
            moved = true;
            if (worker == 4 && in_hand.size() > 1 && random() % 10 != 0) continue;  // worker 4 is slow
            const auto [row, version] = in_hand[worker];
            const int64_t staleness = dealer.state().step - version;
            EXPECT_EQ(dealer.apply(worker).staleness, staleness);
            EXPECT_LE(staleness, bound);
            done.insert(row);
            decided.push_back(numbers[worker]);
            in_hand.erase(worker);
          }
        } else if (const auto batch = dealer.deal(worker)) {
          in_hand[worker] = {batch->row, dealer.state().step};
          numbers[worker] = batch->number;
          carry_out(dealer, elsewhere);
          EXPECT_EQ(elsewhere, decided) << "whoever reads weights has brought all updates";
          EXPECT_LE(dealer.decisions().size(), static_cast<size_t>(bound) + 1);
          moved = true;
        }
      }
      ASSERT_TRUE(moved) << "bound " << bound;
    }
    ASSERT_EQ(done.size(), 500u);
    int64_t row = 0;
    for (const int64_t each : done) EXPECT_EQ(each, 5 * row++);
  }
}

}  // namespace
}  // namespace mtf
