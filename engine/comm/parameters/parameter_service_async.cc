// Asynchronous training at a parameter server: each worker's gradient is an update of its own. Server 0 deals
// the batches and bounds the staleness (batch_dealer.h).
#include <fmt/format.h>

#include <algorithm>

#include "engine/comm/parameters/parameter_service.h"
#include "engine/comm/parameters/service_errors.h"

namespace mtf {
namespace {

/// The interval at which a waiting thread checks for workers that take too long.
constexpr std::chrono::milliseconds kLookAtBatches{100};

}  // namespace

/// Waits until `ready`, for example until other workers have finished their batches; takes the batches away
/// from workers that take too long.
void ParameterService::wait_for_batches(Lock& lock, const std::function<bool()>& ready) {
  while (!failure_ && !ready()) {
    changed_.wait_for(lock, kLookAtBatches);
    for (const int worker : dealer_.overdue(options_.collective_timeout)) {
      const std::string reason =
          fmt::format("worker {} ({}) has not finished its batch within {:.3g} s and is given up", worker,
                      addresses_[worker], seconds_of(options_.collective_timeout));
      options_.log(reason);
      dealer_.lost(worker);
      if (Peer* peer = find(worker)) {
        peer->given_up = reason;
        peer->socket.stop_receiving();
      }
    }
  }
  if (failure_) throw Error(*failure_);
}

DealtBatch ParameterService::dealt(std::optional<int64_t> row) const {
  const DealerState& at = dealer_.state();
  return {row.value_or(-1), at.step, at.next_row, state_.tokens, state_.loss, state_.grad_norm};
}

void ParameterService::next(Peer& peer) {
  DealtBatch batch;
  {
    Lock lock(mutex_);
    std::optional<int64_t> row;
    wait_for_batches(lock, [&] {
      if (starts_ == 0) return false;
      if (dealer_.has_batch(peer.worker)) refuse_request(fmt::format("worker {} has a batch", peer.worker));
      row = dealer_.deal(peer.worker);
      return row.has_value() || (dealer_.has_ended() && dealer_.is_idle());
    });
    batch = dealt(row);
  }
  answer_with(peer, ParameterOperation::kNext, &batch, sizeof(batch));
}

void ParameterService::commit(Peer& peer, const Frame& frame) {
  std::vector<double> squares;
  const auto step = read<ParameterStep>(peer, frame, &squares);
  Committed done;
  {
    Lock lock(mutex_);
    if (failure_) throw Error(*failure_);  // in this case what was pushed was skipped
    if (peer.received != peer.parts.size())
      refuse_request(fmt::format("worker {} has not pushed all", peer.worker));
    done.step = step.step;
    if (is_first_server()) {
      dealer_.arrived(peer.worker);
      wait_for_batches(lock,
                       [&] { return !dealer_.has_batch(peer.worker) || dealer_.may_apply(peer.worker); });
      if (!dealer_.has_batch(peer.worker))
        refuse_request("this batch was given to another worker, because it took too long");
      const BatchDealer::Applied applied = dealer_.apply(peer.worker);
      done.step = applied.step;
      done.staleness = applied.staleness;
    }
    const PushedTensors* pushed = peer.pushed.get();
    for (size_t gradient = 0; gradient < storage_.gradients(); ++gradient)
      storage_.add(gradient, {&pushed, 1});
    const ParameterStorage::Outcome outcome = storage_.update(done.step, rate_scale_, step.loss, squares);
    peer.received = 0;
    state_.step = std::max(state_.step, done.step + 1);
    state_.tokens += step.tokens;
    state_.loss = step.loss;
    state_.grad_norm = done.grad_norm = outcome.grad_norm;
    state_.finite = outcome.finite;
    done.skipped = skipped_ = outcome.finite ? 0 : skipped_ + 1;
    done.next_row = dealer_.state().next_row;
    done.tokens = state_.tokens;
    if (is_first_server() && skipped_ >= options_.diverges_after) fail(divergence(peer, done, step.loss));
    changed_.notify_all();
  }
  answer_with(peer, ParameterOperation::kCommit, &done, sizeof(done));
}

/// Returns the error with which this server and the other workers end; the worker of the update, `peer`,
/// knows more details.
Error ParameterService::divergence(const Peer& peer, const Committed& update, double loss) const {
  const std::string before =
      update.skipped > 1 ? fmt::format(" (as in the {} updates before)", update.skipped - 1) : "";
  return {ErrorKind::kDiverged,
          fmt::format("step {}: the loss is {} and the norm of the gradients {}, at worker {}{}",
                      update.step + 1, loss, update.grad_norm, peer.worker, before)};
}

void ParameterService::finish(Peer& peer) {
  const std::lock_guard lock(mutex_);
  dealer_.finish(peer.worker);
  changed_.notify_all();
}

void ParameterService::pause(Peer& peer) {
  DealtBatch batch;
  {
    Lock lock(mutex_);
    dealer_.pause();
    std::optional<int64_t> row;
    wait_for_batches(lock, [&] {
      row = dealer_.has_batch(peer.worker) ? std::nullopt : dealer_.deal(peer.worker);
      return row.has_value() || dealer_.is_idle();
    });
    batch = dealt(row);
  }
  answer_with(peer, ParameterOperation::kPause, &batch, sizeof(batch));
}

void ParameterService::resume(Peer& peer) {
  {
    const std::lock_guard lock(mutex_);
    dealer_.resume();
    changed_.notify_all();
  }
  answer_with(peer, ParameterOperation::kResume);
}

void ParameterService::report(Peer& peer) {
  std::vector<int64_t> numbers;
  {
    const std::lock_guard lock(mutex_);
    numbers = dealer_.histogram();
    numbers.push_back(dealer_.dealt_again());
  }
  answer_with(peer, ParameterOperation::kReport, numbers.data(), numbers.size() * sizeof(int64_t));
}

}  // namespace mtf
