// Finds what `auto` stands for in `mesh`, `layout`, `parameter_layout` and `optimizer_layout`: the mesh and the rules with
// which a training step is predicted to take the shortest time within the limit of memory. `train.recompute: auto` and
// `train.microbatches: auto` are found together with them, as they decide which layouts fit. Models with blocks may get the
// stages of a pipeline.
//
//   const std::optional<LayoutPlan> plan = choose_layout(session, diagnostics);   // sets session.config and .layouts
//   if (plan) fmt::print("{}", to_string(*plan, options));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/plan/costs.h"
#include "trainer/plan/search.h"
#include "trainer/session/session.h"

namespace mtf {

/// What makes a layout fit into the memory, where that is auto.
struct FoundTraining {
  std::optional<Recompute> recompute;
  std::optional<int64_t> microbatches;
};
void describe(config::Visitor& visit, FoundTraining& found);
/// Section `train` with what was found; empty if that is nothing.
config::Node train_section(const FoundTraining& found);

/// A mesh and complete rules, as a configuration gives them.
struct FoundLayout {
  config::MeshSizes mesh;
  LayoutRules layout, parameter_layout, optimizer_layout;
  std::optional<PipelineOptions> pipeline = {};  ///< with stages that the configuration does not ask for
  FoundTraining train = {};
};
void describe(config::Visitor& visit, FoundLayout& found);

/// The number of rules, as a dimension over two mesh dimensions counts twice, and one each for recomputation, microbatches
/// and several rounds.
int64_t rule_count(const FoundLayout& found);

struct PlannedLayout {
  FoundLayout found;
  LayoutCost cost;
};

struct LayoutPlan {
  /// Those that were evaluated: first the one that is taken, which has the fewest rules among those that are about as
  /// fast as the fastest one (kAboutEqual), then the others, the best first.
  std::vector<PlannedLayout> layouts;
  int64_t exact = 0;  ///< so many of them have costs that are computed with all blocks of the model
  size_t meshes = 1;  ///< that were searched
  StepMemory memory;
  bool are_cut = false;  ///< dimensions were left out: nothing is proven
  bool is_stopped = false;
  bool splits_at_rest = false;  ///< rules of variables at rest are found, too, of which a few were tried
  LayoutSearchResult search;
};

/// Replaces what is `auto` of mesh and layouts in session.config, and session.layouts; sets session.found_recompute. A run
/// that goes on keeps what it had found; of several processes one searches. Returns the search, or nothing where there was
/// none; notes in `diagnostics` say what was found. Throws Error (kConfig) if the rules that are given are illegal, if no
/// layout fits into layout_search.memory_limit (explain warns of it instead), if no link of the hardware joins the
/// processes, or if the run's mode has no training step and its directory has no layout.
std::optional<LayoutPlan> choose_layout(Session& session, Diagnostics& diagnostics);

/// Searches without changing the session. `limits`: in place of layout_search.time_limit.
LayoutPlan plan_layout(const Session& session, const LayoutSearchLimits& limits);

/// The YAML of the best layout, and a table with `most` others and why each loses.
std::string to_string(const LayoutPlan& plan, int64_t most);

}  // namespace mtf
