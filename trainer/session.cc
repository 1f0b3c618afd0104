#include "trainer/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>

#include "engine/runtime/memory_plan.h"
#include "models/model_options.h"

namespace mtf {
namespace {

uint64_t data_seed(const Config& config) {
  return static_cast<uint64_t>(config.data.seed.value_or(config.run.seed));
}

/// `build()`; its errors of configuration are collected.
template <class Build>
void collect_errors(const Build& build, Diagnostics& diagnostics) {
  try {
    build();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kConfig) throw;
    diagnostics.add(error);
  }
}

void make_model_of(Session& session, Diagnostics& diagnostics) {
  if (session.config.model.is_null()) return;
  const size_t errors = diagnostics.errors().size();
  const auto options = config::parse<ModelOptions>(session.config.model, diagnostics, "model");
  std::unique_ptr<Model> model = make_model(options, diagnostics);
  session.outputs = {"logits"};
  if (const auto* regression = std::get_if<RegressionOptions>(&options))
    session.outputs.push_back(regression->target);
  if (diagnostics.errors().size() == errors) session.model = std::move(model);
}

}  // namespace

Session open_session(const std::vector<std::string>& files, const std::vector<std::string>& arguments,
                     Diagnostics& diagnostics) {
  Session session{load_config(files, arguments, diagnostics), {}, make_cpu_backend(), nullptr, {}, nullptr};
  make_model_of(session, diagnostics);
  if (session.config.data.train) {
    session.train_data = open_source(session.config, *session.config.data.train,
                                     session.config.mark("data.train"), diagnostics);
  }
  collect_errors([&] { session.layouts = make_layouts(session.config); }, diagnostics);
  return session;
}

std::shared_ptr<const Source> open_source(const Config& config, const SourceOptions& options,
                                          const Mark& mark, Diagnostics& diagnostics) {
  try {
    return make_source(options, data_seed(config), mark);
  } catch (const Error&) {
    if (diagnostics.has_errors()) return nullptr;  // the errors of the configuration come first
    throw;
  }
}

std::optional<TrainStep> build_step(const Session& session, const TrainStepOptions& options,
                                    Diagnostics& diagnostics) {
  if (!session.model || !session.train_data) return std::nullopt;
  std::optional<TrainStep> step;
  collect_errors(
      [&] {
        step = build_train_step(*session.model, session.train_data->features(), options);
        check_layouts(*step->graph, session.layouts, diagnostics);
      },
      diagnostics);
  return step;
}

std::unique_ptr<Graph> build_evaluation(const Session& session, Diagnostics& diagnostics) {
  std::unique_ptr<Graph> graph;
  if (!session.model || !session.train_data) return graph;
  const int64_t batch_size = evaluate_batch_size(session.config, session.layouts);
  collect_errors(
      [&] {
        graph = build_evaluation(*session.model, session.train_data->features(), batch_size,
                                 precision_of(session.config));
        // What is wrong with the layout of the training step is wrong here too: said once.
        if (!diagnostics.has_errors()) check_layouts(*graph, session.layouts, diagnostics);
      },
      diagnostics);
  return graph;
}

std::optional<int64_t> planned_steps(const Session& session) {
  std::optional<int64_t> steps = session.config.train.steps;
  if (session.config.train.epochs && session.train_data) {
    const auto examples = static_cast<double>(session.train_data->examples());
    const auto batch = static_cast<double>(train_batch_size(session.config, session.layouts));
    const auto of_epochs =
        std::max<int64_t>(1, std::llround(std::ceil(*session.config.train.epochs * examples / batch - 1e-9)));
    steps = std::min(steps.value_or(of_epochs), of_epochs);
  }
  return steps;
}

Program compile(const Session& session, const Graph& graph) {
  const TrainOptions& train = session.config.train;
  return partition(graph, session.layouts,
                   {.keep_gathered = train.keep_gathered, .gather_ahead = train.gather_ahead});
}

ExecutorOptions executor_options(const Session& session) {
  ExecutorOptions options;
  options.threads = thread_count(session.config);
  options.seed = static_cast<uint64_t>(session.config.run.seed);
  options.check_replicas = session.config.run.check_replicas;
  return options;
}

void check_memory(const std::vector<const Program*>& programs, bool replicate) {
  int64_t needed = 0;
  for (const Program* program : programs) needed += plan_memory(*program, replicate).process_bytes;
  const int64_t available = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  if (available <= 0 || needed <= available) return;
  const auto gib = [](int64_t bytes) { return static_cast<double>(bytes) / (int64_t{1} << 30); };
  throw Error(ErrorKind::kMemory,
              fmt::format("the run needs {:.1f} GiB in this process, and the machine has {:.1f} GiB",
                          gib(needed), gib(available)),
              "a smaller `train.batch_size`, more `train.microbatches`, or `train.recompute`");
}

}  // namespace mtf
