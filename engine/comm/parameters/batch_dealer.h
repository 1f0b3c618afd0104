// Which worker of an asynchronous training gets which batch, and when its gradient may be applied: no update
// is older than a bound.
//
//   BatchDealer dealer(200, 8);
//   dealer.start({.step = 0, .next_row = 0, .last_step = 3000});
//   if (const auto batch = dealer.deal(worker)) ...            // it reads the weights and computes
//   if (dealer.may_apply(worker)) dealer.apply(worker);   // else a worker with older weights comes first
//   dealer.finish(worker);                                // all servers have the update
//
// The staleness of an update is the number of updates between the reading of the weights and it. A worker
// with a batch must be done before `max_staleness` more updates are in; one that is ahead waits where it
// would take the last place that a slower one can have (earliest deadline first), so that no gradient is
// thrown away. With max_staleness 0 there is one batch at a time: the same as one worker.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

namespace mtf {

/// Where a run stands.
struct DealerState {
  int64_t step = 0;                  ///< updates done
  int64_t next_row = 0;              ///< of the stream of examples, that nobody has got yet
  std::optional<int64_t> last_step;  ///< the run ends there; nothing: when stop() is called
};

class BatchDealer {
 public:
  using Clock = std::chrono::steady_clock;

  BatchDealer(int64_t batch_size, int64_t max_staleness)
      : batch_size_(batch_size), max_staleness_(max_staleness) {}

  void start(const DealerState& state);
  const DealerState& state() const { return state_; }

  /// The first row of a batch for `worker`, which has none; nothing: it has to wait, or has_ended().
  std::optional<int64_t> deal(int worker);
  /// No more batches but those that workers may still lose.
  bool has_ended() const;
  /// The gradients of `worker` are here: that its update waits for others is not its fault.
  void arrived(int worker);
  bool may_apply(int worker) const;
  struct Applied {
    int64_t step = 0;  ///< that the update makes, from 0
    int64_t staleness = 0;
  };
  /// Counts the update of `worker`.
  Applied apply(int worker);
  /// Who reads the weights from now on sees the last update of `worker` on every server.
  void finish(int worker) { unfinished_.erase(worker); }
  /// `worker` is gone: its batch, if it has one, is dealt again.
  void lost(int worker);
  /// No new batches until resume(); those of lost workers are still dealt.
  void pause() { paused_ = true; }
  void resume() { paused_ = false; }
  /// No batch is in hand or waits to be dealt again.
  bool is_idle() const { return dealt_.empty() && returned_.empty() && unfinished_.empty(); }
  /// No more new batches.
  void stop() { state_.last_step = 0; }

  /// Workers that have had a batch for longer than `limit`, and whose gradients are not here.
  std::vector<int> overdue(std::chrono::milliseconds limit) const;
  bool has_batch(int worker) const { return dealt_.contains(worker); }
  /// Number of updates by their staleness.
  const std::vector<int64_t>& histogram() const { return histogram_; }
  /// Batches that were dealt again.
  int64_t dealt_again() const { return dealt_again_; }

 private:
  struct Dealt {
    int64_t row;
    int64_t version;  ///< updates that all servers had when it was dealt
    Clock::time_point since;
    bool arrived = false;
  };

  const int64_t batch_size_;
  const int64_t max_staleness_;
  DealerState state_;
  int64_t version() const;

  std::map<int, int64_t> unfinished_;  ///< by worker: its update, which may not be on all servers yet
  std::map<int, Dealt> dealt_;         ///< by worker
  std::deque<int64_t> returned_;       ///< rows of batches whose workers are gone
  std::vector<int64_t> histogram_;
  int64_t dealt_again_ = 0;
  bool paused_ = false;
};

}  // namespace mtf
