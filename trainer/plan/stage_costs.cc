#include "trainer/plan/stage_costs.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "engine/spmd/passes/pipeline_order.h"
#include "trainer/plan/costs.h"
#include "trainer/plan/dimensions.h"

namespace mtf {
namespace {

/// Microbatches whose results the first stage keeps at most, all of its chunks taken together.
double most_in_flight(const Pipeline& pipeline, int64_t stages, int64_t microbatches) {
  const int64_t rounds = pipeline.rounds, passes = rounds * microbatches;
  if (pipeline.schedule == PipelineSchedule::kGPipe) return static_cast<double>(microbatches);
  const int64_t chunks = rounds == 1 ? stages : 2 * (stages - 1) + (rounds - 1) * stages + 1;
  return static_cast<double>(std::min(passes, chunks)) / static_cast<double>(rounds);
}

}  // namespace

double handed_between_blocks(const Graph& step, const Layouts& layouts) {
  const LayoutMap layout_of(layouts.mesh, layouts.activation);
  const auto block_of = [&](const Operation& operation) {
    const int unit = operation.hints().unit;
    return unit >= 0 && step.units()[static_cast<size_t>(unit)].is_block ? unit : -1;
  };
  std::unordered_set<Tensor, TensorHash> handed;
  double bytes = 0;
  for_each_live_operation(step, [&](const Operation& operation) {
    const int block = block_of(operation);
    if (block < 0 || operation.provenance().phase != Phase::kForward || operation.provenance().recomputed)
      return;
    for (const Tensor& input : operation.inputs()) {
      const int maker = block_of(input.operation());
      if (maker < 0 || maker == block || !handed.insert(input).second) continue;
      const Shape local = slice_shape(input.shape(), layout_of.of(input.shape()), layouts.mesh);
      bytes += static_cast<double>(bytes_of(local, input.dtype()));
    }
  });
  return bytes;
}

double kept_of_microbatch(const Program& step) {
  std::unordered_set<ValueId> made, kept;
  for (const Instruction& loop : step.instructions) {
    for (const Instruction& instruction : loop.body()) {
      const Provenance& from = instruction.provenance;
      const bool is_forward = from.phase == Phase::kForward && !from.recomputed;
      for (const ValueId id : is_forward ? instruction.outputs : instruction.inputs) {
        if (id == kNoValue) continue;
        const ValueId root = step.root(id);
        if (is_forward && step.values[root].storage == Value::Storage::kTemporary) made.insert(root);
        if (!is_forward && made.contains(root)) kept.insert(root);
      }
    }
  }
  double bytes = 0;
  for (const ValueId id : kept) {
    if (!step.values[id].on_host) bytes += static_cast<double>(step.local_bytes(id));
  }
  return bytes;
}

LayoutCosts::StepCost LayoutCosts::about_stages(const Layouts& layouts, const Variation& variation) {
  Layouts in_a_row = layouts;
  in_a_row.pipeline.reset();
  const StepCost few = of_part(shallow_.front(), in_a_row, variation),
                 more = of_part(shallow_.back(), in_a_row, variation);
  if (!few.cost.is_legal || !more.cost.is_legal) return {};
  const Pipeline& pipeline = *layouts.pipeline;
  const int64_t stages = pipeline.stages(layouts.mesh), chunks = stages * pipeline.rounds;
  const auto microbatches = static_cast<double>(variation.microbatches);
  const double even = depth_ / static_cast<double>(stages);  // blocks of each stack on a stage
  const int64_t in_chunk = (blocks() + chunks - 1) / chunks;
  const double most = even * static_cast<double>(in_chunk * chunks) / static_cast<double>(blocks());
  StepCost stage;
  const double more_blocks = most - static_cast<double>(shallow_.front().depth);
  add(few, 1 - more_blocks, stage);
  add(more, more_blocks, stage);
  if (!stage.layers.empty()) {  // those of all stages are computed again, or none
    stage.layers.clear();
    add_layers(few.layers, 1 - more_blocks, stage.layers);
    add_layers(more.layers, more_blocks, stage.layers);
    for (RecomputableLayers& kind : stage.layers) kind.count = std::min<int64_t>(kind.count, 1);
  }

  std::vector<int64_t> in_turn;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) in_turn.push_back(chunk % stages);
  const double bubble = pipeline_bubble(in_turn, variation.microbatches, pipeline.schedule);
  const double block = more.cost.seconds - few.cost.seconds;
  const double send = send_seconds(layouts, few.handed_bytes), links = static_cast<double>(stages - 1);
  stage.least_seconds = stage.cost.seconds;
  stage.cost.seconds += even * block * bubble / (1 - bubble) + 2 * links * send;
  stage.cost.seconds = std::max(stage.cost.seconds, 4 * pipeline.rounds * microbatches * send);

  // The first stage keeps what its blocks have saved of the most microbatches.
  const double kept = std::max(0.0, most_in_flight(pipeline, stages, variation.microbatches) - 1);
  const double saved = kept * most * std::max(0.0, more.kept_bytes - few.kept_bytes);
  stage.cost.bytes += std::llround(saved);
  (session_.backend->is_host() ? stage.host_need : stage.device_need) += saved;
  complete(stage, variation);
  return stage;
}

/// The time of a message from one stage to the next.
double LayoutCosts::send_seconds(const Layouts& layouts, double bytes) const {
  const CostModel model = model_for(layouts.mesh);
  const HostedMesh& hosted = model.placement().mesh;
  const int receiver =
      hosted.host(layouts.mesh.first_position(1, axis_bit(layouts.pipeline->axis(layouts.mesh))));
  if (receiver == 0) return 0;
  for (const LinkOptions& link : model.hardware().links) {
    if (link.processes && receiver >= *link.processes) continue;
    return link.latency + bytes * static_cast<double>(hosted.positions()) / link.bandwidth;
  }
  return 0;
}

}  // namespace mtf
