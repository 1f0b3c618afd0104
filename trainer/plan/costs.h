// What a layout costs a training step: it is compiled, its time is predicted, and its memory is planned, as run.mode=explain
// does it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "trainer/plan/bounds.h"
#include "trainer/plan/search.h"
#include "trainer/session/session.h"

namespace mtf {

/// The memory that a step may take; nothing: it is not limited.
struct StepMemory {
  std::optional<int64_t> position;  ///< in bytes, of a position
  std::optional<int64_t> process;   ///< bytes of a process, which positions share
  std::string source;               ///< where the limit is from: "layout_search.memory_limit"
};

class LayoutCosts {
 public:
  /// The session's model and data are open. Throws Error (kConfig) if the step cannot be built.
  LayoutCosts(const Session& session, StepMemory memory);

  /// The cost of a layout; of a model with many equal blocks what two models with few of them say, with one block more
  /// in the second. An illegal layout costs nothing but LayoutCost::is_legal. Both may be called by several threads at a
  /// time.
  LayoutCost operator()(const Layouts& layouts);
  /// The same with all blocks.
  LayoutCost exactly(const Layouts& layouts);
  /// True if the two differ.
  bool extrapolates() const { return !shallow_.empty(); }

  /// The training step, and the evaluation if there is one, where nothing depends on the layout.
  std::vector<const Graph*> graphs() const;
  const Graph& step() const { return *whole_.step; }
  /// Lower bounds for `dimensions`.
  LayoutBounds bounds(const SplittableDimensions& dimensions, const OpenRules& open) const;
  /// The rates of the hardware of the run, for all meshes of as many positions as `mesh` has.
  BoundRates rates(const Mesh& mesh) const;
  /// True if dimensions of a mesh that have the same size carry messages equally fast wherever they stand: all positions
  /// are in one process, or each has one and a single link joins them.
  bool are_dimensions_alike() const;
  const StepMemory& memory() const { return memory_; }

 private:
  /// A model whose cost counts `weight` times.
  struct Part {
    double weight = 1;
    std::unique_ptr<Model> own;
    std::unique_ptr<Graph> step;  ///< with one expert part
    /// Graphs that no thread has in hand, by TrainStepOptions::expert_parts: partition() adds to a graph for a while.
    std::map<int64_t, std::vector<std::unique_ptr<Graph>>> free;
  };
  const Model& model_of(const Part& part) const { return part.own ? *part.own : *session_.model; }
  std::unique_ptr<Graph> build(const Part& part, int64_t expert_parts) const;
  void add_shallow();
  std::unique_ptr<Graph> take(Part& part, int64_t expert_parts);
  void give_back(Part& part, int64_t expert_parts, std::unique_ptr<Graph> step);
  bool is_legal(const Graph& step, const Layouts& layouts, bool with_evaluation);
  /// Adds what the part costs; false if the layout is illegal.
  bool add(Part& part, const Layouts& layouts, LayoutCost& cost, double& process_bytes);
  LayoutCost finished(LayoutCost cost, double process_bytes) const;

  const Session& session_;
  const StepMemory memory_;
  TrainStepOptions options_;
  std::mutex mutex_;  ///< guards Part::free and evaluation_
  Part whole_;
  std::vector<Part> shallow_;
  std::unique_ptr<Graph> evaluation_;  ///< null: the run has none
};

}  // namespace mtf
