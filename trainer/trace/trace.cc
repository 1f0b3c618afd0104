#include "trainer/trace/trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "data/paths.h"
#include "engine/base/nearest.h"
#include "engine/safetensors/safetensors.h"
#include "trainer/checkpoint/restore.h"
#include "trainer/optimizer/averages.h"
#include "trainer/report/progress.h"
#include "trainer/session/device_notes.h"
#include "trainer/session/initial_weights.h"
#include "trainer/session/model_inputs.h"
#include "trainer/session/same_run.h"
#include "trainer/trace/trace_batch.h"

namespace mtf {
namespace {

/// Sets the variables for which the file has values.
void load_weights(const SafetensorsFile& file, VariableStore& variables) {
  for (const StoredTensor& stored : file.tensors()) {
    if (!stored.name.starts_with("weight/")) continue;
    const std::string name = stored.name.substr(std::strlen("weight/"));
    if (!variables.contains(name)) {
      throw Error(ErrorKind::kData, fmt::format("{}: the model has no variable `{}`", file.path(), name),
                  did_you_mean(name, variables.names()));
    }
    const Variable& variable = variables.variable(name);
    variables.set(name, to_host(file, stored, variable.shape, variable.dtype));
  }
}

/// The tensors that the trace writes.
class TraceOutput {
 public:
  void add(const std::string& name, HostTensor tensor) { tensors_.emplace_back(name, std::move(tensor)); }

  void write(const std::string& path) const {
    std::vector<StoredTensor> stored;
    for (const auto& [name, tensor] : tensors_)
      stored.push_back({name, tensor.dtype, tensor.shape.sizes(), tensor.shape.names(), tensor.bytes});
    write_safetensors(path, stored);
  }

 private:
  std::vector<std::pair<std::string, HostTensor>> tensors_;
};

/// The programs of a trace: forward and backward pass without update, and the training step, on the same
/// variables.
struct TracePrograms {
  Program gradients;
  std::optional<Program> step;
  std::vector<StepScalar> scalars;       ///< inputs of `gradients`
  std::vector<StepScalar> step_scalars;  ///< inputs of `step`
};

TracePrograms make_programs(const Session& session, const TraceBatch& batch, Diagnostics& diagnostics) {
  const TraceOptions& trace = session.config.trace;
  // Without training data train.epochs does not determine the number of steps.
  const int64_t total_steps = session.config.train.steps.value_or(std::max<int64_t>(1, trace.steps));
  TrainStepOptions options = train_step_options(session.config, session.layouts, total_steps);
  options.batch_size = batch.size();
  std::optional<TrainStep> step;
  if (trace.steps > 0) step = build_step(session, options, diagnostics);
  diagnostics.throw_if_errors();
  options.update.reset();
  options.keep_prediction = true;
  options.keep = trace.tensors;
  const std::optional<TrainStep> gradients = build_step(session, options, diagnostics);
  diagnostics.throw_if_errors();
  if (gradients->classes) batch.check_labels(label_range(*session.model, *gradients->classes));
  TracePrograms programs{compile(session, *gradients->graph), std::nullopt, gradients->scalars, {}};
  if (step) {
    programs.step = compile(session, *step->graph);
    programs.step_scalars = step->scalars;
  }
  return programs;
}

void feed_scalars(const std::vector<StepScalar>& scalars, int64_t step, Executor& executor) {
  for (const StepScalar& scalar : scalars) executor.feed_scalar(scalar.input, scalar.value(step));
}

void collect_outputs(const Session& session, const Executor& executor, TraceOutput& output) {
  for (const auto& [name, value] : executor.program().outputs) {
    HostTensor tensor = executor.fetch(name);
    if (name == "output/logits") {
      for (const std::string& alias : session.outputs) output.add("output/" + alias, tensor);
    } else {
      output.add(name, std::move(tensor));
    }
  }
}

}  // namespace

void trace(Session& session, Diagnostics& diagnostics) {
  diagnostics.throw_if_errors();
  const TraceOptions& options = session.config.trace;
  if (auto problem = unreadable(options.input)) throw Error(std::vector<Problem>{std::move(*problem)});
  const SafetensorsFile file(options.input.text);
  const TraceBatch batch(session, file);
  session.train_data = std::make_shared<DeclaredSource>(batch.features());
  const TracePrograms programs = make_programs(session, batch, diagnostics);

  const Program& widest = programs.step ? *programs.step : programs.gradients;
  check_same_run(session, {&programs.gradients, &widest});
  const DeviceNotes notes(session);
  VariableStore variables(*session.backend, widest.mesh, widest.variables, variable_store_options(session));
  variables.initialize(static_cast<uint64_t>(session.config.run.seed));
  const InitOptions& init = session.config.checkpoint.init;
  if (!init.path.empty()) initialize_weights(init, variables);
  if (session.teacher) restore_constants(session.teacher->path, std::string(kTeacher) + "/", variables);
  load_weights(file, variables);
  start_averages(variables);

  TraceOutput output;
  Executor gradients(programs.gradients, *session.backend, variables, executor_options(session));
  batch.feed(gradients);
  feed_scalars(programs.scalars, 0, gradients);
  gradients.run(0);
  collect_outputs(session, gradients, output);
  if (programs.step) {
    Executor step(*programs.step, *session.backend, variables, executor_options(session));
    HostTensor losses(Shape{{"steps+1", options.steps + 1}}, DType::kFloat32);
    batch.feed(step);
    for (int64_t i = 0; i < options.steps; ++i) {
      feed_scalars(programs.step_scalars, i, step);
      step.run(static_cast<uint64_t>(i));
      losses.data<float>()[i] = static_cast<float>(step.scalar("loss"));
    }
    feed_scalars(programs.scalars, options.steps, gradients);
    gradients.run(static_cast<uint64_t>(options.steps));
    losses.data<float>()[options.steps] = static_cast<float>(gradients.scalar("loss"));
    output.add("trajectory/loss", std::move(losses));
    for (const std::string& name : variables.names()) {
      if (is_initialized(variables.variable(name))) output.add("final_weight/" + name, variables.get(name));
    }
  }
  if (session.processes->is_first()) output.write(options.output.text);
}

}  // namespace mtf
