#include "trainer/costs/recompute_search.h"

#include <algorithm>
#include <cmath>

namespace mtf {
namespace {

constexpr int kInterpolations = 4;  ///< before intervals are halved

/// As it stands in the configuration: a list where each number is that of all layers.
Recompute recompute_of(const config::Named<int64_t>& numbers, const std::vector<RecomputableLayers>& layers) {
  std::vector<std::string> whole;
  for (const auto& [name, number] : numbers) {
    const auto of = std::ranges::find(layers, name, &RecomputableLayers::name);
    if (of != layers.end() && of->count == number) whole.push_back(name);
  }
  if (numbers.empty()) return RecomputeWord::kNone;
  if (whole.size() == numbers.size()) return whole;
  return numbers;
}

config::Named<int64_t> with(config::Named<int64_t> numbers, const std::string& name, int64_t number) {
  numbers.emplace_back(name, number);
  return numbers;
}

/// True if a is by more than rounding smaller than b.
bool is_less(double a, double b) { return a < b * (1 - 1e-9); }

size_t length(const MeasuredStep& measured) { return recompute_text(measured.trial.recompute).size(); }

/// Among choices that need the same memory the faster one comes first.
bool is_smaller(const MeasuredStep& a, const MeasuredStep& b) {
  return a.trial.memory.need != b.trial.memory.need ? a.share() < b.share() : is_faster(a, b);
}

/// Bytes by which the memory does not suffice.
double lacking_bytes(const MeasuredStep& measured) {
  return static_cast<double>(measured.trial.memory.need - measured.trial.memory.limit.bytes);
}

/// Seconds that it takes to compute again as many layers of a kind as are needed, if its estimates hold.
double extra(const RecomputableLayers& kind, double lacking) {
  const double count = static_cast<double>(kind.count);
  return std::min(count, std::ceil(lacking / kind.saved * count)) * kind.seconds / count;
}

/// The number of layers at which the memory suffices, on the line through two trials; in the middle if `halves`.
int64_t guess(const MeasuredStep& before, int64_t low, const MeasuredStep& too_few, int64_t high,
              const MeasuredStep* enough, bool halves) {
  if (halves) return low + (high - low) / 2;
  const double below = too_few.share() - 1;
  const double fall =
      enough != nullptr ? (too_few.share() - enough->share()) / static_cast<double>(high - low)
                        : (before.share() - too_few.share()) / static_cast<double>(std::max<int64_t>(1, low));
  if (fall <= 0 || below / fall > static_cast<double>(high)) return high;
  return low + static_cast<int64_t>(std::ceil(below / fall));
}

}  // namespace

std::string recompute_text(const Recompute& recompute) {
  return config::to_flow_yaml(config::dump(recompute));
}

bool is_faster(const MeasuredStep& a, const MeasuredStep& b) {
  if (is_less(a.trial.seconds, b.trial.seconds)) return true;
  if (is_less(b.trial.seconds, a.trial.seconds)) return false;
  if (a.trial.memory.need != b.trial.memory.need) return a.share() < b.share();
  return length(a) < length(b);
}

const MeasuredStep* RecomputeSearch::run(double enough) {
  enough_ = enough;
  std::vector<int64_t>& counts = options_.counts;
  if (counts.empty()) return nullptr;
  if (measure(counts.front(), options_.base).has_batch_statistics) counts.resize(1);
  return options_.is_pipelined ? run_pipelined() : run_in_turn();
}

const MeasuredStep* RecomputeSearch::run_in_turn() {
  const std::vector<int64_t>& counts = options_.counts;
  const auto is_slow = [&](const MeasuredStep& step) {
    return step.is_legal && step.trial.seconds >= enough_;
  };
  const MeasuredStep* best = nullptr;
  size_t fewest = 0;
  // Layers may not work on a batch of every size, so that all are tried unless the most microbatches show that none fits.
  if (const MeasuredStep& one = measure(counts.front(), options_.base); !one.trial.fits && !is_slow(one)) {
    const MeasuredStep& most = measure(counts.back(), options_.base);
    if (most.is_legal && !most.trial.fits) fewest = counts.size();
  }
  for (; fewest < counts.size() && best == nullptr; ++fewest) {
    const MeasuredStep& none = measure(counts[fewest], options_.base);
    if (is_slow(none)) break;  // and so are more of them
    if (none.trial.fits) best = &none;
  }
  if (!options_.chooses_layers) return best;
  if (best != nullptr) --fewest;
  while (fewest-- > 0) {
    const MeasuredStep& none = measure(counts[fewest], options_.base);
    if (!none.is_legal || none.trial.seconds >= bound(best)) continue;
    const MeasuredStep* found = choose_layers(none, best);
    if (found != nullptr && (best == nullptr || is_faster(*found, *best))) best = found;
    if (best == nullptr) return nullptr;  // fewer microbatches need more memory still
  }
  return best;
}

/// Goes up, since a program grows with the microbatches that its stages pass on.
const MeasuredStep* RecomputeSearch::run_pipelined() {
  const MeasuredStep *best = nullptr, *last = nullptr;
  std::vector<const MeasuredStep*> steps;  // with `base`, among which nothing has been chosen
  for (const int64_t count : options_.counts) {
    const MeasuredStep& step = measure(count, options_.base);
    const bool may_be_faster =
        step.least_seconds < enough_ && (last == nullptr || is_less(step.trial.seconds, last->trial.seconds));
    if (step.is_legal) steps.push_back(last = &step);
    if (count != options_.counts.back() && (!step.is_legal || may_be_faster)) continue;
    std::ranges::stable_sort(steps, {}, [](const MeasuredStep* s) { return s->trial.seconds; });
    for (const MeasuredStep* none : steps) {
      if (none->trial.seconds >= bound(best)) break;
      const MeasuredStep* found = none->trial.fits          ? none
                                  : options_.chooses_layers ? choose_layers(*none, best)
                                                            : nullptr;
      if (found != nullptr && (best == nullptr || is_faster(*found, *best))) best = found;
    }
    if (best != nullptr || step.least_seconds >= enough_) break;
    if (!steps.empty() && steps.front()->trial.seconds >= enough_) break;
    steps.clear();  // more microbatches may need less memory
  }
  return best;
}

/// Seconds that a choice must undercut.
double RecomputeSearch::bound(const MeasuredStep* best) const {
  return best != nullptr ? std::min(enough_, best->trial.seconds) : enough_;
}

/// True if `extra` seconds, an estimate, make `none` slower than what has been found by more than the estimate is off.
bool RecomputeSearch::is_slower(const MeasuredStep& none, double extra, const MeasuredStep* best) const {
  return extra > 2 * (bound(best) - none.trial.seconds);
}

/// Returns the fastest choice of layers that fits with the microbatches of `none`, which does not; null if there is none
/// that is faster than `best`.
const MeasuredStep* RecomputeSearch::choose_layers(const MeasuredStep& none, const MeasuredStep* best) {
  const MeasuredStep* found = nullptr;
  const double lacking = lacking_bytes(none);
  if (lacking <= 0) return nullptr;  // it is the other memory that does not suffice
  std::vector<RecomputableLayers> layers = none.layers;
  std::ranges::stable_sort(layers, {}, [&](const RecomputableLayers& l) {
    return std::pair(l.saved < lacking, extra(l, lacking));
  });
  std::set<std::string> enough;  // kinds of which all suffice
  for (const RecomputableLayers& kind : layers) {
    const MeasuredStep* so_far = found ? found : best;
    if (is_slower(none, extra(kind, lacking), so_far)) continue;
    const MeasuredStep* fewest = fewest_layers({}, none, kind, so_far);
    if (fewest != nullptr) enough.insert(kind.name);
    if (fewest != nullptr && (so_far == nullptr || is_faster(*fewest, *so_far))) found = fewest;
  }
  const MeasuredStep* so_far = found ? found : best;
  const MeasuredStep* joined = join(none, enough, so_far);
  return joined != nullptr && (so_far == nullptr || is_faster(*joined, *so_far)) ? joined : found;
}

/// The same for all layers of several kinds but the last, of which there are as few as possible. The kinds that cost
/// least for what they save come first.
const MeasuredStep* RecomputeSearch::join(const MeasuredStep& none, const std::set<std::string>& enough,
                                          const MeasuredStep* best) {
  std::vector<RecomputableLayers> layers = none.layers;
  std::ranges::stable_sort(layers, {}, [](const RecomputableLayers& l) { return l.seconds / l.saved; });
  Numbers numbers;
  const MeasuredStep* before = &none;
  for (const RecomputableLayers& kind : layers) {
    if (numbers.empty() && enough.contains(kind.name)) return nullptr;
    if (is_slower(none, kind.seconds, best)) return nullptr;
    const MeasuredStep& whole = measure(none.trial.microbatches, numbers, kind, kind.count);
    if (!whole.is_legal || whole.share() >= before->share()) continue;
    if (whole.trial.fits) {
      if (numbers.empty()) return nullptr;  // which choose_layers() has tried
      return fewest_layers(numbers, *before, kind, best);
    }
    if (whole.trial.seconds >= bound(best)) return nullptr;
    numbers = with(std::move(numbers), kind.name, kind.count);
    before = &whole;
  }
  return nullptr;
}

/// Returns `numbers` with as few layers of `kind` as fit; null if all do not suffice, or if that takes at least as long as
/// `best`. `before` is without them and does not fit.
const MeasuredStep* RecomputeSearch::fewest_layers(const Numbers& numbers, const MeasuredStep& before,
                                                   const RecomputableLayers& kind, const MeasuredStep* best) {
  int64_t low = 0, high = kind.count + 1;
  const MeasuredStep *too_few = &before, *enough = nullptr;
  const double count = static_cast<double>(kind.count);
  auto next = static_cast<int64_t>(std::ceil(std::min(1.0, lacking_bytes(before) / kind.saved) * count));
  for (int tried = 0; low < kind.count && high - low > 1; ++tried) {
    next = std::clamp(next, low + 1, std::min(high - 1, kind.count));
    const MeasuredStep& now = measure(before.trial.microbatches, numbers, kind, next);
    if (!now.is_legal) return nullptr;
    if (now.trial.fits) {
      high = next;
      enough = &now;
    } else {
      if (now.trial.seconds >= bound(best)) return nullptr;
      low = next;
      too_few = &now;
    }
    next = guess(before, low, *too_few, high, enough, tried >= kInterpolations);
  }
  return enough;
}

const MeasuredStep& RecomputeSearch::measure(int64_t microbatches, const Numbers& numbers,
                                             const RecomputableLayers& kind, int64_t count) {
  const MeasuredStep& none = measure(microbatches, RecomputeWord::kNone);
  return measure(microbatches, recompute_of(with(numbers, kind.name, count), none.layers));
}

const MeasuredStep& RecomputeSearch::measure(int64_t microbatches, const Recompute& recompute) {
  const auto [found, added] = measured_.try_emplace({microbatches, recompute_text(recompute)});
  if (!added) return found->second;
  MeasuredStep& result = found->second;
  result = options_.measure(recompute, microbatches);
  result.trial.recompute = recompute;
  result.trial.microbatches = microbatches;
  return result;
}

std::vector<const MeasuredStep*> RecomputeSearch::measured() const {
  std::vector<const MeasuredStep*> all;
  for (const auto& [key, measured] : measured_) {
    if (measured.is_legal) all.push_back(&measured);
  }
  return all;
}

const MeasuredStep* RecomputeSearch::least_memory() const {
  const std::vector<const MeasuredStep*> all = measured();
  const auto least = std::ranges::min_element(
      all, [](const MeasuredStep* a, const MeasuredStep* b) { return is_smaller(*a, *b); });
  return least == all.end() ? nullptr : *least;
}

}  // namespace mtf
