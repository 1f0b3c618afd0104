// Synchronous training at a parameter server: the gradients of all workers are summed in each step. The
// thread that receives the last part of a gradient computes its sum while other parts are still coming. The
// chief requests the sums of squares of all gradients and sends what the update needs.
#include <fmt/format.h>

#include "engine/comm/parameters/parameter_service.h"
#include "engine/comm/parameters/service_errors.h"

namespace mtf {

/// Prepares for the gradients of the next step.
void ParameterService::begin_sums() {
  added_ = 0;
  for (Peer& peer : peers_) peer.received = 0;
  missing_ = parts_;
}

/// Records that a part of `gradient` has come, and computes the sum if it was the last part. Releases the
/// lock meanwhile.
void ParameterService::sum(size_t gradient, Lock& lock) {
  if (--missing_[gradient] > 0) return;
  std::vector<std::shared_ptr<PushedTensors>> kept;  // keeps the tensors if a worker is lost meanwhile
  std::vector<const PushedTensors*> workers;
  for (int worker = 0; worker < options_.workers; ++worker) {
    const Peer* peer = find(worker);
    if (peer == nullptr) return;  // this worker is lost, and so is the run
    kept.push_back(peer->pushed);
    workers.push_back(peer->pushed.get());
  }
  lock.unlock();
  storage_.add(gradient, workers);
  lock.lock();
  if (++added_ == missing_.size()) changed_.notify_all();
}

void ParameterService::send_squares(Peer& peer, const Frame& frame) {
  require_chief(peer, frame);
  std::vector<double> squares;
  {
    Lock lock(mutex_);
    wait(
        lock, peer,
        [&] { return starts_ > 0 && static_cast<int64_t>(frame.version) == state_.step && all_added(); },
        [&] { return missing_gradients(); });
    squares = storage_.squares();
  }
  answer_with(peer, ParameterOperation::kSquares, squares.data(), squares.size() * sizeof(double));
}

/// Applies an update. There is no answer: the next request of the chief gets the new version or an error.
void ParameterService::update(Peer& peer, const Frame& frame) {
  require_chief(peer, frame);
  std::vector<double> squares;
  const auto step = read<ParameterStep>(peer, frame, &squares);
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
  if (step.step != state_.step || !all_added()) {
    refuse_request(fmt::format("the chief updates step {}, but the gradients of {} are in hand", step.step,
                               state_.step));
  }
  const ParameterStorage::Outcome outcome = storage_.update(step.step, rate_scale_, step.loss, squares);
  state_.loss = step.loss;
  state_.grad_norm = outcome.grad_norm;
  state_.finite = outcome.finite;
  state_.tokens += step.tokens;
  ++state_.step;
  begin_sums();
  changed_.notify_all();
}

std::string ParameterService::missing_gradients() {
  std::vector<std::string> missing;
  for (int worker = 0; worker < options_.workers; ++worker) {
    const Peer* peer = find(worker);
    if (peer != nullptr && peer->received == peer->parts.size()) continue;
    missing.push_back(fmt::format("worker {} ({})", worker,
                                  addresses_[worker].empty() ? "has not connected" : addresses_[worker]));
  }
  if (missing.empty()) missing.push_back("worker 0 (the chief): it does not ask for the update");
  return fmt::format("step {} waits for more than {:.3g} s for gradients of {}", state_.step + 1,
                     seconds_of(options_.collective_timeout), fmt::join(missing, ", "));
}

}  // namespace mtf
