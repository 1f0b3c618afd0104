#include "trainer/plan/costs.h"

#include <algorithm>
#include <limits>

#include "engine/runtime/memory_plan.h"
#include "trainer/explain/cost_model.h"
#include "trainer/explain/prediction.h"
#include "trainer/explain/schedule.h"

namespace mtf {
namespace {

double all_bytes_sent(const Program& program, const std::vector<Instruction>& block) {
  double bytes = 0;
  for (const Instruction& instruction : block) {
    if (instruction.is_collective()) bytes += bytes_sent(program, instruction);
    bytes += static_cast<double>(instruction.count()) * all_bytes_sent(program, instruction.body());
  }
  return bytes;
}

CostModel model_of(const Session& session, const Mesh& mesh) {
  Diagnostics reported;  // by explain
  return cost_model_of(session.config, mesh, !session.backend->is_host(), reported);
}

}  // namespace

LayoutCosts::LayoutCosts(const Session& session, StepMemory memory)
    : session_(session), memory_(std::move(memory)) {
  const int64_t steps = planned_steps(session).value_or(std::numeric_limits<int64_t>::max());
  options_ = train_step_options(session.config, session.layouts, steps);
  options_.update->runs_ahead = runs_ahead(session);
  options_.expert_parts = 1;
  steps_[1] = build_train_step(*session.model, session.train_data->features(), options_).graph;
  if (session.config.evaluate.datasets.empty()) return;
  Diagnostics of_evaluation;  // its problems are reported when it is built for the run
  evaluation_ = build_evaluation(session, of_evaluation);
}

const Graph& LayoutCosts::step_for(const Layouts& layouts) {
  const int64_t parts = expert_parts(layouts);
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Graph>& graph = steps_[parts];
  if (!graph) {
    TrainStepOptions options = options_;
    options.expert_parts = parts;
    graph = build_train_step(*session_.model, session_.train_data->features(), options).graph;
  }
  return *graph;
}

std::vector<const Graph*> LayoutCosts::graphs() const {
  std::vector<const Graph*> graphs{&step()};
  if (evaluation_) graphs.push_back(evaluation_.get());
  return graphs;
}

Program LayoutCosts::on_one_position() const {
  const Layouts single = Layouts::single();
  return partition(step(), single, partition_options_of(session_, single.mesh, {}));
}

BoundRates LayoutCosts::rates(const Mesh& mesh) const {
  const CostModel model = model_of(session_, mesh);
  BoundRates result{.seconds = [model](const Work& work) { return model.least_seconds(work); },
                    .hosted = model.placement().mesh.positions(),
                    .step = model.hardware().device.step,
                    .link = 0,
                    .links = 0};
  for (const LinkOptions& link : model.hardware().links) {
    result.link = std::max(result.link, link.bandwidth);
    ++result.links;
  }
  return result;
}

bool LayoutCosts::are_dimensions_alike() const {
  const CostModel model = model_of(session_, session_.layouts.mesh);
  const HostedMesh& mesh = model.placement().mesh;
  return mesh.processes() == 1 || (mesh.positions() == 1 && model.hardware().links.size() == 1);
}

LayoutCost LayoutCosts::operator()(const Layouts& layouts) {
  LayoutCost cost;
  const Graph& graph = step_for(layouts);
  Diagnostics problems;
  check_layouts(graph, layouts, problems);
  if (evaluation_ && !problems.has_errors()) check_layouts(*evaluation_, layouts, problems);
  if (problems.has_errors()) return cost;
  const Program program = compile(session_, graph, layouts);
  const CostModel model = model_of(session_, layouts.mesh);
  const StepPrediction step = predict_step(schedule_of(program, model), model.hardware().device.step);
  const MemoryPlan plan =
      plan_memory(program, session_.config.run.check_replicas, hosting_of(session_.config));
  cost.is_legal = true;
  cost.seconds = step.seconds;
  cost.computing = step.computing;
  cost.waiting = step.seconds - step.computing;
  cost.bytes = plan.position_bytes();
  cost.bytes_sent = all_bytes_sent(program, program.instructions);
  cost.fits = (!memory_.position || cost.bytes <= *memory_.position) &&
              (!memory_.process || plan.process.total() <= *memory_.process);
  return cost;
}

}  // namespace mtf
