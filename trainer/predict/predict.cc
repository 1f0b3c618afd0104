#include "trainer/predict/predict.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <map>
#include <optional>
#include <utility>

#include "engine/base/counted.h"
#include "engine/base/nearest.h"
#include "engine/base/print_message.h"
#include "engine/base/seconds_since.h"
#include "trainer/decode/chosen_weights.h"
#include "trainer/decode/group_runs.h"
#include "trainer/decode/output.h"
#include "trainer/decode/paired_lines.h"
#include "trainer/memory/memory_check.h"
#include "trainer/memory/need.h"
#include "trainer/predict/line_examples.h"
#include "trainer/predict/prediction_lines.h"
#include "trainer/report/progress.h"
#include "trainer/session/device_notes.h"
#include "trainer/session/evaluation_graph.h"
#include "trainer/session/feed.h"
#include "trainer/session/open_data.h"
#include "trainer/session/same_run.h"
#include "trainer/session/weight_conversions.h"

namespace mtf {
namespace {

std::unique_ptr<Graph> prediction_graph(const Session& session, const std::vector<Feature>& features,
                                        int64_t rows) {
  return build_prediction(*session.model, features, rows,
                          {.precision = precision_of(session.config),
                           .expert_parts = expert_parts(session.layouts),
                           .keep_probabilities = session.config.infer.format == InferFormat::kJsonl,
                           .copies = weight_copy_options(session, session.layouts)});
}

Program prediction_program(const Session& session, const std::vector<Feature>& features, int64_t rows) {
  return compile_checked(session, *prediction_graph(session, features, rows), session.layouts);
}

/// The rows of a batch for `examples` examples: infer.batch_size or fewer, a power of two for each of the parts into which
/// the layout splits them.
int64_t batch_rows(const Session& session, std::optional<int64_t> examples) {
  const int64_t parts = LayoutMap(session.layouts.mesh, session.layouts.activation).parts("batch");
  const auto whole_parts = [parts](int64_t rows) { return (rows + parts - 1) / parts; };
  const int64_t most = whole_parts(session.config.infer.batch_size);
  if (!examples) return parts * most;
  const auto needed = static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(whole_parts(*examples))));
  return parts * std::min(most, needed);
}

/// Reports options of texts that are written, which mean nothing here.
void check_options(const Config& config) {
  const InferOptions& options = config.infer;
  const auto refuse = [&](const char* key, const char* hint) {
    throw Error(ErrorKind::kConfig, config.mark(key),
                fmt::format("`{}` is for models that write texts, and this one does not", key), hint);
  };
  if (!options.prefix.empty()) refuse("infer.prefix", "leave it out");
  if (options.echo) refuse("infer.echo", "leave it out");
  if (options.alignment != AlignmentForm::kNone) refuse("infer.alignment", "leave it out");
  if (options.n_best > 1)
    refuse("infer.n_best", "`infer.format: jsonl`, with the probabilities of all classes");
  if (options.ensemble.together)
    refuse("infer.ensemble", "`infer.checkpoint: {average: N}`, or one checkpoint");
}

/// The examples of infer.input.
struct Input {
  std::shared_ptr<const Source> source;  ///< null: lines
  std::optional<LineExamples> lines;

  const std::vector<Feature>& features() const { return source ? source->features() : lines->features(); }
};

/// What training data of another type have prepared means nothing to the source.
std::shared_ptr<const Source> opened(const Session& session, const SourceChoice& choice, const Mark& mark) {
  SourceContext context = prediction_context(session, mark);
  const SourceChoice* const train = training_source(session.config);
  if (train != nullptr && train->type() != choice.type()) context.preparation.reset();
  return augmented(open_sources(choice, context), augment_settings(session.config, AugmentFor::kEvaluation));
}

/// The source of data.train with the file infer.input in place of its own; nothing where the file has lines.
std::optional<SourceChoice> training_source_of(const Config& config) {
  const std::string& path = config.infer.input.text;
  const SourceChoice* const train = training_source(config);
  if (train == nullptr || is_stream(path)) return std::nullopt;
  SourceChoice choice = *train;
  if (!choice->read_from({path, config.mark("infer.input")})) return std::nullopt;
  return choice;
}

/// What the model predicts for lines tells what they are.
LineKind line_kind(const Session& session) {
  const Config& config = session.config;
  const std::vector<std::string> needed = session.model->features_of_prediction();
  const auto is_of_lines = [](const std::string& name) { return name == "inputs" || name == "answer_mask"; };
  if (const auto other = std::ranges::find_if_not(needed, is_of_lines); other != needed.end()) {
    throw Error(ErrorKind::kConfig, config.mark("infer.input"),
                fmt::format("the model reads the feature `{}`, and lines are texts", *other),
                "a source of data as `infer.input`, such as `{type: images, path: FOLDER}`");
  }
  std::vector<Feature> features = LineExamples(session, LineKind::kTexts).features();
  if (needed.size() > 1) features.push_back({"answer_mask", features.front().shape, DType::kInt32});
  const std::unique_ptr<Graph> graph = prediction_graph(session, features, batch_rows(session, 1));
  const auto prediction =
      std::ranges::find(graph->outputs(), kPredictions, &std::pair<std::string, Tensor>::first);
  if (prediction == graph->outputs().end()) return LineKind::kQuestions;
  const bool each_token =
      prediction->second.dtype() == DType::kInt32 && prediction->second.shape().contains("length");
  return each_token ? LineKind::kWords : LineKind::kTexts;
}

Input open_input(const Session& session) {
  const Config& config = session.config;
  const Mark mark = config.mark("infer.input");
  if (config.infer.input.choice) return {opened(session, *config.infer.input.choice, mark), std::nullopt};
  if (const std::optional<SourceChoice> choice = training_source_of(config))
    return {opened(session, *choice, mark), std::nullopt};
  return {nullptr, LineExamples(session, line_kind(session))};
}

/// Reports features of the model that the source lacks.
void check_features(const Session& session, const std::vector<Feature>& features) {
  std::vector<std::string> names;
  for (const Feature& feature : features) names.push_back(feature.name);
  for (const std::string& name : session.model->features_of_prediction()) {
    if (std::ranges::find(names, name) != names.end()) continue;
    throw Error(ErrorKind::kConfig, session.config.mark("infer.input"),
                fmt::format("the source has no feature `{}`, which the model reads", name),
                did_you_mean(name, names));
  }
}

/// Throws Error (kMemory) with a smaller batch as advice.
void check_memory_of(const Session& session, const std::vector<Feature>& features, const Program& program,
                     int64_t rows) {
  const MemoryUse use = memory_use(session, false, {}, {});
  check_memory(session, memory_need(session, {&program}, use), [&](const MemoryLimits& limits) {
    const int64_t parts = batch_rows(session, 1);
    std::vector<std::string> advice;
    for (int64_t fewer = rows / 2 / parts * parts; fewer > 0 && advice.empty();
         fewer = fewer / 2 / parts * parts) {
      const Program smaller = prediction_program(session, features, fewer);
      if (fits(memory_need(session, {&smaller}, use), limits))
        advice.push_back(fmt::format("`infer.batch_size: {}`", fewer));
    }
    return advice;
  });
}

class Predict {
 public:
  /// `largest` is the program of whole batches.
  Predict(const Session& session, const std::vector<Feature>& features, Program largest,
          VariableStore& weights)
      : session_(session), features_(features), weights_(weights) {
    add(batch_rows(session, std::nullopt), std::move(largest));
  }

  /// Predicts for all of `input`; `lines` are open where it has no source. Process 0 has an `output`, the others null.
  /// `weights` names the weights in the report.
  void run(const Input& input, PairedLines* lines, TextOutput* output, const std::string& weights) {
    const auto start = std::chrono::steady_clock::now();
    written_ = 0;
    if (input.source) {
      predict(input.source, batch_rows(session_, std::nullopt), output);
    } else {
      run_lines(*input.lines, *lines, output);
    }
    const double seconds = seconds_since(start);
    if (output)
      print_message("{}: {} in {}: {} a second\n", weights, counted(written_, "prediction"),
                    duration_text(seconds), with_thousands(static_cast<double>(written_) / seconds));
  }

 private:
  void run_lines(const LineExamples& examples, PairedLines& input, TextOutput* output) {
    const size_t most = static_cast<size_t>(session_.config.infer.batch_size) * kBatchesTogether;
    const std::string& path = session_.config.infer.input.text;
    if (output) prompt_on_terminal(path);
    int64_t first = 0;
    for (LinePairs some = input.take(most); !some.empty(); some = input.take(most)) {
      std::vector<std::string> lines;
      for (LinePair& pair : some) lines.push_back(std::move(pair.first));
      const std::shared_ptr<const Source> source = examples.open(lines, first);
      predict(source, batch_rows(session_, source->examples()), output);
      first += std::ssize(lines);
      if (output) prompt_on_terminal(path);
    }
  }

  void predict(const std::shared_ptr<const Source>& source, int64_t rows, TextOutput* output) {
    Executor& executor = this->executor(rows);
    const InferOptions& options = session_.config.infer;
    const std::unique_ptr<PredictionLines> lines =
        make_prediction_lines(executor.program(), *source,
                              {.format = options.format,
                               .answers = session_.config.evaluate.answers,
                               .preparation = session_.preparation,
                               .first_line = written_,
                               .has_ids = source == session_.train_data},
                              session_.config.mark("infer.input"));
    const auto write = [&](bool all) {
      const std::vector<std::string> some = lines->take(all);
      written_ += std::ssize(some);
      if (!output) return;
      for (const std::string& line : some) output->line(line);
      output->flush();
    };
    const BatchPart part = part_of(executor.program(), hosting_of(session_.config));
    Prefetcher batches(BatchStream(source, EvaluationBatches{.batch_size = rows}, part));
    while (const Batch* batch = batches.next()) {
      feed_batch(executor, *source, *batch);
      executor.run(0);
      const int64_t first = batch->index * rows;
      lines->add(executor, first, std::min(rows, source->examples() - first));
      write(false);
    }
    write(true);
  }

  Executor& executor(int64_t rows) {
    if (!executors_.contains(rows)) add(rows, prediction_program(session_, features_, rows));
    return *executors_.at(rows);
  }
  void add(int64_t rows, Program program) {
    executors_[rows] = std::make_unique<Executor>(std::move(program), *session_.backend, weights_,
                                                  executor_options(session_));
  }

  const Session& session_;
  const std::vector<Feature>& features_;
  VariableStore& weights_;
  std::map<int64_t, std::unique_ptr<Executor>> executors_;  ///< by the rows of a batch
  int64_t written_ = 0;
};

}  // namespace

const SourceChoice* training_source(const Config& config) {
  if (!config.data.train) return nullptr;
  if (const auto* const one = std::get_if<SourceChoice>(&*config.data.train)) return one;
  const auto& named = std::get<NamedSources>(*config.data.train);
  return named.empty() ? nullptr : &named.begin()->second.choice;
}

void predict(Session& session, Diagnostics& diagnostics) {
  diagnostics.throw_if_errors();
  const Config& config = session.config;
  if (session.model->features_of_prediction().empty())
    throw Error(ErrorKind::kConfig, config.mark("model"),
                "this model neither writes texts nor predicts anything for examples without targets",
                "run.mode=evaluate measures it");
  check_options(config);
  const std::vector<WeightGroup> chosen =
      together(choose_weights(config, config.infer.checkpoint, "infer.checkpoint"), {});
  const NamedInput lines{"infer.input", config.infer.input.choice ? "" : config.infer.input.text};
  std::vector<NamedInput> inputs = files_of("infer.input", config.infer.input.choice);
  inputs.push_back(lines);
  check_output_names(config, "infer.output", config.infer.output, chosen, inputs);
  const Input input = open_input(session);
  if (!input.source) check_inputs(config, lines, {}, chosen.size());
  check_features(session, input.features());
  session.train_data = input.source ? input.source : std::make_shared<DeclaredSource>(input.features());
  const int64_t rows = batch_rows(session, std::nullopt);
  const std::unique_ptr<Graph> graph = prediction_graph(session, input.features(), rows);
  Program program = compile_checked(session, *graph, session.layouts);
  const WeightConversions conversions(session, *graph, session.layouts);
  if (input.source) make_prediction_lines(program, *input.source, {}, config.mark("infer.input"));
  check_memory_of(session, input.features(), program, rows);
  NamedExamples examples;
  if (input.source) examples.emplace_back("infer.input", input.source.get());
  check_same_run(session, {&program}, fields_of(session, chosen), examples);
  const DeviceNotes notes(session);
  VariableStore weights(*session.backend, program.mesh, program.variables, variable_store_options(session));
  Predict predicts(session, input.features(), std::move(program), weights);
  std::optional<LineFiles> files;
  if (!input.source) files = LineFiles{config.infer.input.text, {}, {}, config.data.text_limit()};
  const auto load = [&](const WeightGroup& group) {
    load_for_examples(session, "infer.input", [&] {
      load_weights(group.front(), session, conversions, weights, evaluated_weights(config));
    });
  };
  const auto run = [&](const WeightGroup& group, PairedLines* lines, TextOutput* output) {
    predicts.run(input, lines, output, description(group));
  };
  for_each_group(session, chosen, files, config.infer.output, load, run);
}

}  // namespace mtf
