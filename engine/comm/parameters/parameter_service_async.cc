// Asynchronous training at a parameter server: each worker's gradient is an update of its own. Server 0 deals
// the batches and bounds the staleness (batch_dealer.h).
//
// An update is at all servers or at none, and they make the updates in the same order, whoever dies:
// 1. kStage: all other servers get a worker's gradients and keep them.
// 2. kCommit: server 0, which has them too, decides which update they are, and makes it.
// 3. kApply: the other servers make it. Its worker tells them, and so does every other one that learns of it from
//    server 0, before it reads weights. Gradients without a decision are dropped when their worker is replaced.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/comm/parameters/parameter_service.h"
#include "engine/comm/parameters/service_errors.h"

namespace mtf {
namespace {

constexpr uint64_t kMostDecisionBytes = 1 << 24;

}  // namespace

/// Waits until `ready`, for example until other workers have finished their batches.
void ParameterService::wait_for_batches(Lock& lock, const Peer& peer, const std::function<bool()>& ready) {
  wait_while_connected(lock, peer, ready, [&] { give_up_overdue(); });
}

/// Takes the batches away from workers that take too long.
void ParameterService::give_up_overdue() {
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

DealtBatch ParameterService::dealt(const std::optional<BatchDealer::Batch>& batch) const {
  const DealerState& at = dealer_.state();
  return {
      batch ? batch->row : -1, batch ? batch->number : 0, at.step, at.next_row, state_.tokens, state_.loss,
      state_.grad_norm};
}

template <class T>
std::vector<std::byte> ParameterService::with_decisions(const T& value) const {
  return message_of(value, std::as_bytes(std::span(dealer_.decisions())));
}

void ParameterService::next(Peer& peer) {
  std::vector<std::byte> answer;
  {
    Lock lock(mutex_);
    std::optional<BatchDealer::Batch> batch;
    wait_for_batches(lock, peer, [&] {
      if (starts_ == 0) return false;
      if (dealer_.has_batch(peer.worker)) refuse_request(fmt::format("worker {} has a batch", peer.worker));
      batch = dealer_.deal(peer.worker);
      return batch.has_value() || (dealer_.has_ended() && dealer_.is_idle());
    });
    answer = with_decisions(dealt(batch));
  }
  answer_with(peer, ParameterOperation::kNext, answer.data(), answer.size());
}

/// Receives what the update needs besides the gradients, which must have been pushed.
ParameterService::Staged ParameterService::read_staged(Peer& peer, const Frame& frame) {
  Staged staged{static_cast<int64_t>(frame.version), {}, {}, peer.pushed};
  staged.step = read<ParameterStep>(peer, frame, &staged.squares);
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);  // in this case what was pushed was skipped
  if (peer.received != peer.parts.size())
    refuse_request(fmt::format("worker {} has not pushed all", peer.worker));
  return staged;
}

void ParameterService::stage(Peer& peer, const Frame& frame) {
  Staged staged = read_staged(peer, frame);
  {
    const std::lock_guard lock(mutex_);
    staged_[peer.worker] = std::move(staged);
  }
  answer_with(peer, ParameterOperation::kStage);
}

void ParameterService::commit(Peer& peer, const Frame& frame) {
  const Staged staged = read_staged(peer, frame);
  std::vector<std::byte> answer;
  {
    Lock lock(mutex_);
    dealer_.arrived(peer.worker);
    wait_for_batches(lock, peer,
                     [&] { return !dealer_.has_batch(peer.worker) || dealer_.may_apply(peer.worker); });
    if (!dealer_.has_batch(peer.worker))
      refuse_request("this batch was given to another worker, because it took too long");
    const BatchDealer::Applied applied = dealer_.apply(peer.worker);
    apply(applied.step, staged);
    const Committed done{.step = applied.step,
                         .staleness = applied.staleness,
                         .next_row = dealer_.state().next_row,
                         .tokens = state_.tokens,
                         .grad_norm = state_.grad_norm,
                         .skipped = skipped_};
    if (skipped_ >= options_.diverges_after) fail(divergence(peer, done, staged.step.loss));
    answer = with_decisions(done);
  }
  answer_with(peer, ParameterOperation::kCommit, answer.data(), answer.size());
}

/// Makes the updates of decisions that this server has not carried out yet, in the order of server 0.
void ParameterService::carry_out(Peer& peer, const Frame& frame) {
  if (frame.bytes % sizeof(Decision) != 0 || frame.bytes > kMostDecisionBytes)
    refuse_request(fmt::format("worker {} sends {} bytes of decisions", peer.worker, frame.bytes));
  std::vector<Decision> decisions(frame.bytes / sizeof(Decision));
  peer.socket.receive_bytes(std::as_writable_bytes(std::span(decisions)));
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
  for (const Decision& decision : decisions) {
    if (decision.step < state_.step) continue;
    const auto found = std::ranges::find_if(
        staged_, [&](const auto& staged) { return staged.second.batch == decision.batch; });
    if (decision.step > state_.step || found == staged_.end()) {
      refuse_request(fmt::format("worker {} asks for update {} of batch {}, but {} is next, {} its gradients",
                                 peer.worker, decision.step, decision.batch, state_.step,
                                 found == staged_.end() ? "without" : "with"));
    }
    apply(decision.step, found->second);
    staged_.erase(found);
  }
}

/// Makes the next update, of gradients that a worker has pushed.
void ParameterService::apply(int64_t step, const Staged& staged) {
  const PushedTensors* pushed = staged.pushed.get();
  for (size_t gradient = 0; gradient < storage_.gradients(); ++gradient) storage_.add(gradient, {&pushed, 1});
  const ParameterStorage::Outcome outcome =
      storage_.update(step, rate_scale_, staged.step.loss, staged.squares);
  for (Peer& peer : peers_) {
    if (peer.pushed == staged.pushed) peer.received = 0;
  }
  state_.step = step + 1;
  state_.tokens += staged.step.tokens;
  state_.loss = staged.step.loss;
  state_.grad_norm = outcome.grad_norm;
  state_.finite = outcome.finite;
  skipped_ = outcome.finite ? 0 : skipped_ + 1;
  changed_.notify_all();
}

/// Returns the error with which this server and the other workers end; the worker of the update, `peer`,
/// knows more details.
Error ParameterService::divergence(const Peer& peer, const Committed& update, double loss) const {
  const std::string before =
      update.skipped > 1 ? fmt::format(" (as in the {} updates before)", update.skipped - 1) : "";
  const auto in_words = [](double number) { return std::isnan(number) ? "NaN" : fmt::format("{}", number); };
  return {ErrorKind::kDiverged,
          fmt::format("step {}: the loss is {} and the norm of the gradients {}, at worker {}{}",
                      update.step + 1, in_words(loss), in_words(update.grad_norm), peer.worker, before)};
}

void ParameterService::pause(Peer& peer) {
  std::vector<std::byte> answer;
  {
    Lock lock(mutex_);
    dealer_.pause();
    std::optional<BatchDealer::Batch> batch;
    wait_for_batches(lock, peer, [&] {
      batch = dealer_.has_batch(peer.worker) ? std::nullopt : dealer_.deal(peer.worker);
      return batch.has_value() || dealer_.is_idle();
    });
    answer = with_decisions(dealt(batch));
  }
  answer_with(peer, ParameterOperation::kPause, answer.data(), answer.size());
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
