// Turns a graph, a mesh and layout rules into the one program that every position runs.
//
//   Diagnostics diagnostics;
//   check_layouts(graph, layouts, diagnostics);   // reports every illegal split at once
//   diagnostics.throw_if_errors();
//   Program program = partition(graph, layouts);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "engine/graph/graph.h"
#include "engine/spmd/passes/passes.h"
#include "engine/spmd/pipeline.h"
#include "engine/spmd/program.h"

namespace mtf {

/// Rules for what lies below a scope of the graph, in place of those of the whole graph.
struct ScopeLayouts {
  std::string scope;  ///< "teacher"
  std::string
      section;  ///< the section of the configuration whose keys `layout` and `parameter_layout` they are
  LayoutRules activation = {};
  LayoutRules parameter = {};  ///< of variables between steps, complete

  /// True if the scope or variable `path` lies below `scope`.
  bool holds(std::string_view path) const;
};

/// The mesh and the three sets of layout rules, each of them complete: `parameter` is `layout` overridden by
/// `parameter_layout`; `optimizer` is `parameter` overridden by `optimizer_layout`.
struct Layouts {
  Mesh mesh;
  LayoutRules activation;
  LayoutRules parameter;
  LayoutRules optimizer;
  std::optional<ScopeLayouts> part = {};
  std::optional<Pipeline> pipeline = {};  ///< over a dimension of the mesh that no rule names

  /// The layouts of a mesh with a single position.
  static Layouts single() { return {}; }
  /// Makes the complete sets from the sections of a configuration.
  static Layouts make(Mesh mesh, const LayoutRules& layout, const LayoutRules& parameter_layout = {},
                      const LayoutRules& optimizer_layout = {});
};

/// Reports everything that makes the layouts illegal ("Illegal layouts" in docs/architecture.md), with the
/// place of the rule, the tensors concerned and the legal alternatives. unused_rules.h reports rules that
/// split nothing.
void check_layouts(const Graph& graph, const Layouts& layouts, Diagnostics& diagnostics);

struct PartitionOptions {
  bool keep_gathered = false;  ///< keeps gathered parameters from the forward to the backward pass
  int gather_ahead = 1;        ///< number of layers by which gathers of parameters start before their use
  /// Collectives run concurrently with the computation (between processes), so the memory of their inputs is
  /// kept until their result is awaited.
  bool asynchronous = false;
  FlightOptions flights = {};  ///< options of asynchronous collectives
  /// For devices whose gradients of norms sum those of the parameters as well.
  bool fuse_norm_parameters = false;
  bool fuse_epilogues = false;    ///< for devices whose contraction kernels have epilogues
  bool fuse_elementwise = false;  ///< for devices that generate kernels for elementwise operations
  bool group_variables = false;   ///< for devices that cast and update many variables with one kernel each
  bool stack_products = false;    ///< for devices that gain by fewer and larger products
  /// For GPUs: results of at least so many bytes on a position lie in the memory of the machine between the forward and the
  /// backward pass. Null: none do.
  std::optional<int64_t> offloaded_bytes = {};
  PipelineCosts costs = {};
  /// Outputs whose names begin with this prefix stay partial sums, to be reduced elsewhere. Empty: none do.
  std::string partial_outputs = {};
};

/// The program before all passes: local operations and the transitions between their layouts, in the order of
/// the graph. Meanwhile operations are captured into blocks of the graph (Graph::capture), so only one thread may lower or
/// extend a graph at a time. What Pipeline::placed lacks of this graph is added to it: all copies of the layouts share it.
Program lower(const Graph& graph, const Layouts& layouts, const PartitionOptions& options = {});

/// The program after all passes; what lower() says holds here, too. The graph must have passed check_layouts.
Program partition(const Graph& graph, const Layouts& layouts, const PartitionOptions& options = {});

}  // namespace mtf
