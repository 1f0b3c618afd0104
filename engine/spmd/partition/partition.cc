#include "engine/spmd/partition/partition.h"

#include "engine/spmd/partition/partitioner.h"
#include "engine/spmd/passes/passes.h"

namespace mtf {

Layouts Layouts::make(Mesh mesh, const LayoutRules& layout, const LayoutRules& parameter_layout,
                      const LayoutRules& optimizer_layout) {
  const LayoutRules parameter = layout.plus(parameter_layout);
  return {std::move(mesh), layout, parameter, parameter.plus(optimizer_layout)};
}

bool ScopeLayouts::holds(std::string_view path) const {
  return path.starts_with(scope) && (path.size() == scope.size() || path[scope.size()] == '/');
}

Program lower(const Graph& graph, const Layouts& layouts, const PartitionOptions& options) {
  return Partitioner(graph, layouts, options).run();
}

Program partition(const Graph& graph, const Layouts& layouts, const PartitionOptions& options) {
  Program program = lower(graph, layouts, options);
  if (graph.weight_copies()) program = drop_unread_variables(std::move(program));
  if (layouts.pipeline) program = hoist_sends(std::move(program));
  program = share_operations(std::move(program));
  program = share_exchanges(std::move(program));
  program = fuse_norms(std::move(program), options.fuse_norm_parameters);
  program = fuse_reduce_scatter(std::move(program));
  program = start_reductions_early(std::move(program));
  program = schedule_gathers(std::move(program), options.gather_ahead);
  program = bucket_reductions(std::move(program), kBucketBytes);
  program = group_segments(std::move(program));
  if (options.fuse_epilogues) program = fuse_epilogues(std::move(program));
  if (options.fuse_elementwise) program = fuse_elementwise(std::move(program));
  program = accumulate_early(std::move(program));
  if (layouts.pipeline) program = pipeline_loops(std::move(program), *layouts.pipeline, options.costs);
  program = split_collectives(std::move(program));
  program = reuse_memory(std::move(program));
  if (options.asynchronous) program = land_collectives(std::move(program), options.flights);
  if (options.group_variables) program = group_casts(group_updates(std::move(program)));
  if (options.stack_products) program = stack_products(std::move(program));
  if (options.offloaded_bytes) program = offload_activations(std::move(program), *options.offloaded_bytes);
  return program;
}

}  // namespace mtf
