#include "trainer/parameter_server/server_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>

#include "engine/base/hash.h"
#include "engine/base/process.h"
#include "engine/graph/sharding_rule.h"
#include "trainer/session/same_run.h"

namespace mtf {
namespace {

/// Reports variables that are split over several workers: workers pull whole variables.
void check_whole(const Session& session, const Program& program, Diagnostics& diagnostics) {
  const HostedMesh hosted(program.mesh, {hosting_of(session.config).processes, 0});
  for (const ProgramVariable& v : program.variables) {
    if (hosted.all_hold(v.layout.copies())) continue;
    diagnostics.error(
        session.config.mark("layout"),
        fmt::format("the layout splits `{}` ({}) between processes, but with parameter servers each "
                    "worker has whole variables",
                    v.variable.name, to_string(v.variable.shape, v.layout, program.mesh)),
        "split variables only over mesh dimensions within a process, or `train.strategy: all_reduce`");
    return;
  }
}

/// Reports state of the optimizer that `optimizer_layout` would split over several workers: the chief saves all of it.
void check_whole_state(const Session& session, const ParameterServerPlan& plan, Diagnostics& diagnostics) {
  const LayoutMap rules(plan.program.mesh, session.layouts.optimizer);
  const HostedMesh hosted(plan.program.mesh, {hosting_of(session.config).processes, 0});
  for (const ServedVariable& v : plan.variables) {
    const Layout layout = rules.of(v.variable.shape);
    if (v.variable.kind != Variable::Kind::kSlot || hosted.all_hold(layout.copies())) continue;
    diagnostics.error(
        session.config.mark("optimizer_layout"),
        fmt::format(
            "the layout splits `{}` ({}) between processes, but with parameter servers the servers hold it",
            v.variable.name, to_string(v.variable.shape, layout, plan.program.mesh)),
        "no `optimizer_layout`, or `train.strategy: all_reduce`");
    return;
  }
}

std::vector<ParameterServerPlan::Gradient> plan_gradients(const ParameterServerPlan& plan,
                                                          const Hosting& hosting) {
  std::vector<ParameterServerPlan::Gradient> gradients;
  for (size_t i = 0; i < plan.weights.size(); ++i) {
    const PlacedWeight& weight = plan.weights[i];
    if (!weight.gradient) continue;
    const GradientPlan whole = plan_gradient(plan.program, "grad/" + weight.variable.name, hosting);
    for (const WeightPart& part : weight.parts) {
      gradients.push_back(
          {part.server, i, weight.is_split() ? rows_of_gradient(whole, part.begin, part.end) : whole});
    }
  }
  return gradients;
}

}  // namespace

std::optional<ParameterServerPlan> plan_parameter_servers(const Session& session, Diagnostics& diagnostics) {
  const Config& config = session.config;
  if (server_addresses(config).empty()) {
    diagnostics.error(
        config.mark("train.strategy"), "`train.strategy: parameter_server` needs servers",
        "`cluster.jobs: {ps: [HOST:PORT, ...], worker: [HOST:PORT, ...]}`, or the same in TF_CONFIG");
    return std::nullopt;
  }
  TrainStepOptions options = train_step_options(
      config, session.layouts, planned_steps(session).value_or(std::numeric_limits<int64_t>::max()));
  ParameterServerPlan plan;
  plan.update = *options.update;
  // Only the chief knows them.
  plan.update.begins = std::make_shared<SlotBegins>(SlotBegins::set_later());
  options.update.reset();
  options.keep_tokens = true;
  // Synchronous servers compute the squares of the summed gradients.
  options.keep_squares = is_asynchronous(config);
  const std::optional<TrainStep> step = build_step(session, options, diagnostics);
  if (!step || diagnostics.has_errors()) return std::nullopt;
  if (!step->statistics.empty()) {
    diagnostics.error(config.mark("train.strategy"),
                      fmt::format("parameter servers keep no running statistics, and this model has {}",
                                  step->statistics.front()),
                      "another `train.strategy`, or a model without such layers");
    return std::nullopt;
  }
  plan.warnings = step->warnings;
  PartitionOptions partition_options = partition_options_of(session);
  if (!is_asynchronous(config)) partition_options.partial_outputs = "grad/";
  plan.program = partition(*step->graph, session.layouts, partition_options);
  check_whole(session, plan.program, diagnostics);
  plan.weights = place_weights(plan.program, config, diagnostics);
  for (const PlacedWeight& weight : plan.weights) plan.update.weights.push_back(weight.variable.name);
  if (diagnostics.has_errors()) return std::nullopt;
  plan.variables =
      served_variables(plan.weights, static_cast<int>(server_addresses(config).size()), plan.update);
  check_whole_state(session, plan, diagnostics);
  if (diagnostics.has_errors()) return std::nullopt;
  plan.places =
      describe_placement(plan.weights, plan.variables, static_cast<int>(server_addresses(config).size()));
  plan.gradients = plan_gradients(plan, hosting_of(config));
  plan.squares = static_cast<size_t>(std::ranges::count_if(
      plan.weights, [](const PlacedWeight& weight) { return weight.gradient.has_value(); }));
  std::string places;
  for (const ServedVariable& v : plan.variables)
    places += fmt::format("{} {} {} {} {}\n", v.id, v.server, v.variable.name, v.first_row,
                          v.variable.shape.to_string());
  plan.fields = fields_of_run(session, {&plan.program},
                              {{"parameter server protocol", fmt::to_string(kParameterProtocol)},
                               {"number of workers", fmt::to_string(worker_count(config))},
                               {"variables on the servers", hash128_hex(places)}});
  // It comes first, because another build may have other fields.
  plan.fields.insert(plan.fields.begin(), {"build", build_of_program(MTF_VERSION)});
  return plan;
}

}  // namespace mtf
