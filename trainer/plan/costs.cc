#include "trainer/plan/costs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "engine/runtime/memory_plan.h"
#include "trainer/explain/cost_model.h"
#include "trainer/explain/prediction.h"
#include "trainer/explain/schedule.h"
#include "trainer/plan/depth.h"

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

CostModel cost_model_for(const Session& session, const Mesh& mesh) {
  Diagnostics reported;  // by explain
  return cost_model_of(session.config, mesh, !session.backend->is_host(), reported);
}

}  // namespace

LayoutCosts::LayoutCosts(const Session& session, StepMemory memory)
    : session_(session), memory_(std::move(memory)) {
  const int64_t steps = planned_steps(session).value_or(std::numeric_limits<int64_t>::max());
  options_ = train_step_options(session.config, session.layouts, steps);
  options_.update->runs_ahead = runs_ahead(session);
  whole_.step = build(whole_, 1);
  add_shallow();
  if (session.config.evaluate.datasets.empty()) return;
  Diagnostics of_evaluation;  // its problems are reported when it is built for the run
  evaluation_ = build_evaluation(session, of_evaluation);
}

std::unique_ptr<Graph> LayoutCosts::build(const Part& part, int64_t expert_parts) const {
  TrainStepOptions options = options_;
  options.expert_parts = expert_parts;
  return build_train_step(model_of(part), session_.train_data->features(), options).graph;
}

void LayoutCosts::add_shallow() {
  constexpr int64_t kDeep = 8, kShallow = 2;
  const std::optional<int64_t> depth = depth_of(session_.config.model);
  if (!depth || *depth < kDeep || session_.config.distill) return;
  const auto more = static_cast<double>(*depth - kShallow);
  try {
    for (const auto& [blocks, weight] : {std::pair(kShallow, 1 - more), std::pair(kShallow + 1, more)}) {
      Diagnostics known;  // the whole model is correct
      Part part{.weight = weight,
                .own = make_model(with_depth(session_.config.model, blocks), known),
                .step = nullptr,
                .free = {}};
      if (known.has_errors()) throw Error(known.errors());
      part.step = build(part, 1);
      shallow_.push_back(std::move(part));
    }
  } catch (const Error&) {  // such as a rule for a block that is not there: all blocks then count
    shallow_.clear();
  }
}

std::unique_ptr<Graph> LayoutCosts::take(Part& part, int64_t expert_parts) {
  const std::lock_guard lock(mutex_);
  std::vector<std::unique_ptr<Graph>>& free = part.free[expert_parts];
  if (free.empty()) return build(part, expert_parts);
  std::unique_ptr<Graph> step = std::move(free.back());
  free.pop_back();
  return step;
}

void LayoutCosts::give_back(Part& part, int64_t expert_parts, std::unique_ptr<Graph> step) {
  const std::lock_guard lock(mutex_);
  part.free[expert_parts].push_back(std::move(step));
}

std::vector<const Graph*> LayoutCosts::graphs() const {
  std::vector<const Graph*> graphs{&step()};
  if (evaluation_) graphs.push_back(evaluation_.get());
  return graphs;
}

LayoutBounds LayoutCosts::bounds(const SplittableDimensions& dimensions, const OpenRules& open) const {
  const Layouts single = Layouts::single();
  const PartitionOptions options = partition_options_of(session_, single.mesh, {});
  LayoutBounds bounds(dimensions, rates(session_.layouts.mesh), open);
  const auto add = [&](const Part& part) {
    const Graph& step = *part.step;
    std::set<std::string> trained;
    for (const auto& variable : step.variables()) {
      if (variable->kind == Variable::Kind::kWeight && is_trained(variable->name, session_.config))
        trained.insert(variable->name);
    }
    bounds.add(step, partition(step, single, options), trained, part.weight);
  };
  if (shallow_.empty()) {
    add(whole_);
  } else {
    for (const Part& part : shallow_) add(part);
  }
  return bounds;
}

BoundRates LayoutCosts::rates(const Mesh& mesh) const {
  const CostModel model = cost_model_for(session_, mesh);
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
  const CostModel model = cost_model_for(session_, session_.layouts.mesh);
  const HostedMesh& mesh = model.placement().mesh;
  return mesh.processes() == 1 || (mesh.positions() == 1 && model.hardware().links.size() == 1);
}

bool LayoutCosts::is_legal(const Graph& step, const Layouts& layouts, bool with_evaluation) {
  Diagnostics problems;
  check_layouts(step, layouts, problems);
  if (with_evaluation && evaluation_ && !problems.has_errors())
    check_layouts(*evaluation_, layouts, problems);
  return !problems.has_errors();
}

bool LayoutCosts::add(Part& part, const Layouts& layouts, LayoutCost& cost, double& process_bytes) {
  const int64_t expert_parts = mtf::expert_parts(layouts);
  std::unique_ptr<Graph> step = take(part, expert_parts);
  if (!is_legal(*step, layouts, &part == &whole_)) {
    give_back(part, expert_parts, std::move(step));
    return false;
  }
  const Program program = compile(session_, *step, layouts);
  const CostModel model = cost_model_for(session_, layouts.mesh);
  const StepPrediction time = predict_step(schedule_of(program, model), model.hardware().device.step);
  const MemoryPlan memory =
      plan_memory(program, session_.config.run.check_replicas, hosting_of(session_.config));
  cost.seconds += part.weight * time.seconds;
  cost.computing += part.weight * time.computing;
  cost.bytes += std::llround(part.weight * static_cast<double>(memory.position().total()));
  cost.bytes_sent += part.weight * all_bytes_sent(program, program.instructions);
  process_bytes += part.weight * static_cast<double>(memory.process.total());
  give_back(part, expert_parts, std::move(step));
  return true;
}

LayoutCost LayoutCosts::finished(LayoutCost cost, double process_bytes) const {
  cost.is_legal = true;
  cost.waiting = cost.seconds - cost.computing;
  cost.fits = (!memory_.position || cost.bytes <= *memory_.position) &&
              (!memory_.process || process_bytes <= static_cast<double>(*memory_.process));
  return cost;
}

LayoutCost LayoutCosts::exactly(const Layouts& layouts) {
  LayoutCost cost;
  double process_bytes = 0;
  return add(whole_, layouts, cost, process_bytes) ? finished(cost, process_bytes) : LayoutCost();
}

LayoutCost LayoutCosts::operator()(const Layouts& layouts) {
  if (shallow_.empty()) return exactly(layouts);
  LayoutCost cost;
  double process_bytes = 0;
  for (Part& part : shallow_) {
    if (!add(part, layouts, cost, process_bytes)) return {};
  }
  return finished(cost, process_bytes);
}

}  // namespace mtf
