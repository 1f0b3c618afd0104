#include "trainer/session/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "engine/base/nearest.h"
#include "engine/base/placed_at.h"
#include "engine/base/printable.h"
#include "engine/graph/gradients.h"
#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/concat.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/unary.h"
#include "models/missing_labels.h"
#include "models/token_loss.h"
#include "trainer/optimizer/averages.h"
#include "trainer/optimizer/noise_scale.h"
#include "trainer/optimizer/patterns.h"
#include "trainer/session/model_inputs.h"

namespace mtf {
namespace {

std::map<std::string, Tensor> add_scalars(Graph& graph, const std::vector<StepScalar>& scalars) {
  std::map<std::string, Tensor> inputs;
  for (const StepScalar& scalar : scalars) inputs[scalar.input] = graph.input(scalar.input, {});
  return inputs;
}

/// The loss, the gradients and other results of one batch or microbatch.
struct Pass {
  Tensor loss;
  Tensor tokens;  ///< []: number of predicted tokens with weight; null for models without texts
  std::vector<VariableGradient> gradients;
  Tensor prediction;
  std::optional<Dimension> classes;
  std::vector<LayerTerm> terms;  ///< values: means over the batch
  Tensor squares;                ///< []: sum over the microbatches of the squared norms of their gradients
  std::vector<std::string> batch_statistics = {};
  std::vector<AppliedLayer> layers = {};
};

/// The factor of a loss that layers add.
double loss_weight(const TrainStepOptions& options, const std::string& name) {
  const double* weight = options.loss_weights.find(name);
  return weight ? *weight : 1;
}

/// Each factor must be that of a loss that some layer adds.
void check_loss_weights(const std::vector<LayerTerm>& terms, const TrainStepOptions& options) {
  std::vector<std::string> names;
  for (const LayerTerm& term : terms) {
    if (term.kind == LayerTerm::Kind::kLoss) names.push_back(term.name);
  }
  for (const auto& [name, weight] : options.loss_weights) {
    if (std::ranges::find(names, name) != names.end()) continue;
    throw Error(ErrorKind::kConfig, options.loss_weights_mark,
                fmt::format("`train.loss_weights`: no layer adds a loss `{}`", name),
                names.empty() ? "the layers of this model add none" : did_you_mean(name, names));
  }
}

std::vector<RecomputedLayers> recomputed_layers(const Recompute& recompute) {
  std::vector<RecomputedLayers> result;
  if (const auto* layers = std::get_if<std::vector<std::string>>(&recompute)) {
    for (const std::string& layer : *layers) result.push_back({layer});
  } else if (const auto* numbers = std::get_if<config::Named<int64_t>>(&recompute)) {
    for (const auto& [layer, number] : *numbers) result.push_back({layer, number});
  } else if (std::get<RecomputeWord>(recompute) == RecomputeWord::kBlock) {
    result = {{"block"}, {"residual"}};
  }
  return result;
}

void check_patterns(const Graph& graph, const TrainStepOptions& options) {
  std::vector<std::string> names;
  for (const auto& variable : graph.variables()) {
    if (variable->kind != Variable::Kind::kConstant) names.push_back(variable->name);
  }
  if (names.empty()) return;
  check_patterns_occur("train.trainable", options.trainable, names, options.trainable_mark);
  for (const OptimizerRule& rule : options.rules)
    check_patterns_occur("optimizer.rules", rule.match, names, options.rules_mark);
}

bool is_trained(const std::string& variable, const std::vector<std::string>& trainable,
                const std::vector<OptimizerRule>& rules) {
  return matches_any(variable, trainable) && !settings_of(variable, rules).frozen;
}
bool is_trained(const std::string& variable, const TrainStepOptions& options) {
  return is_trained(variable, options.trainable, options.rules);
}

/// True if steps move the statistic: train.trainable names it or a weight of its layer, and no rule freezes it.
bool is_moved(const Graph& graph, const std::string& statistic, const TrainStepOptions& options) {
  if (settings_of(statistic, options.rules).frozen) return false;
  if (matches_any(statistic, options.trainable)) return true;
  const std::string scope = statistic.substr(0, statistic.rfind('/') + 1);
  return std::ranges::any_of(graph.variables(), [&](const auto& variable) {
    const std::string& name = variable->name;
    return variable->trainable() && name.starts_with(scope) && name.rfind('/') + 1 == scope.size() &&
           is_trained(name, options);
  });
}

/// Returns what layers can be called by, each once: first their kinds and names, then their paths.
std::vector<std::string> words_for_layers(const Context& context) {
  std::vector<std::string> words;
  const auto add = [&](const std::string& word) {
    if (std::ranges::find(words, word) == words.end()) words.push_back(word);
  };
  for (const AppliedLayer& applied : context.applied_layers()) std::ranges::for_each(applied.names, add);
  for (const AppliedLayer& applied : context.applied_layers()) add(applied.path);
  return words;
}

/// Throws Error unless the model has the layers that `train.recompute` names.
void check_recomputed(const Context& context, const std::vector<RecomputedLayers>& layers, const Mark& mark) {
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto& [layer, first] = layers[i];
    const int64_t found = context.found_recomputed()[i];
    if (found == 0) {
      throw Error(ErrorKind::kConfig, mark,
                  fmt::format("`train.recompute` names `{}`, but the model has no such layer", layer),
                  did_you_mean(layer, words_for_layers(context)));
    }
    if (first && *first > found) {
      throw Error(ErrorKind::kConfig, mark,
                  fmt::format("`train.recompute` wants {} of the layers `{}`, and the model has {}", *first,
                              layer, found),
                  fmt::format("a number up to {}", found));
    }
  }
}

/// What every microbatch of a step has in common.
struct StepInputs {
  const std::vector<Feature>& features;
  std::map<std::string, Tensor>
      scalars;  ///< those of the model, and kNumberOfLabels where labels have weights
};

/// Adds the sum of the weights of the labels of the whole batch, of which each microbatch gets an equal share: its loss, which is
/// divided by this, is then a part of the mean over all labels.
void add_number_of_labels(const Model& model, const Features& batch, int64_t microbatches,
                          std::map<std::string, Tensor>& scalars) {
  if (!model.labels_have_weights()) return;
  const auto labels = batch.find(std::string(model.labels_feature()));
  if (labels == batch.end()) return;  // the model's own message says what is missing
  const Tensor number = sum_of_weights(model.label_weights(labels->second));
  scalars[std::string(kNumberOfLabels)] =
      microbatches == 1 ? number : scalar_multiply(number, 1.0 / static_cast<double>(microbatches));
}

/// Builds the forward and backward pass.
Pass forward_and_backward(Graph& graph, const Model& model, const Features& features,
                          const StepInputs& inputs, int64_t batch_size, const TrainStepOptions& options) {
  Context context(graph, Mode::kTrain, options.precision, {std::string(kBatch), batch_size});
  describe_features(inputs.features, context);
  context.set_scalars(inputs.scalars);
  context.set_expert_parts(options.expert_parts);
  context.set_moved([&](const std::string& statistic) { return is_moved(graph, statistic, options); });
  const std::vector<RecomputedLayers> recomputed = recomputed_layers(options.recompute);
  context.set_recompute(recomputed);
  context.set_loss_chunks(options.keep_prediction ? 1 : options.loss_chunks);
  ModelOutput output;
  try {
    output = model.build(context, features);
  } catch (const LossChunksError& error) {
    throw placed_at(error, options.loss_chunks_mark);
  }
  if (context.loss_chunks() > 1 && output.logits) {
    throw Error(ErrorKind::kConfig, options.loss_chunks_mark,
                "`train.loss_chunks` is for models that predict tokens, which have a loss for each of them",
                "`train.loss_chunks: 1`");
  }
  if (!std::holds_alternative<RecomputeWord>(options.recompute))
    check_recomputed(context, recomputed, options.recompute_mark);
  check_patterns(graph, options);
  check_loss_weights(context.terms(), options);
  Pass pass{output.loss, {}, {}, output.logits, output.classes, std::move(context.terms()), {}};
  pass.batch_statistics = context.batch_statistics();
  pass.layers = context.applied_layers();
  for (const LayerTerm& term : pass.terms) {
    if (term.kind != LayerTerm::Kind::kLoss) continue;
    const double weight = loss_weight(options, term.name);
    pass.loss = add(pass.loss, weight == 1 ? term.value : scalar_multiply(term.value, weight));
  }
  if (output.tokens && (options.update || options.keep_tokens))
    pass.tokens = reduce_sum(output.tokens, Shape{});
  if (options.microbatches > 1) {
    const double part = 1.0 / static_cast<double>(options.microbatches);
    pass.loss = scalar_multiply(pass.loss, part);
    for (LayerTerm& term : pass.terms) term.value = scalar_multiply(term.value, part);
  }
  Tensors weights;
  for (const auto& variable : graph.variables()) {
    if (!variable->trainable() || !is_trained(variable->name, options)) continue;
    pass.gradients.push_back({variable.get(), {}});
    weights.push_back(graph.read(*variable));
  }
  if (weights.empty() && options.update) {
    throw Error(ErrorKind::kConfig, options.trainable_mark,
                "there is nothing to train: `train.trainable` and `optimizer.rules` leave no variable",
                "`train.trainable` has the patterns of variables");
  }
  const Tensors gradients_of_weights = gradients({pass.loss}, weights);
  for (size_t i = 0; i < weights.size(); ++i) pass.gradients[i].gradient = gradients_of_weights[i];
  return pass;
}

std::vector<std::string> without_gradient(const std::vector<VariableGradient>& gradients) {
  std::vector<std::string> names;
  for (const VariableGradient& g : gradients) {
    if (!g.gradient) names.push_back(g.variable->name);
  }
  return names;
}

/// Builds the forward and backward pass as a loop over microbatches.
Pass microbatched(Graph& graph, const Model& model, const Features& features, const StepInputs& inputs,
                  const TrainStepOptions& options) {
  const int64_t count = options.microbatches;
  if (options.batch_size % count != 0) {
    throw Error(ErrorKind::kConfig, options.microbatches_mark,
                fmt::format("{} examples cannot be cut into {} microbatches", options.batch_size, count),
                "`train.microbatches` must divide the batch");
  }
  Pass pass;
  const auto build = [&](const Tensors&) -> LoopResult {
    Features part;
    for (const auto& [name, tensor] : features) part[name] = microbatch_slice(tensor);
    pass = forward_and_backward(graph, model, part, inputs, options.batch_size / count, options);
    if (const auto names = without_gradient(pass.gradients); !names.empty()) {
      throw Error(
          ErrorKind::kConfig,
          fmt::format("under microbatching every variable needs a gradient; the loss does not depend on {}",
                      fmt::join(names, ", ")),
          "remove the layers that do not reach the loss, or leave them out of `train.trainable`");
    }
    LoopResult result;
    result.sums.push_back(pass.loss);
    for (const VariableGradient& g : pass.gradients) result.sums.push_back(g.gradient);
    if (pass.tokens) result.sums.push_back(pass.tokens);
    for (const LayerTerm& term : pass.terms) result.sums.push_back(term.value);
    if (options.noise_scale_decay) result.sums.push_back(add_n(gradient_squares(graph, pass.gradients)));
    if (options.keep_prediction) result.placed.push_back(pass.prediction);
    return result;
  };
  const Tensors results = repeat(graph, count, {}, {std::string(kBatch), count}, build, Domain::kParameter);
  size_t next = 0;
  pass.loss = results[next++];
  for (VariableGradient& g : pass.gradients) g.gradient = results[next++];
  if (pass.tokens) pass.tokens = results[next++];
  for (LayerTerm& term : pass.terms) term.value = results[next++];
  if (options.noise_scale_decay) pass.squares = results[next++];
  if (options.keep_prediction) pass.prediction = results[next++];
  return pass;
}

/// Returns the forward tensors outside loops by name: scope path, operation and, from the second one of the
/// same name on, a number.
std::vector<std::pair<std::string, Tensor>> named_tensors(const Graph& graph) {
  std::vector<std::pair<std::string, Tensor>> result;
  std::map<std::string, int> seen;
  for (const auto& operation : graph.root()) {
    const Provenance& from = operation->provenance();
    if (from.phase != Phase::kForward || operation->outputs().empty()) continue;
    std::string name = from.path().empty() ? std::string(operation->name())
                                           : fmt::format("{}/{}", from.path(), operation->name());
    if (const int count = seen[name]++; count > 0) name += fmt::format("_{}", count);
    for (size_t i = 0; i < operation->outputs().size(); ++i) {
      result.emplace_back(i == 0 ? name : fmt::format("{}:{}", name, i),
                          operation->output(static_cast<int>(i)));
    }
  }
  return result;
}

void keep_tensors(Graph& graph, const std::vector<std::string>& patterns) {
  if (patterns.empty()) return;
  for (const auto& [name, tensor] : named_tensors(graph)) {
    if (matches_any(name, patterns)) graph.set_output("tensor/" + name, tensor);
  }
}

void add_square_outputs(Graph& graph, const Pass& pass) {
  const Tensors squares = gradient_squares(graph, pass.gradients);
  for (size_t i = 0; i < squares.size(); ++i) graph.set_output(fmt::format("square/{}", i), squares[i]);
}

/// The values of the terms of one kind, by name.
std::map<std::string, Tensors> values_by_name(const std::vector<LayerTerm>& terms, LayerTerm::Kind kind) {
  std::map<std::string, Tensors> values;
  for (const LayerTerm& term : terms) {
    if (term.kind == kind) values[term.name].push_back(term.value);
  }
  return values;
}

Tensor mean_of(const Tensors& values) {
  if (values.size() == 1) return values[0];
  return scalar_multiply(add_n(values), 1.0 / static_cast<double>(values.size()));
}

/// Lists that layers report, by name and length.
using ReportedLists = std::map<std::string, std::map<int64_t, Tensors>>;

/// The outputs report/NAME [layers, entries] of lists; report/NAME/ENTRIES where layers report lists of different lengths.
void add_list_outputs(Graph& graph, const ReportedLists& lists) {
  for (const auto& [name, by_length] : lists) {
    for (const auto& [length, values] : by_length) {
      Tensors rows;
      for (const Tensor& value : values)
        rows.push_back(reshape(value, {{"_layers", 1}, {"_entries", length}}));
      graph.set_output(by_length.size() == 1 ? "report/" + name : fmt::format("report/{}/{}", name, length),
                       rows.size() == 1 ? rows[0] : concat(rows, "_layers"));
    }
  }
}

/// The outputs loss/NAME, summed over the layers, and report/NAME, the means over them.
void add_term_outputs(Graph& graph, const std::vector<LayerTerm>& terms) {
  for (const auto& [name, values] : values_by_name(terms, LayerTerm::Kind::kLoss))
    graph.set_output("loss/" + name, values.size() == 1 ? values[0] : add_n(values));
  std::map<std::string, Tensors> reports;
  ReportedLists lists;
  for (const LayerTerm& term : terms) {
    if (term.kind != LayerTerm::Kind::kReport) continue;
    if (!term.numbers) {
      reports[term.name].push_back(term.value);
      continue;
    }
    const auto scope = graph.scope(term.name);
    for (const auto& [name, number] : term.numbers(term.value)) {
      Tensors& of_name = number.shape().rank() == 0 ? reports[name] : lists[name][number.shape().size()];
      of_name.push_back(number);
    }
  }
  for (const auto& [name, values] : reports) graph.set_output("report/" + name, mean_of(values));
  add_list_outputs(graph, lists);
}

/// Moves the running statistics where `finite` holds.
void update_statistics(Graph& graph, const std::vector<LayerTerm>& terms, const Tensor& finite) {
  const auto values = values_by_name(terms, LayerTerm::Kind::kStatistic);
  const auto phase = graph.phase(Phase::kUpdate);
  const auto domain = graph.domain(Domain::kParameter);
  std::set<const Variable*> done;
  for (const LayerTerm& term : terms) {
    if (term.kind != LayerTerm::Kind::kStatistic || !done.insert(term.variable).second) continue;
    const auto scope = graph.scope(term.name);
    const Tensor before = graph.read(*term.variable);
    graph.assign(*term.variable, term.updated(before, mean_of(values.at(term.name))), finite);
  }
}

std::vector<std::string> statistics_of(const Graph& graph) {
  std::vector<std::string> names;
  for (const auto& variable : graph.variables()) {
    if (variable->kind == Variable::Kind::kStatistic) names.push_back(variable->name);
  }
  return names;
}

}  // namespace

std::string batch_statistics_text(const std::vector<std::string>& layers) {
  std::string text = fmt::format("the batch statistics of {}", layers.front());
  if (layers.size() > 1)
    text += fmt::format(" and {} more layer{}", layers.size() - 1, layers.size() > 2 ? "s" : "");
  return text;
}

int64_t expert_parts(const Layouts& layouts) {
  return LayoutMap(layouts.mesh, layouts.activation).parts("experts");
}

TrainStepOptions train_step_options(const Config& config, const Layouts& layouts, int64_t total_steps) {
  TrainStepOptions options;
  options.batch_size = train_batch_size(config, layouts);
  options.microbatches = config.train.microbatches.value.value_or(1);
  options.loss_chunks = config.train.loss_chunks;
  options.precision = precision_of(config);
  options.expert_parts = expert_parts(layouts);
  options.trainable = config.train.trainable;
  options.rules = config.optimizer->rules;
  options.noise_scale_decay = config.train.noise_scale_decay;
  options.recompute = config.train.recompute;
  options.loss_weights = config.train.loss_weights;
  options.trainable_mark = config.mark("train.trainable");
  options.rules_mark = config.mark("optimizer.rules");
  options.recompute_mark = config.mark("train.recompute");
  const auto* numbers = std::get_if<config::Named<int64_t>>(&options.recompute);
  if (numbers != nullptr && !numbers->empty())  // these may stand elsewhere than the word that they replace
    options.recompute_mark = config.mark("train.recompute." + numbers->front().first);
  options.microbatches_mark = config.mark("train.microbatches");
  options.loss_chunks_mark = config.mark("train.loss_chunks");
  options.loss_weights_mark = config.mark("train.loss_weights");
  options.update = UpdateOptions{.optimizer = config.optimizer,
                                 .learning_rate = config.learning_rate,
                                 .total_steps = total_steps,
                                 .ema_decay = config.train.ema_decay,
                                 .slot_type = slot_type_of(config),
                                 .slots_on_host = slots_on_host(config)};
  return options;
}

TrainStep build_train_step(const Model& model, const std::vector<Feature>& features,
                           const TrainStepOptions& options) {
  TrainStep step{std::make_unique<Graph>(), {}, {}, {}, {}, {}, {}, {}};
  Graph& graph = *step.graph;
  const Features batch =
      add_inputs(graph, model, model.features(), features, options.batch_size, Mode::kTrain);
  step.scalars = model.scalars();
  StepInputs inputs{features, add_scalars(graph, step.scalars)};
  add_number_of_labels(model, batch, options.microbatches, inputs.scalars);
  const Pass pass = options.microbatches > 1
                        ? microbatched(graph, model, batch, inputs, options)
                        : forward_and_backward(graph, model, batch, inputs, options.batch_size, options);
  step.classes = pass.classes;
  if (const auto names = without_gradient(pass.gradients); !names.empty()) {
    step.warnings.push_back(fmt::format(
        "the loss does not depend on these variables, which keep their values: {}", fmt::join(names, ", ")));
  }
  step.statistics = statistics_of(graph);
  std::vector<std::string> kept = step.statistics;
  std::erase_if(kept, [&](const std::string& name) { return is_moved(graph, name, options); });
  if (!kept.empty()) {
    constexpr size_t kListed = 8;
    step.notes.push_back(fmt::format("these running statistics are not trained and keep their values: {}",
                                     list_names(kept, kListed)));
  }
  step.batch_statistics = pass.batch_statistics;
  step.layers = pass.layers;
  if (options.microbatches > 1 && !step.batch_statistics.empty()) {
    step.notes.push_back(fmt::format("{} are those of a microbatch: of {} examples",
                                     batch_statistics_text(step.batch_statistics),
                                     options.batch_size / options.microbatches));
  }
  graph.set_output("loss", pass.loss);
  add_term_outputs(graph, pass.terms);
  if (options.keep_prediction) graph.set_output("output/logits", cast(pass.prediction, DType::kFloat32));
  keep_tensors(graph, options.keep);
  if (!options.update) {
    for (const VariableGradient& g : pass.gradients) {
      if (g.gradient) graph.set_output("grad/" + g.variable->name, g.gradient);
    }
    if (pass.tokens) graph.set_output("tokens", pass.tokens);
    if (options.keep_squares) add_square_outputs(graph, pass);
    return step;
  }
  Update update = add_update(graph, pass.loss, pass.gradients, *options.update);
  if (pass.squares) {
    UpdateContext context(graph, update.finite, update.scalars);
    const GradientSquares squares{pass.squares, update.grad_norm, options.microbatches, options.batch_size};
    graph.set_output("report/gradient_noise_scale",
                     gradient_noise_scale(context, squares, *options.noise_scale_decay));
  }
  update_statistics(graph, pass.terms, update.finite);
  graph.set_output("grad_norm", update.grad_norm);
  graph.set_output("finite", update.finite);
  if (pass.tokens) graph.set_output("tokens", pass.tokens);
  step.scalars.insert(step.scalars.end(), update.scalars.begin(), update.scalars.end());
  return step;
}

bool is_trained(const std::string& variable, const Config& config) {
  return is_trained(variable, config.train.trainable, config.optimizer->rules);
}

AverageNames averaged_weights(const Config& config) {
  const RunMode mode = config.run.mode;
  if (!config.train.ema_decay ||
      (mode != RunMode::kTrain && mode != RunMode::kExplain && mode != RunMode::kBench))
    return {};
  return [trainable = config.train.trainable, rules = config.optimizer->rules](const std::string& weight) {
    return is_trained(weight, trainable, rules) ? average_name(weight) : std::string();
  };
}

}  // namespace mtf
