// Branch and bound over layouts: for each mesh dimension the set of tensor dimensions that are split over it. The part
// of the tree with the smallest lower bound comes next; a layout is evaluated only when no unfinished one can be
// better by its bound, so that as few as possible are.
//
//   LayoutSearch search{dimensions, {{4, 2}}, bound, evaluate};
//   const LayoutSearchResult result = search.run({.seconds = 5});
//   result.best(), result.is_proven(), result.gap;
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "engine/runtime/thread_pool.h"
#include "trainer/config/config.h"
#include "trainer/plan/dimensions.h"

namespace mtf {

/// The tensor dimensions that are split over each mesh dimension.
using SplitChoice = std::vector<DimensionSet>;

/// A mesh on which layouts are looked for.
struct SearchMesh {
  std::vector<int64_t> sizes;
  /// The mesh dimension that has the stages of a pipeline, and splits nothing.
  std::optional<size_t> stages = {};
  int rounds = 1;  ///< Pipeline::rounds

  friend bool operator==(const SearchMesh&, const SearchMesh&) = default;
};

/// A mesh dimension of an unfinished layout.
struct SearchAxis {
  int64_t size = 1;
  DimensionSet chosen = {};    ///< split over it
  DimensionSet possible = {};  ///< `chosen`, and those that may still be added
  int rounds = 0;              ///< rounds of the pipeline along this dimension; 0: no stages
};

/// A layout on one of the meshes.
struct LayoutCandidate {
  size_t mesh = 0;  ///< index into LayoutSearch::meshes
  SplitChoice chosen;

  size_t rules() const;
};

/// What a layout costs. Of legal ones those that fit come first, by `seconds`, then the others by `bytes`; among equal
/// ones that with fewer bytes, bytes sent and rules.
struct LayoutCost {
  bool is_legal = false;
  bool fits = true;    ///< within the limit of memory
  double seconds = 0;  ///< seconds of a step: what is minimised
  double computing = 0, waiting = 0;
  int64_t bytes = 0;      ///< memory of a position
  double bytes_sent = 0;  ///< by a position in a step, of the stage that sends most
  int variant = 0;        ///< which of the layouts of variables at rest that plan_layout() tries
  /// What the step computes again, and its microbatches, where these are still to be found.
  Recompute recompute = RecomputeWord::kNone;
  int64_t microbatches = 1;
};

struct EvaluatedLayout {
  LayoutCandidate layout;
  LayoutCost cost;
};
bool is_better(const EvaluatedLayout& a, const EvaluatedLayout& b);

struct LayoutSearchLimits {
  double seconds = std::numeric_limits<double>::infinity();
  /// Layouts that take as many seconds are of no interest.
  double enough = std::numeric_limits<double>::infinity();
  std::function<bool()> stop =
      {};  ///< asked often, by several threads at a time; true ends the search with the best so far
};

struct LayoutSearchResult {
  std::vector<EvaluatedLayout> evaluated;  ///< the legal ones, the best first
  int64_t nodes = 0;                       ///< unfinished layouts that were looked at
  int64_t evaluations = 0;
  double lower_bound = 0;  ///< no layout that fits takes fewer seconds
  double seconds = 0;      ///< that the search took

  /// The part of the best layout's time by which another could still be faster; 0: the best one is proven.
  double gap = 0;

  const EvaluatedLayout& best() const { return evaluated.front(); }
  bool is_proven() const { return gap == 0; }
};

struct LayoutSearch {
  const SplittableDimensions& dimensions;
  std::vector<SearchMesh> meshes;
  /// Seconds that every completion takes at least.
  std::function<double(const std::vector<SearchAxis>&)> bound;
  /// The cost of a layout; called by several threads at a time if there is a pool. A layout that takes `enough` seconds is
  /// not better than the best one: it need not be made to fit into the memory.
  std::function<LayoutCost(const LayoutCandidate&, double enough)> evaluate;
  ThreadPool* pool = nullptr;
  /// Rules that are given, by mesh dimension; their dimensions are split over no others. Only with one mesh.
  SplitChoice fixed = {};
  DimensionSet decided = {};  ///< dimensions of the given rules
  /// Groups of mesh dimensions of one size that may be exchanged without a difference have the same number. Empty:
  /// those of one size may be exchanged.
  std::vector<int> kinds = {};
  /// True if layouts are left out in which two mesh dimensions split the same, as they are one mesh dimension of another
  /// mesh.
  bool merges_equal = false;
  /// Dimensions that are tried first, each over all mesh dimensions, even if there is no time.
  std::vector<std::string> first = {};

  /// Always evaluates the layout of the given rules alone, on the first mesh, unless its bound is LayoutSearchLimits::enough.
  LayoutSearchResult run(const LayoutSearchLimits& limits) const;
};

}  // namespace mtf
