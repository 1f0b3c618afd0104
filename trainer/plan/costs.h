// What a layout costs a training step: it is compiled, its time is predicted, and its memory is planned, as run.mode=explain
// does it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "trainer/plan/bounds.h"
#include "trainer/plan/search.h"
#include "trainer/session/session.h"

namespace mtf {

/// The memory that a step may take; nothing: it is not limited.
struct StepMemory {
  std::optional<int64_t> position;  ///< in bytes, of a position
  std::optional<int64_t> process;   ///< of a process, which positions share
  std::string source;               ///< of the limit: "layout_search.memory_limit"
};

class LayoutCosts {
 public:
  /// The session's model and data are open. Throws Error (kConfig) if the step cannot be built.
  LayoutCosts(const Session& session, StepMemory memory);

  /// An illegal layout costs nothing but LayoutCost::is_legal. May be called by several threads at a time.
  LayoutCost operator()(const Layouts& layouts);

  /// The training step, and the evaluation if there is one, where nothing depends on the layout.
  std::vector<const Graph*> graphs() const;
  const Graph& step() const { return *steps_.at(1); }
  /// The step on one position.
  Program on_one_position() const;
  /// Of the hardware of the run, for all meshes of as many positions as `mesh` has.
  BoundRates rates(const Mesh& mesh) const;
  /// True if dimensions of a mesh that have the same size carry messages equally fast wherever they stand: all positions
  /// are in one process, or each has one and a single link joins them.
  bool are_dimensions_alike() const;
  const StepMemory& memory() const { return memory_; }

 private:
  const Graph& step_for(const Layouts& layouts);

  const Session& session_;
  const StepMemory memory_;
  TrainStepOptions options_;
  std::mutex mutex_;                                 ///< guards steps_
  std::map<int64_t, std::unique_ptr<Graph>> steps_;  ///< by TrainStepOptions::expert_parts
  std::unique_ptr<Graph> evaluation_;                ///< null: the run has none
};

}  // namespace mtf
