// Deals batches to the workers of an asynchronous training, and decides when a worker's gradient may be
// applied, such that the staleness of every update is bounded.
//
//   BatchDealer dealer(200, 8);
//   dealer.start({.step = 0, .next_row = 0, .last_step = 3000});
//   if (const auto batch = dealer.deal(worker)) ...       // the worker reads the weights and computes
//   if (dealer.may_apply(worker)) dealer.apply(worker);   // otherwise a worker with older weights is first
//
// The staleness of an update is the number of updates between the reading of the weights and it. A worker
// with a batch must finish before `max_staleness` more updates are applied; a worker that is ahead waits if
// it would take the last turn that is left for a slower one (earliest deadline first), so that no gradient is
// discarded. With max_staleness 0 there is one batch at a time, as with one worker.
//
// The dealer's decisions are what all servers follow: apply() fixes the number of an update. Whoever is dealt a batch
// makes the other servers carry out the decisions() so far before it reads the weights.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "engine/comm/parameters/parameter_protocol.h"

namespace mtf {

/// The progress of a run.
struct DealerState {
  int64_t step = 0;                  ///< number of updates so far
  int64_t next_row = 0;              ///< first row of the stream of examples that no worker has got
  std::optional<int64_t> last_step;  ///< the run ends at this step; nothing: when stop() is called
};

class BatchDealer {
 public:
  using Clock = std::chrono::steady_clock;

  BatchDealer(int64_t batch_size, int64_t max_staleness)
      : batch_size_(batch_size), max_staleness_(max_staleness) {}

  void start(const DealerState& state);
  const DealerState& state() const { return state_; }

  struct Batch {
    int64_t row = 0;     ///< its first row
    int64_t number = 0;  ///< unique among all batches that are dealt
  };
  /// Returns a batch for `worker`, which has none; or nothing if it has to wait or has_ended().
  std::optional<Batch> deal(int worker);
  /// True if there are no more batches, except those of workers that may still be lost.
  bool has_ended() const;
  /// Records that the gradients of `worker` have arrived: from now on it is not overdue, even if its update
  /// waits for others.
  void arrived(int worker);
  /// True if the update of `worker` may be applied now.
  bool may_apply(int worker) const;
  struct Applied {
    int64_t step = 0;  ///< number of the update, from 0
    int64_t staleness = 0;
  };
  /// Applies and counts the update of `worker`.
  Applied apply(int worker);
  /// Records that `worker` is lost: its batch, if it has one, is dealt again.
  void lost(int worker);
  /// Stops new batches until resume(); batches of lost workers are still dealt.
  void pause() { paused_ = true; }
  void resume() { paused_ = false; }
  /// True if no worker has a batch and no batch waits to be dealt again.
  bool is_idle() const { return dealt_.empty() && returned_.empty(); }
  /// Ends the run: there are no more new batches.
  void stop() { state_.last_step = 0; }

  /// Returns the latest updates, in order; all servers have those before.
  const std::vector<Decision>& decisions() const { return decisions_; }
  /// Returns the workers that have had a batch for longer than `limit` and whose gradients have not arrived.
  std::vector<int> overdue(std::chrono::milliseconds limit) const;
  bool has_batch(int worker) const { return dealt_.contains(worker); }
  /// Returns the number of updates with each staleness.
  const std::vector<int64_t>& histogram() const { return histogram_; }
  /// Returns the number of batches that were dealt again.
  int64_t dealt_again() const { return dealt_again_; }

 private:
  struct Dealt {
    Batch batch;
    int64_t version;  ///< number of updates when it was dealt
    Clock::time_point since;
    bool arrived = false;
  };

  const int64_t batch_size_;
  const int64_t max_staleness_;
  DealerState state_;
  std::map<int, Dealt> dealt_;       ///< batch of each worker
  std::deque<int64_t> returned_;     ///< first rows of batches whose workers are lost
  std::vector<Decision> decisions_;  ///< those that other servers may lack
  int64_t batches_ = 0;              ///< number of batches that were dealt
  std::vector<int64_t> histogram_;
  int64_t dealt_again_ = 0;
  bool paused_ = false;
};

}  // namespace mtf
