// From a graph, a mesh and layout rules to the one program that every position runs.
//
//   Diagnostics diagnostics;
//   check_layouts(graph, layouts, diagnostics);   // every illegal split, all at once
//   diagnostics.throw_if_errors();
//   Program program = partition(graph, layouts);
#pragma once

#include <string>

#include "engine/graph/graph.h"
#include "engine/spmd/passes/passes.h"
#include "engine/spmd/program.h"

namespace mtf {

/// The mesh and the three sets of rules, each complete: `parameter` is `layout` with `parameter_layout` on
/// top, `optimizer` is `parameter` with `optimizer_layout` on top.
struct Layouts {
  Mesh mesh;
  LayoutRules activation;
  LayoutRules parameter;
  LayoutRules optimizer;

  /// One position.
  static Layouts single() { return {}; }
  /// Stacks the sections of a configuration as described above.
  static Layouts make(Mesh mesh, const LayoutRules& layout, const LayoutRules& parameter_layout = {},
                      const LayoutRules& optimizer_layout = {});
};

/// Reports everything that makes the layouts illegal (docs/architecture.md "Illegal layouts"), with the
/// rule's place, the tensors it concerns and the legal alternatives. Rules that split nothing:
/// unused_rules.h.
void check_layouts(const Graph& graph, const Layouts& layouts, Diagnostics& diagnostics);

struct PartitionOptions {
  bool keep_gathered = false;  ///< gathered parameters are kept from the forward to the backward pass
  int gather_ahead = 1;        ///< layers by which gathers of parameters start before their use
  /// Collectives run beside the computation (between processes), so their inputs keep their memory until the
  /// result is awaited.
  bool asynchronous = false;
  FlightOptions flights = {};     ///< of asynchronous ones
  bool fuse_epilogues = false;    ///< for devices whose kernels do what follows a contraction
  bool fuse_elementwise = false;  ///< for devices that make kernels for elementwise operations
  bool group_updates = false;     ///< for devices that update many variables at once
  /// Outputs whose names begin so stay partial sums (those that are reduced elsewhere); empty: none.
  std::string partial_outputs = {};
};

/// The program before all passes: local operations and the transitions between their layouts, in the order of
/// the graph.
Program lower(const Graph& graph, const Layouts& layouts, const PartitionOptions& options = {});

/// The program after all passes. The graph must have passed check_layouts.
Program partition(const Graph& graph, const Layouts& layouts, const PartitionOptions& options = {});

}  // namespace mtf
