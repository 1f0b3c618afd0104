#include "trainer/explain/recompute.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "trainer/explain/prediction.h"
#include "trainer/explain/recomputable.h"
#include "trainer/memory/microbatches.h"
#include "trainer/report/progress.h"

namespace mtf {
namespace {

/// How many of the layers of each kind or name are computed again.
using Numbers = config::Named<int64_t>;

/// As it stands in the configuration: a list where each number is that of all layers.
Recompute recompute_of(const Numbers& numbers, const std::vector<RecomputableLayers>& layers) {
  std::vector<std::string> whole;
  for (const auto& [name, number] : numbers) {
    const auto of = std::ranges::find(layers, name, &RecomputableLayers::name);
    if (of != layers.end() && of->count == number) whole.push_back(name);
  }
  if (numbers.empty()) return RecomputeWord::kNone;
  if (whole.size() == numbers.size()) return whole;
  return numbers;
}

Numbers with(Numbers numbers, const std::string& name, int64_t number) {
  numbers.emplace_back(name, number);
  return numbers;
}

/// A choice that was compiled, or that the model does not allow.
struct Measured {
  RecomputeTrial trial;
  bool is_legal = false;
  std::vector<RecomputableLayers> layers = {};  ///< without recomputation: what could be computed again

  double share() const { return trial.memory.share(); }
};

/// True if a is by more than rounding smaller than b.
bool is_less(double a, double b) { return a < b * (1 - 1e-9); }

size_t length(const Measured& measured) { return recompute_text(measured.trial.recompute).size(); }

/// Among equally fast choices the one with less memory comes first, then the shorter one.
bool is_faster(const Measured& a, const Measured& b) {
  if (is_less(a.trial.seconds, b.trial.seconds)) return true;
  if (is_less(b.trial.seconds, a.trial.seconds)) return false;
  if (a.trial.memory.need != b.trial.memory.need) return a.share() < b.share();
  return length(a) < length(b);
}

/// Among choices that need the same memory the faster one comes first.
bool is_smaller(const Measured& a, const Measured& b) {
  return a.trial.memory.need != b.trial.memory.need ? a.share() < b.share() : is_faster(a, b);
}

/// The memory in which the results of layers are.
TightMemory activation_memory(const RunMemory& need, const MemoryLimits& limits) {
  if (limits.device) return {need.device.total(), *limits.device};
  return {need.host.total(), limits.host};
}

std::string memory_text(const TightMemory& memory) {
  return fmt::format("{} of {} ({})", bytes_text(static_cast<double>(memory.need)),
                     bytes_text(static_cast<double>(memory.limit.bytes)), memory.limit.source);
}

class Choice {
 public:
  Choice(const Session& session, const RecomputeRequest& request)
      : session_(session),
        request_(request),
        options_(request.options),
        model_(cost_model_of(session.config, session.layouts.mesh, !session.backend->is_host(), reported_)) {}

  RecomputeChoice run() {
    if (request_.before) {
      const Measured& kept = measure(request_.before->microbatches, request_.before->recompute);
      if (kept.trial.fits) return result(kept, "as in the run so far");
    }
    counts_ = {options_.microbatches};
    if (request_.chooses_microbatches) counts_ = microbatch_counts(session_, options_.batch_size);
    const Measured* best = choose();
    const bool fits = best != nullptr;
    if (!fits) best = least_memory();
    if (request_.compares_block) measure(best->trial.microbatches, RecomputeWord::kBlock);
    RecomputeChoice choice =
        result(*best, fits ? numbers(*best) : numbers(*best) + ": nothing fits, and this needs least");
    choice.trials = curve(*best);
    return choice;
  }

 private:
  /// The fastest choice that fits; null: none does. More microbatches than the fewest that fit without recomputation are
  /// not tried; fewer may still be faster with some of it.
  const Measured* choose() {
    const Measured* best = nullptr;
    size_t fewest = 0;
    for (; fewest < counts_.size() && best == nullptr; ++fewest) {
      const Measured& none = measure(counts_[fewest], RecomputeWord::kNone);
      if (!batch_statistics_.empty()) counts_.resize(1);  // which more microbatches would change
      if (none.trial.fits) best = &none;
    }
    if (best != nullptr) --fewest;
    while (fewest-- > 0) {
      const Measured& none = measure(counts_[fewest], RecomputeWord::kNone);
      if (!none.is_legal || (best != nullptr && none.trial.seconds >= best->trial.seconds)) continue;
      const Measured* found = choose_layers(none, best);
      if (found != nullptr && (best == nullptr || is_faster(*found, *best))) best = found;
      if (best == nullptr) return nullptr;  // fewer microbatches need more memory still
    }
    return best;
  }

  /// Returns the fastest choice of layers that fits with the microbatches of `none`, which does not; null if there is none
  /// that is faster than `best`.
  const Measured* choose_layers(const Measured& none, const Measured* best) {
    const Measured* found = nullptr;
    const auto lacking = static_cast<double>(none.trial.memory.need - none.trial.memory.limit.bytes);
    if (lacking <= 0) return nullptr;  // it is the other memory that does not suffice
    std::vector<RecomputableLayers> layers = none.layers;
    std::ranges::stable_sort(layers, {}, [&](const RecomputableLayers& l) {
      return std::pair(l.saved < lacking, extra(l, lacking));
    });
    std::set<std::string> enough;  // kinds of which all suffice
    for (const RecomputableLayers& kind : layers) {
      const Measured* bound = found ? found : best;
      if (is_slower(none, extra(kind, lacking), bound)) continue;
      const Measured* fewest = fewest_layers({}, none, kind, bound);
      if (fewest != nullptr) enough.insert(kind.name);
      if (fewest != nullptr && (bound == nullptr || is_faster(*fewest, *bound))) found = fewest;
    }
    const Measured* bound = found ? found : best;
    const Measured* joined = join(none, enough, bound);
    return joined != nullptr && (bound == nullptr || is_faster(*joined, *bound)) ? joined : found;
  }

  /// The same for all layers of several kinds but the last, of which there are as few as possible. The kinds that cost
  /// least for what they save come first.
  const Measured* join(const Measured& none, const std::set<std::string>& enough, const Measured* best) {
    std::vector<RecomputableLayers> layers = none.layers;
    std::ranges::stable_sort(layers, {}, [](const RecomputableLayers& l) { return l.seconds / l.saved; });
    Numbers numbers;
    const Measured* before = &none;
    for (const RecomputableLayers& kind : layers) {
      if (numbers.empty() && enough.contains(kind.name)) return nullptr;
      if (is_slower(none, kind.seconds, best)) return nullptr;
      const Measured& whole = measure(none.trial.microbatches, numbers, kind, kind.count);
      if (!whole.is_legal || whole.share() >= before->share()) continue;
      if (whole.trial.fits) {
        if (numbers.empty()) return nullptr;  // which choose_layers() has tried
        return fewest_layers(numbers, *before, kind, best);
      }
      if (best != nullptr && whole.trial.seconds >= best->trial.seconds) return nullptr;
      numbers = with(std::move(numbers), kind.name, kind.count);
      before = &whole;
    }
    return nullptr;
  }

  /// True if `extra` seconds, an estimate, make `none` slower than `best` by more than the estimate is off.
  static bool is_slower(const Measured& none, double extra, const Measured* best) {
    return best != nullptr && extra > 2 * (best->trial.seconds - none.trial.seconds);
  }

  /// Seconds that it takes to compute again as many layers of a kind as are needed, if its estimates hold.
  static double extra(const RecomputableLayers& kind, double lacking) {
    const double count = static_cast<double>(kind.count);
    return std::min(count, std::ceil(lacking / kind.saved * count)) * kind.seconds / count;
  }

  /// Returns `numbers` with as few layers of `kind` as fit; null if all do not suffice, or if that takes at least as long as
  /// `best`. `before` is without them and does not fit.
  const Measured* fewest_layers(const Numbers& numbers, const Measured& before,
                                const RecomputableLayers& kind, const Measured* best) {
    int64_t low = 0, high = kind.count + 1;
    const Measured *too_few = &before, *enough = nullptr;
    const double lacking = static_cast<double>(before.trial.memory.need - before.trial.memory.limit.bytes);
    const double count = static_cast<double>(kind.count);
    auto next = static_cast<int64_t>(std::ceil(std::min(1.0, lacking / kind.saved) * count));
    for (int tried = 0; low < kind.count && high - low > 1; ++tried) {
      next = std::clamp(next, low + 1, std::min(high - 1, kind.count));
      const Measured& now = measure(before.trial.microbatches, numbers, kind, next);
      if (!now.is_legal) return nullptr;
      if (now.trial.fits) {
        high = next;
        enough = &now;
      } else {
        if (best != nullptr && now.trial.seconds >= best->trial.seconds) return nullptr;
        low = next;
        too_few = &now;
      }
      next = guess(before, low, *too_few, high, enough, tried >= kInterpolations);
    }
    return enough;
  }

  /// The number of layers at which the memory suffices, on the line through two trials; in the middle if `halves`.
  static int64_t guess(const Measured& before, int64_t low, const Measured& too_few, int64_t high,
                       const Measured* enough, bool halves) {
    if (halves) return low + (high - low) / 2;
    const double below = too_few.share() - 1;
    const double fall =
        enough != nullptr
            ? (too_few.share() - enough->share()) / static_cast<double>(high - low)
            : (before.share() - too_few.share()) / static_cast<double>(std::max<int64_t>(1, low));
    if (fall <= 0 || below / fall > static_cast<double>(high)) return high;
    return low + static_cast<int64_t>(std::ceil(below / fall));
  }

  const Measured& measure(int64_t microbatches, const Numbers& numbers, const RecomputableLayers& kind,
                          int64_t count) {
    const Measured& none = measure(microbatches, RecomputeWord::kNone);
    return measure(microbatches, recompute_of(with(numbers, kind.name, count), none.layers));
  }

  /// Compiles a choice.
  const Measured& measure(int64_t microbatches, const Recompute& recompute) {
    const auto [found, added] = measured_.try_emplace({microbatches, recompute_text(recompute)});
    Measured& result = found->second;
    if (!added) return result;
    result.trial.recompute = recompute;
    result.trial.microbatches = microbatches;
    options_.microbatches = microbatches;
    options_.recompute = recompute;
    try {
      const TrainStep step = build_train_step(*session_.model, session_.train_data->features(), options_);
      batch_statistics_ = step.batch_statistics;
      Diagnostics problems;
      check_layouts(*step.graph, session_.layouts, problems);
      if (problems.has_errors()) return result;
      const Program program = compile(session_, *step.graph);
      std::vector<const Program*> programs{&program};
      if (request_.evaluation != nullptr) programs.push_back(request_.evaluation);
      const RunMemory need = memory_need(session_, programs, request_.use);
      const std::vector<ScheduleItem> schedule = schedule_of(program, model_);
      result.is_legal = true;
      result.trial.memory = activation_memory(need, request_.limits);
      result.trial.fits = mtf::fits(need, request_.limits);
      result.trial.seconds = predict_step(schedule, model_.hardware().device.step).seconds;
      if (recompute == Recompute(RecomputeWord::kNone))
        result.layers = recomputable_layers(step.layers, program, schedule);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kConfig) throw;
    }
    return result;
  }

  /// The choice with the least memory that was compiled; the step without recomputation and microbatches is legal.
  const Measured* least_memory() const {
    const Measured* least = nullptr;
    for (const auto& [key, measured] : measured_) {
      if (measured.is_legal && (least == nullptr || is_smaller(measured, *least))) least = &measured;
    }
    return least;
  }

  /// RecomputeChoice::trials.
  std::vector<RecomputeTrial> curve(const Measured& chosen) const {
    std::vector<const Measured*> all;
    for (const auto& [key, measured] : measured_) {
      if (measured.is_legal) all.push_back(&measured);
    }
    std::ranges::stable_sort(all, [](const Measured* a, const Measured* b) { return is_faster(*a, *b); });
    std::vector<RecomputeTrial> trials;
    double least = std::numeric_limits<double>::infinity();
    for (const Measured* measured : all) {
      const RecomputeTrial& trial = measured->trial;
      const bool is_shown = measured == &chosen || (trial.microbatches == chosen.trial.microbatches &&
                                                    std::holds_alternative<RecomputeWord>(trial.recompute));
      if (!is_shown && measured->share() >= least) continue;
      least = std::min(least, measured->share());
      trials.push_back(trial);
    }
    return trials;
  }

  std::string numbers(const Measured& chosen) const {
    std::string text = fmt::format("{} a step predicted, {}", predicted_time_text(chosen.trial.seconds),
                                   memory_text(chosen.trial.memory));
    const auto none = measured_.find({chosen.trial.microbatches, "none"});
    if (none == measured_.end() || &none->second == &chosen || !none->second.is_legal) return text;
    return text + fmt::format("; none takes {} and {}", predicted_time_text(none->second.trial.seconds),
                              bytes_text(static_cast<double>(none->second.trial.memory.need)));
  }

  RecomputeChoice result(const Measured& chosen, const std::string& why) const {
    const RecomputeTrial& trial = chosen.trial;
    std::string reason = fmt::format("train.recompute: auto is {}", recompute_text(trial.recompute));
    if (request_.chooses_microbatches)
      reason += fmt::format(", train.microbatches: auto is {}", trial.microbatches);
    return {trial.recompute, trial.microbatches, fmt::format("{}: {}", reason, why), {}};
  }

  static constexpr int kInterpolations = 4;  ///< before intervals are halved

  const Session& session_;
  const RecomputeRequest& request_;
  TrainStepOptions options_;
  Diagnostics reported_;  ///< by explain
  const CostModel model_;
  std::vector<int64_t> counts_;  ///< numbers of microbatches
  std::map<std::pair<int64_t, std::string>, Measured> measured_;
  std::vector<std::string> batch_statistics_;  ///< TrainStep::batch_statistics
};

}  // namespace

std::string recompute_text(const Recompute& recompute) {
  return config::to_flow_yaml(config::dump(recompute));
}

RecomputeChoice choose_recompute(const Session& session, const RecomputeRequest& request) {
  return Choice(session, request).run();
}

}  // namespace mtf
