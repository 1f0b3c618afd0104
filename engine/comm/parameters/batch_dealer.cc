#include "engine/comm/parameters/batch_dealer.h"

#include <algorithm>

#include "engine/base/check.h"

namespace mtf {

void BatchDealer::start(const DealerState& state) { state_ = state; }

bool BatchDealer::has_ended() const {
  const auto in_hand = static_cast<int64_t>(dealt_.size() + returned_.size());
  return returned_.empty() && state_.last_step && state_.step + in_hand >= *state_.last_step;
}

std::optional<BatchDealer::Batch> BatchDealer::deal(int worker) {
  MTF_CHECK(!has_batch(worker), "worker {} has a batch", worker);
  // The update of this batch, and those of all batches that are dealt, must fit before its weights are too
  // old.
  if (static_cast<int64_t>(dealt_.size()) > max_staleness_) return std::nullopt;
  if (returned_.empty() && (paused_ || has_ended())) return std::nullopt;
  Dealt dealt{{state_.next_row, batches_++}, state_.step, Clock::now()};
  if (returned_.empty()) {
    state_.next_row += batch_size_;
  } else {
    dealt.batch.row = returned_.front();
    returned_.pop_front();
    ++dealt_again_;
  }
  dealt_[worker] = dealt;
  return dealt.batch;
}

void BatchDealer::arrived(int worker) {
  if (const auto found = dealt_.find(worker); found != dealt_.end()) found->second.arrived = true;
}

/// After the update, at most d of the other batches may have their deadline within the next d updates, for
/// every d. Then it is always possible to apply the one with the earliest deadline first.
bool BatchDealer::may_apply(int worker) const {
  std::vector<int64_t> versions;
  for (const auto& [other, dealt] : dealt_) {
    if (other != worker) versions.push_back(dealt.version);
  }
  std::ranges::sort(versions);
  for (size_t i = 0; i < versions.size(); ++i) {
    const int64_t places = versions[i] + max_staleness_ - state_.step;  // left for the first i + 1 of them
    if (static_cast<int64_t>(i) + 1 > places) return false;
  }
  return true;
}

BatchDealer::Applied BatchDealer::apply(int worker) {
  MTF_CHECK(has_batch(worker), "worker {} has no batch", worker);
  const Dealt& dealt = dealt_.at(worker);
  const int64_t staleness = state_.step - dealt.version;
  if (static_cast<int64_t>(histogram_.size()) <= staleness)
    histogram_.resize(static_cast<size_t>(staleness) + 1);
  ++histogram_[staleness];
  // The worker has passed on the decisions of which it learned with its batch.
  std::erase_if(decisions_, [&](const Decision& decision) { return decision.step < dealt.version; });
  decisions_.push_back({state_.step, dealt.batch.number});
  dealt_.erase(worker);
  return {state_.step++, staleness};
}

void BatchDealer::lost(int worker) {
  const auto found = dealt_.find(worker);
  if (found == dealt_.end()) return;
  returned_.push_back(found->second.batch.row);
  dealt_.erase(found);
}

std::vector<int> BatchDealer::overdue(std::chrono::milliseconds limit) const {
  std::vector<int> workers;
  for (const auto& [worker, dealt] : dealt_) {
    if (!dealt.arrived && Clock::now() - dealt.since > limit) workers.push_back(worker);
  }
  return workers;
}

}  // namespace mtf
