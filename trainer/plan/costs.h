// What a layout costs a training step: it is compiled, its time is predicted, and its memory is planned, as run.mode=explain
// does it. Where `train.recompute` or `train.microbatches` are auto, a layout that does not fit into the memory is tried
// with some of either (RecomputeSearch).
//
// The stages of a deep model are not compiled for each layout: each costs what its share of the blocks costs without
// stages, the blocks of one stage wait for those of the others, and keep the results of several microbatches.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "trainer/costs/cost_model.h"
#include "trainer/costs/recompute_search.h"
#include "trainer/memory/memory_check.h"
#include "trainer/plan/bounds.h"
#include "trainer/plan/search.h"
#include "trainer/session/session.h"

namespace mtf {

/// The memory that a step may take; nothing: it is not limited.
struct StepMemory {
  std::optional<int64_t> position;      ///< in bytes, of a position
  std::optional<MemoryLimits> process;  ///< for all that a run needs in a process, without its evaluations
  std::string source;                   ///< where the limit is from: "layout_search.memory_limit"
};

class LayoutCosts {
 public:
  /// The session's model and data are open. Throws Error (kConfig) if the step cannot be built.
  LayoutCosts(const Session& session, StepMemory memory);

  /// The cost of a layout; of a model with many equal blocks what two models with few of them say, with one block more
  /// in the second. An illegal layout costs nothing but LayoutCost::is_legal. A layout that takes `enough` seconds without
  /// recomputation is not made to fit by it, nor is one whose variables alone do not fit. Both may be called by several
  /// threads at a time.
  LayoutCost operator()(const Layouts& layouts, double enough = std::numeric_limits<double>::infinity());
  /// The same with all blocks, for what `about` recomputes, or a few layers more if that does not fit. As what stages keep is
  /// only estimated, the fewest layers with which they fit are looked for with all stages, until `stop`.
  LayoutCost exactly(
      const Layouts& layouts, const LayoutCost& about,
      const std::function<bool()>& stop = [] { return false; });
  /// True if the two differ.
  bool extrapolates() const { return !shallow_.empty(); }
  /// About the seconds that exactly() takes, as far as the models with few blocks tell; 0 before a layout has cost
  /// anything.
  double exact_seconds(const Layouts& layouts, const LayoutCost& about) const;
  /// From now on the cost of a layout is that of what has been compiled when `is_over`, which several threads may call.
  /// Where nothing has been, the layout counts as illegal, but the first one has a cost in any case.
  void stop_when(std::function<bool()> is_over) { is_over_ = std::move(is_over); }

  /// The training step, and the evaluation if there is one, where nothing depends on the layout.
  std::vector<const Graph*> graphs() const;
  const Graph& step() const { return *whole_.step; }
  /// The number of blocks that stages of a pipeline can share out.
  int64_t blocks() const;
  /// Lower bounds for `dimensions`.
  LayoutBounds bounds(const SplittableDimensions& dimensions, const OpenRules& open) const;
  /// The rates of the hardware of the run, for all meshes of as many positions as `mesh` has.
  BoundRates rates(const Mesh& mesh) const;
  /// True if dimensions of a mesh that have the same size carry messages equally fast wherever they stand: all positions
  /// are in one process, or each has one and a single link joins them.
  bool are_dimensions_alike() const;
  const StepMemory& memory() const { return memory_; }
  /// Bytes of the variables of a position, at most; nothing: they are not limited, or positions share a process.
  std::optional<int64_t> most_bytes() const;
  bool chooses_recompute() const { return is_auto(session_.config.train.recompute); }
  bool chooses_microbatches() const { return !session_.config.train.microbatches.value; }

 private:
  /// What a layout and its search for recomputation change in a step.
  struct Variation {
    int64_t expert_parts = 1;
    Recompute recompute = RecomputeWord::kNone;
    int64_t microbatches = 1;
    std::string text() const;
  };
  /// The cost of a step, and what the search for recomputation asks.
  struct StepCost {
    LayoutCost cost;
    double host_need = 0, device_need = 0;  ///< bytes of the process, where these are limited
    double variable_bytes = 0;              ///< of a position
    double least_seconds = 0;               ///< MeasuredStep::least_seconds
    bool has_batch_statistics = false;
    std::vector<RecomputableLayers> layers = {};
    double handed_bytes = 0;  ///< handed_between_blocks()
    double kept_bytes = 0;    ///< kept_of_microbatch()
  };
  /// A model whose cost counts `weight` times.
  struct Part {
    double weight = 1;
    int64_t depth = 0;  ///< blocks of each stack of a model with few of them
    std::unique_ptr<Model> own;
    std::unique_ptr<Graph> step;  ///< with one expert part
    /// Steps that no thread has in hand, by Variation::text(): partition() adds to a graph for a while.
    std::map<std::string, std::vector<TrainStep>> free;
    std::map<std::string, StepCost> known;  ///< of a part with few blocks, which layouts with stages share
  };
  CostModel model_for(const Mesh& mesh) const;
  const Model& model_of(const Part& part) const { return part.own ? *part.own : *session_.model; }
  Variation plain() const { return {1, options_.recompute, options_.microbatches}; }
  TrainStep build(const Part& part, const Variation& variation) const;
  void add_shallow();
  TrainStep take(Part& part, const Variation& variation);
  void give_back(Part& part, const Variation& variation, TrainStep step);
  bool is_legal(const Graph& step, const Layouts& layouts, bool with_evaluation) const;
  /// The cost of the step of a part, and of all parts; not legal if the layout is illegal for one.
  StepCost of_part(Part& part, const Layouts& layouts, const Variation& variation);
  StepCost compiled(Part& part, const Layouts& layouts, const Variation& variation);
  StepCost sum_of(const std::vector<Part*>& parts, const Layouts& layouts, const Variation& variation);
  static void add(const StepCost& part, double weight, StepCost& sum);
  /// Adds the layers of a part of a model, by name. All parts but the last have fewer blocks of the same kinds.
  static void add_layers(const std::vector<RecomputableLayers>& layers, double weight,
                         std::vector<RecomputableLayers>& sum);
  void complete(StepCost& sum, const Variation& variation);
  /// What the largest stage of a deep model costs about, and the time that it waits for the others.
  StepCost about_stages(const Layouts& layouts, const Variation& variation);
  double send_seconds(const Layouts& layouts, double bytes) const;
  StepCost interpolated(const std::function<const StepCost&(const Recompute&)>& measured,
                        const config::Named<int64_t>& numbers) const;
  TightMemory memory_of(const StepCost& cost) const;
  bool fits(const StepCost& cost) const;
  /// True if the variables alone take more than the memory.
  bool is_hopeless(const StepCost& cost) const;
  /// The cost of a layout, with what makes it fit, in one of `counts` microbatches. Nothing more is compiled when `stop`.
  LayoutCost cost_of(const std::vector<Part*>& parts, const Layouts& layouts, std::vector<int64_t> counts,
                     double enough, const std::function<bool()>& stop);
  bool is_over() const { return has_cost_ && is_over_ && is_over_(); }

  const Session& session_;
  const StepMemory memory_;
  TrainStepOptions options_;
  std::function<bool()> is_over_;
  std::atomic<bool> has_cost_ = false;  ///< a legal layout has been measured
  /// Seconds that compiling the parts with few blocks took, and the blocks of each stack in them.
  std::atomic<double> seconds_of_blocks_ = 0, compiled_blocks_ = 0;
  std::mutex mutex_;         ///< guards Part::free and Part::known
  std::mutex memory_mutex_;  ///< guards the backend, which is asked for the scratch of kernels
  Part whole_;
  std::vector<Part> shallow_;
  double depth_ = 0;  ///< blocks of each stack of the whole model, where `shallow_` stands for it
  std::unique_ptr<const Graph> evaluation_;  ///< null: the run has none
};

}  // namespace mtf
