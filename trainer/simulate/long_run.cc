#include "trainer/simulate/long_run.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <vector>

#include "engine/base/check.h"
#include "engine/core/random.h"

namespace mtf {
namespace {

/// A run is given up after so many times the time that it would take without failures, or so many failures.
constexpr double kLongestRun = 20;
constexpr int64_t kMostFailures = 200'000;
/// When so many replicas were given up and none is complete, the others are not tried.
constexpr int64_t kHopeless = 3;

/// Intervals whose mean times differ by less than this share of them are as good.
constexpr double kAsGood = 1e-5;

/// The times of the failures of a replica, one after the other.
class Failures {
 public:
  Failures(double mean, uint64_t seed, int64_t replica)
      : mean_(mean), key_(random_key("simulate/failures", seed)), replica_(replica) {
    advance();
  }
  double next() const { return next_; }
  void advance() {
    if (!std::isfinite(mean_)) {
      next_ = std::numeric_limits<double>::infinity();
      return;
    }
    const uint32_t bits = random_bits(key_, RandomStream::kSampling, replica_, count_++);
    next_ += -mean_ * std::log(uniform_from_bits(bits));
  }

 private:
  double mean_;
  PhiloxKey key_;
  int64_t replica_, count_ = 0;
  double next_ = 0;
};

class RunSimulation {
 public:
  RunSimulation(const LongRun& run, uint64_t seed, int64_t replica)
      : run_(run), failures_(run.mean_time_between_failures, seed, replica) {
    const double saves = std::ceil(static_cast<double>(run.steps) / static_cast<double>(run.interval));
    const double ideal = static_cast<double>(run.steps) * run.step + saves * (run.pause + run.write);
    longest_ = kLongestRun * (ideal + run.restart);
  }

  RunOutcome simulate() {
    while (written_ < run_.steps) {
      if (is_hopeless()) return outcome(false);
      if (!(train() && save())) restart();
    }
    return outcome(true);
  }

 private:
  struct Writing {
    int64_t steps;
    double end;
  };

  /// The time passes up to `end`, or to the next failure; false if this comes first.
  bool pass(double end, double& part) {
    const bool fails = failures_.next() < end;
    const double until = fails ? failures_.next() : end;
    if (writing_ && writing_->end <= until) {
      written_ = writing_->steps;
      writing_.reset();
    }
    part += until - now_;
    now_ = until;
    return !fails;
  }

  /// The steps up to the next checkpoint.
  bool train() {
    const int64_t next = std::min(run_.steps, (done_ / run_.interval + 1) * run_.interval);
    if (!pass(now_ + static_cast<double>(next - done_) * run_.step, training_)) return false;
    done_ = next;
    return true;
  }

  /// A checkpoint waits for the one before; the last one of the run is waited for.
  bool save() {
    ++saves_;
    double& saving = outcome_.saving;
    if (writing_ && !pass(writing_->end, saving)) return false;
    if (!pass(now_ + run_.pause, saving)) return false;
    writing_ = Writing{done_, now_ + run_.write};
    const bool waits = !run_.background || done_ == run_.steps;
    return !waits || pass(writing_->end, saving);
  }

  void restart() {
    writing_.reset();
    done_ = written_;
    do {
      ++outcome_.failures;
      failures_.advance();
    } while (!pass(now_ + run_.restart, outcome_.restarting) && !is_hopeless());
  }

  bool is_hopeless() const {
    return now_ > longest_ || outcome_.failures > kMostFailures || saves_ > kMostCheckpoints;
  }

  RunOutcome outcome(bool is_complete) {
    outcome_.useful = static_cast<double>(written_) * run_.step;
    outcome_.lost = std::max(0.0, training_ - outcome_.useful);
    outcome_.is_complete = is_complete;
    return outcome_;
  }

  const LongRun& run_;
  Failures failures_;
  double longest_ = 0;
  int64_t saves_ = 0;
  double now_ = 0, training_ = 0;
  int64_t done_ = 0, written_ = 0;  ///< steps, and those of the newest whole checkpoint
  std::optional<Writing> writing_;
  RunOutcome outcome_;
};

ReplicaRange range_of(std::vector<double> values) {
  std::ranges::sort(values);
  ReplicaRange range;
  for (const double value : values) range.mean += value / static_cast<double>(values.size());
  const auto last = static_cast<double>(values.size() - 1);
  range.low = values[static_cast<size_t>(std::llround(0.05 * last))];
  range.high = values[static_cast<size_t>(std::llround(0.95 * last))];
  return range;
}

/// The mean wall time with an interval, or infinity where replicas are given up.
double seconds_with(LongRun run, int64_t interval, const Replicas& replicas) {
  run.interval = interval;
  const RunStatistics runs = simulate_runs(run, replicas);
  return runs.are_complete ? runs.seconds.mean : std::numeric_limits<double>::infinity();
}

}  // namespace

RunOutcome simulate_run(const LongRun& run, uint64_t seed, int64_t replica) {
  MTF_CHECK(run.steps > 0 && run.interval > 0, "{} steps, a checkpoint every {}", run.steps, run.interval);
  return RunSimulation(run, seed, replica).simulate();
}

RunStatistics simulate_runs(const LongRun& run, const Replicas& replicas) {
  RunStatistics statistics;
  std::vector<double> seconds, goodput;
  std::vector<RunOutcome> outcomes;
  const bool is_certain = !std::isfinite(run.mean_time_between_failures);
  const int64_t most = is_certain ? 1 : replicas.replicas;
  int64_t complete = 0;
  for (int64_t replica = 0; replica < most; ++replica) {
    if (replica >= kHopeless && complete == 0) break;
    const RunOutcome outcome = simulate_run(run, replicas.seed, replica);
    complete += outcome.is_complete ? 1 : 0;
    seconds.push_back(outcome.seconds());
    goodput.push_back(outcome.goodput());
    outcomes.push_back(outcome);
  }
  const auto count = static_cast<double>(outcomes.size());
  for (const RunOutcome& outcome : outcomes) {
    statistics.mean.useful += outcome.useful / count;
    statistics.mean.lost += outcome.lost / count;
    statistics.mean.saving += outcome.saving / count;
    statistics.mean.restarting += outcome.restarting / count;
    statistics.failures += static_cast<double>(outcome.failures) / count;
  }
  statistics.seconds = range_of(std::move(seconds));
  statistics.goodput = range_of(std::move(goodput));
  statistics.goodput.mean = statistics.mean.goodput();
  statistics.are_complete = complete == std::ssize(outcomes);
  statistics.mean.is_complete = statistics.are_complete;
  return statistics;
}

double young_daly_seconds(const LongRun& run) {
  return std::sqrt(2 * run.overhead() * run.mean_time_between_failures);
}

/// Tries intervals at ratios of two, then at ratios of 2^(1/8) around the best of them. In the background a checkpoint
/// waits for the one before, so that intervals below the time of writing are of no use.
int64_t best_interval(const LongRun& run, const Replicas& replicas) {
  if (!std::isfinite(run.mean_time_between_failures)) return run.steps;
  const auto steps_in = [&](double seconds) {
    return std::clamp<int64_t>(static_cast<int64_t>(std::min(std::ceil(seconds / run.step), 0x1p53)), 1,
                               run.steps);
  };
  const int64_t shortest = steps_in(std::max(young_daly_seconds(run) / 8, run.background ? run.write : 0));
  std::map<int64_t, double> tried;  // seconds by interval
  double least = std::numeric_limits<double>::infinity();
  int64_t best = shortest;
  const auto is_better = [&](int64_t interval) {
    const double seconds = tried[interval] = seconds_with(run, interval, replicas);
    if (!(seconds < least)) return false;
    least = seconds;
    best = interval;
    return true;
  };
  // The time falls, then rises: three that are worse in a row end the search.
  is_better(shortest);
  int64_t worse = 0;
  for (int64_t interval = shortest; interval < run.steps && worse < 3;) {
    interval = std::min(2 * interval, run.steps);
    worse = is_better(interval) || !std::isfinite(least) ? 0 : worse + 1;
  }
  if (!std::isfinite(least)) return best;
  for (int64_t middle = best, eighth = -7; eighth < 8; ++eighth) {
    const auto interval = static_cast<int64_t>(
        std::llround(static_cast<double>(middle) * std::exp2(static_cast<double>(eighth) / 8)));
    if (interval >= shortest && interval <= run.steps && !tried.contains(interval)) is_better(interval);
  }
  for (const auto& [interval, seconds] : tried) {
    if (seconds <= (1 + kAsGood) * least) best = interval;  // the longest of them
  }
  return best;
}

}  // namespace mtf
