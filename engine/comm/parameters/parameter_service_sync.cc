// Synchronous training at a parameter server: a step is the sum of the gradients of all workers. Whoever
// brings the last part of a gradient adds it up, while others are on their way; the chief asks for the sums
// of squares of all and sends back what the update needs.
#include <fmt/format.h>

#include "engine/comm/parameters/parameter_service.h"
#include "engine/comm/parameters/service_errors.h"

namespace mtf {

/// Nothing of the next step has come.
void ParameterService::begin_sums() {
  added_ = 0;
  for (Peer& peer : peers_) peer.received = 0;
  missing_ = parts_;
}

/// A part of `gradient` has come: adds it up if it was the last. The lock is open meanwhile.
void ParameterService::sum(size_t gradient, Lock& lock) {
  if (--missing_[gradient] > 0) return;
  std::vector<std::shared_ptr<PushedTensors>> kept;  // also where a worker is lost meanwhile
  std::vector<const PushedTensors*> workers;
  for (int worker = 0; worker < options_.workers; ++worker) {
    const Peer* peer = find(worker);
    if (peer == nullptr) return;  // it is lost, and the run with it
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
        lock,
        [&] { return starts_ > 0 && static_cast<int64_t>(frame.version) == state_.step && all_added(); },
        [&] { return missing_gradients(); });
    squares = storage_.squares();
  }
  answer_with(peer, ParameterOperation::kSquares, squares.data(), squares.size() * sizeof(double));
}

/// Not answered: what the chief asks for next is of the new version, or an error.
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
