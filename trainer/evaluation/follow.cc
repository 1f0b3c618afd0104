#include "trainer/evaluation/follow.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "engine/base/signals.h"
#include "engine/checkpoint/checkpoint.h"
#include "trainer/checkpoint/checkpoints.h"

namespace mtf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenLooks{500};

bool takes_all(const InferCheckpoints& choice) {
  const auto* const word = std::get_if<InferCheckpointWord>(&choice);
  return word != nullptr && *word == InferCheckpointWord::kAll;
}

/// True if evaluate.follow_timeout has passed since.
bool is_timeout(const Config& config, Clock::time_point since) {
  const std::chrono::duration<double> waited = Clock::now() - since;
  return config.evaluate.follow_timeout && waited.count() >= config.evaluate.follow_timeout->seconds;
}

class Follower {
 public:
  explicit Follower(const Session& session)
      : session_(session), takes_all_(takes_all(session.config.evaluate.checkpoint)) {}

  /// Waits for the next checkpoint; nothing at the end.
  std::optional<ChosenWeights> next() {
    for (;;) {
      const std::vector<std::string> states =
          all_gather(session_.processes->communicator(), own_state(), "checkpoints");
      if (std::ranges::find(states, kEnd) != states.end()) return std::nullopt;
      if (!states[0].empty()) return found(states[0]);
      std::this_thread::sleep_for(kBetweenLooks);
    }
  }

 private:
  static constexpr std::string_view kEnd = "end";

  /// `state`: the step and the path of a checkpoint.
  ChosenWeights found(const std::string& state) {
    const size_t blank = state.find(' ');
    step_ = std::stoll(state.substr(0, blank));
    last_found_ = Clock::now();
    return {step_, {state.substr(blank + 1)}};
  }

  bool is_over() const {
    const Config& config = session_.config;
    return (config.train.steps && step_ >= *config.train.steps) || is_timeout(config, last_found_);
  }

  /// kEnd, in process 0 the step and the path of the next checkpoint, or empty: there is none yet.
  std::string own_state() const {
    if (StopSignals::received() != 0) return std::string(kEnd);
    if (!session_.processes->is_first()) return {};
    std::vector<SavedCheckpoint> saved = list_checkpoints(checkpoints_directory(session_.config));
    std::erase_if(saved, [this](const SavedCheckpoint& checkpoint) { return checkpoint.step <= step_; });
    if (saved.empty()) return is_over() ? std::string(kEnd) : std::string();
    const SavedCheckpoint& next = step_ < 0 && !takes_all_ ? saved.back() : saved.front();
    return fmt::format("{} {}", next.step, next.path);
  }

  const Session& session_;
  bool takes_all_;
  int64_t step_ = -1;  ///< of the last checkpoint
  Clock::time_point last_found_ = Clock::now();
};

}  // namespace

void await_checkpoint(const Config& config) {
  const Clock::time_point start = Clock::now();
  while (list_checkpoints(checkpoints_directory(config)).empty() && !is_timeout(config, start))
    std::this_thread::sleep_for(kBetweenLooks);
}

void follow_checkpoints(const Session& session, const CheckpointUse& use) {
  const StopSignals signals;
  Follower follower(session);
  while (const std::optional<ChosenWeights> weights = follower.next()) {
    std::exception_ptr error;
    try {
      use.load(*weights);
    } catch (const Error&) {
      error = std::current_exception();
    }
    const std::vector<std::string> failed =
        all_gather(session.processes->communicator(), error ? "failed" : "", "loaded checkpoint");
    if (std::ranges::all_of(failed, &std::string::empty)) {
      use.measure(*weights);
    } else if (std::filesystem::exists(std::filesystem::path(weights->paths.front()) / Manifest::kFile)) {
      if (error) std::rethrow_exception(error);
      throw Error(ErrorKind::kCheckpoint,
                  fmt::format("another process cannot read {}", weights->paths.front()),
                  "a directory that all processes see");
    }
  }
}

}  // namespace mtf
