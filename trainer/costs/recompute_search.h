// The search for what a training step computes again in the backward pass, and in how many microbatches it works, so that
// it fits into the memory in the least time. Steps are measured by a function: choose_recompute() compiles them for the
// layout of a run, LayoutCosts for each layout that it looks at.
//
//   RecomputeSearch search({.counts = {1, 2, 4}, .measure = measure});
//   const MeasuredStep* best = search.run();   // null: nothing fits, search.least_memory() needs the least
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "trainer/costs/recomputable.h"
#include "trainer/memory/memory_check.h"

namespace mtf {

/// A choice that was compiled.
struct RecomputeTrial {
  Recompute recompute = RecomputeWord::kNone;
  int64_t microbatches = 1;
  double seconds = 0;  ///< predicted seconds of a step
  TightMemory memory;  ///< memory of the run: that of the machine, or of the GPU if its memory is limited
  bool fits = false;
};

/// A choice that was compiled, or that the model does not allow.
struct MeasuredStep {
  RecomputeTrial trial = {};
  bool is_legal = false;
  double least_seconds = 0;                     ///< with this many microbatches or more, if that is known
  bool has_batch_statistics = false;            ///< which more microbatches would change
  std::vector<RecomputableLayers> layers = {};  ///< without recomputation: what could be computed again

  double share() const { return trial.memory.share(); }
};

/// Among equally fast choices the one with less memory comes first, then the shorter one.
bool is_faster(const MeasuredStep& a, const MeasuredStep& b);

struct RecomputeSearchOptions {
  std::vector<int64_t> counts;  ///< numbers of microbatches, in ascending order
  bool chooses_layers = true;   ///< false: `base` is not changed, only the number of microbatches
  Recompute base = RecomputeWord::kNone;
  /// The stages of a pipeline wait less with more microbatches: these are tried while they are faster, and while nothing
  /// fits.
  bool is_pipelined = false;
  std::function<MeasuredStep(const Recompute& recompute, int64_t microbatches)> measure;
};

class RecomputeSearch {
 public:
  explicit RecomputeSearch(RecomputeSearchOptions options) : options_(std::move(options)) {}

  /// The fastest choice that fits; null: none does. More microbatches than the fewest that fit without recomputation are
  /// not tried, but for pipelines; fewer may still be faster with some of it. Layers are chosen only where that may take less
  /// than `enough` seconds.
  const MeasuredStep* run(double enough = std::numeric_limits<double>::infinity());
  const MeasuredStep& measure(int64_t microbatches, const Recompute& recompute);

  /// All choices that were measured and that the model allows.
  std::vector<const MeasuredStep*> measured() const;
  /// The one with the least memory; null: the model allows none.
  const MeasuredStep* least_memory() const;

 private:
  /// How many of the layers of each kind or name are computed again.
  using Numbers = config::Named<int64_t>;

  const MeasuredStep* run_in_turn();
  const MeasuredStep* run_pipelined();
  const MeasuredStep* choose_layers(const MeasuredStep& none, const MeasuredStep* best);
  const MeasuredStep* join(const MeasuredStep& none, const std::set<std::string>& enough,
                           const MeasuredStep* best);
  const MeasuredStep* fewest_layers(const Numbers& numbers, const MeasuredStep& before,
                                    const RecomputableLayers& kind, const MeasuredStep* best);
  const MeasuredStep& measure(int64_t microbatches, const Numbers& numbers, const RecomputableLayers& kind,
                              int64_t count);
  double bound(const MeasuredStep* best) const;
  bool is_slower(const MeasuredStep& none, double extra, const MeasuredStep* best) const;

  RecomputeSearchOptions options_;
  double enough_ = std::numeric_limits<double>::infinity();
  std::map<std::pair<int64_t, std::string>, MeasuredStep> measured_;
};

/// As in YAML: "none", "block", "[SelfAttention]", "{block: 4}".
std::string recompute_text(const Recompute& recompute);

}  // namespace mtf
