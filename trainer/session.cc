#include "trainer/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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
  const auto options =
      config::parse<ModelOptions>(session.config.model, diagnostics, "model", {}, &configuration_keys);
  std::unique_ptr<Model> model = make_model(options, diagnostics);
  session.outputs = {"logits"};
  if (const auto* regression = std::get_if<RegressionOptions>(&options))
    session.outputs.push_back(regression->target.text);
  const bool sound = diagnostics.errors().size() == errors && session.config.model.is_complete();
  if (sound) session.model = std::move(model);
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
        // What is wrong or odd with the layout of the training step is so here too: said once.
        if (diagnostics.has_errors()) return;
        Diagnostics of_evaluation;
        check_layouts(*graph, session.layouts, of_evaluation);
        for (const Problem& problem : of_evaluation.errors()) diagnostics.add(problem);
      },
      diagnostics);
  return graph;
}

std::optional<int64_t> planned_steps(const Session& session, int64_t step, int64_t row) {
  std::optional<int64_t> steps = session.config.train.steps;
  if (session.config.train.epochs && session.train_data) {
    const int64_t batch = train_batch_size(session.config, session.layouts);
    const int64_t left = std::max<int64_t>(0, rows_of_epochs(session) - row);
    const int64_t of_epochs = step + (left + batch - 1) / batch;
    steps = std::min(steps.value_or(of_epochs), of_epochs);
  }
  return steps;
}

int64_t rows_of_epochs(const Session& session) {
  const auto examples = static_cast<double>(session.train_data->examples());
  return std::max<int64_t>(1, std::llround(std::ceil(*session.config.train.epochs * examples - 1e-9)));
}

Program compile(const Session& session, const Graph& graph) {
  return compile(session, graph, session.layouts);
}

Program compile(const Session& session, const Graph& graph, const Layouts& layouts) {
  const TrainOptions& train = session.config.train;
  return partition(graph, layouts,
                   {.keep_gathered = train.keep_gathered, .gather_ahead = train.gather_ahead});
}

ExecutorOptions executor_options(const Session& session) {
  ExecutorOptions options;
  options.threads = thread_count(session.config);
  options.seed = static_cast<uint64_t>(session.config.run.seed);
  options.check_replicas = session.config.run.check_replicas;
  return options;
}

}  // namespace mtf
