#include "trainer/config/config_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "data/sources/held_out.h"
#include "engine/base/nearest.h"
#include "trainer/config/config.h"
#include "trainer/config/config_mesh.h"
#include "trainer/config/devices.h"
#include "trainer/optimizer/patterns.h"

namespace mtf {
namespace {

using config::Node;

/// "2 or 4": the divisors of `n` next to `wanted`, which is none.
std::string nearest_divisors(int64_t n, int64_t wanted) {
  constexpr int64_t kTried = 1'000'000;
  int64_t below = std::min(wanted, n), above = wanted;
  while (n % below != 0 && wanted - below < kTried) --below;
  while (above < n && n % above != 0 && above - wanted < kTried) ++above;
  return above > n || n % above != 0 ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

/// The names of the keys in a section of the configuration; empty: those at the top.
std::vector<std::string> names_in(std::string_view section) {
  std::vector<std::string> names;
  for (const config::KnownKey& known : configuration_keys()) {
    std::string_view path = known.path;
    if (!section.empty()) {
      if (path == section || !is_below(path, section)) continue;
      path.remove_prefix(section.size() + 1);
    }
    names.emplace_back(path.substr(0, path.find('.')));
  }
  return names;
}

/// The sections in which nothing is wrong. In the others values that are wrong have their defaults, which say
/// nothing about what fits together.
class SoundSections {
 public:
  explicit SoundSections(const Node& root) {
    Config scratch;
    config::Visitor visitor;
    describe(visitor, scratch);
    for (const config::Field& field : visitor.fields()) {
      Diagnostics diagnostics;
      const config::Entry* entry = root.entry(field.name);
      if (entry && field.type && !entry->value.is_null())
        field.type->parse(entry->value, field.value, {diagnostics, field.name, {}});
      const bool known = entry ? entry->value.is_complete() : !root.incomplete();
      if (known && !diagnostics.has_errors()) names_.insert(field.name);
    }
  }

  void remove(std::string_view section) { names_.erase(std::string(section)); }
  bool contains(std::initializer_list<std::string_view> sections) const {
    return std::ranges::all_of(sections, [this](std::string_view name) { return names_.contains(name); });
  }

 private:
  std::set<std::string, std::less<>> names_;
};

class ConfigCheck {
 public:
  /// Sections that turn out to be wrong go from `sound`.
  ConfigCheck(const Config& config, SoundSections& sound, Diagnostics& diagnostics)
      : config_(config), sound_(sound), diagnostics_(diagnostics) {}

  void run() {
    if (config_.run.mode == RunMode::kCalibrate) {  // it has no model, no data and no mesh
      if (sound_.contains({"cluster"})) check_cluster(cluster_options(config_), diagnostics_);
      return;
    }
    if (sound_.contains({"train", "run"})) check_limits();
    if (sound_.contains({"run"})) check_allowed_changes();
    if (sound_.contains({"evaluate"})) check_size("evaluate.batch_size", config_.evaluate.batch_size);
    if (sound_.contains({"train", "run", "optimizer", "learning_rate"})) check_learning_rate();
    if (sound_.contains({"mesh", "devices"})) check_mesh();
    if (sound_.contains({"mesh", "layout", "parameter_layout", "optimizer_layout"})) check_found_mesh();
    if (sound_.contains({"layout", "placement", "train"})) check_pipeline();
    if (sound_.contains({"data"})) check_sources();
    if (sound_.contains({"data", "evaluate"})) check_held_out();
    if (sound_.contains({"run", "trace"})) check_trace();
    if (sound_.contains({"run", "train"})) check_bench();
    if (sound_.contains({"run", "data"})) check_show();
    if (sound_.contains({"run", "checkpoint", "distill", "preference"})) check_preference();
    if (sound_.contains({"cluster"})) check_cluster(cluster_options(config_), diagnostics_);
    if (sound_.contains({"cluster", "train"})) check_strategy(config_, diagnostics_);
    if (sound_.contains({"cluster", "devices"})) check_collectives();
    if (sound_.contains({"precision", "devices"})) check_inference();
    check_patterns("train.trainable", config_.train.trainable);
    check_patterns("trace.tensors", config_.trace.tensors);
    check_patterns("optimizer.no_decay", config_.optimizer->no_decay);
    for (size_t i = 0; i < config_.optimizer->rules.size(); ++i)
      check_patterns(fmt::format("optimizer.rules.{}.match", i), config_.optimizer->rules[i].match);
    check_recompute();
    check_patterns("checkpoint.init.include", config_.checkpoint.init.include);
    check_patterns("checkpoint.init.exclude", config_.checkpoint.init.exclude);
    for (const auto& [pattern, replacement] : config_.checkpoint.init.rename)
      check_pattern("checkpoint.init.rename", "checkpoint.init.rename", pattern);
    if (config_.model.is_null() && sound_.contains({"model"}))
      error("model", "`model` is missing", "a map with `type` and `layers`");
  }

 private:
  void error(std::string_view path, std::string message, std::string hint = {}) {
    diagnostics_.error(config_.mark(path), std::move(message), std::move(hint));
  }

  /// `key` names a list of patterns.
  void check_patterns(const std::string& key, const std::vector<std::string>& patterns) {
    for (size_t i = 0; i < patterns.size(); ++i)
      check_pattern(key, fmt::format("{}.{}", key, i), patterns[i]);
  }

  /// `path` is the place of one of the patterns of `key`.
  void check_pattern(const std::string& key, const std::string& path, const std::string& pattern) {
    const std::string problem = pattern_problem(key, pattern);
    if (problem.empty()) return;
    error(path, problem);
    sound_.remove(key.substr(0, key.find('.')));
  }

  /// Entries with a `/` are patterns.
  void check_recompute() {
    const char* key = "train.recompute";
    const Recompute& recompute = config_.train.recompute;
    if (is_auto(recompute)) check_automatic(key);
    if (const auto* layers = std::get_if<std::vector<std::string>>(&recompute)) {
      for (size_t i = 0; i < layers->size(); ++i) {
        if ((*layers)[i].find('/') != std::string::npos)
          check_pattern(key, fmt::format("{}.{}", key, i), (*layers)[i]);
      }
    } else if (const auto* numbers = std::get_if<config::Named<int64_t>>(&recompute)) {
      for (const auto& [layer, number] : *numbers) {
        if (layer.find('/') != std::string::npos) check_pattern(key, fmt::format("{}.{}", key, layer), layer);
      }
    }
  }

  /// More examples than any memory holds would overflow products with it.
  template <class Size>
  void check_size(std::string_view key, const Size& size) {
    constexpr int64_t kLargestBatch = int64_t{1} << 40;
    const auto* number = std::get_if<int64_t>(&size);
    if (!number || *number <= kLargestBatch) return;
    error(key, fmt::format("`{}` cannot be as large as {}", key, *number));
    sound_.remove(key.substr(0, key.find('.')));
  }

  void check_limits() {
    const TrainOptions& train = config_.train;
    if (config_.run.mode == RunMode::kTrain && !train.steps && !train.epochs && !train.time) {
      error("train.steps", "nothing says when training ends",
            "`train.steps`, `train.epochs` or `train.time`");
    }
    check_size("train.batch_size", train.batch_size);
    if (const auto* relative = std::get_if<RelativeBatchSize>(&train.batch_size)) {
      check_size("train.batch_size.per_replica", BatchSize(relative->per_replica.value_or(1)));
      if (relative->all_tokens()) check_tokens(*relative);
    }
    const std::optional<int64_t>& parts = train.microbatches.value;
    if (train.noise_scale_decay) check_noise_scale();
    if (!parts) return check_automatic("train.microbatches");
    if (const auto* batch = std::get_if<int64_t>(&train.batch_size); batch && *batch % *parts != 0) {
      error("train.microbatches",
            fmt::format("`train.microbatches` ({}) does not divide `train.batch_size` ({})", *parts, *batch),
            "it could be " + nearest_divisors(*batch, *parts));
      sound_.remove("train");
    }
  }

  void check_noise_scale() {
    const char* key = "train.noise_scale_decay";
    if (config_.train.microbatches.value.value_or(1) == 1) {
      error(key, fmt::format("`{}` compares the gradients of microbatches", key),
            "a number above 1 as `train.microbatches`, such as 4");
    } else if (std::holds_alternative<ParameterServerStrategy>(config_.train.strategy)) {
      error(key, fmt::format("`{}` does not go with `train.strategy: parameter_server`", key));
    }
  }

  /// `key` is auto, which the plan of the memory decides.
  void check_automatic(const std::string& key) {
    const bool is_number = key == "train.microbatches";
    if (config_.run.mode == RunMode::kTrace) {
      error(key, fmt::format("`{}: auto` needs a plan of the memory, and run.mode=trace makes none", key),
            is_number ? "a number, such as `train.microbatches=1`"
                      : "`train.recompute=none`, with the same results");
    } else if (std::holds_alternative<ParameterServerStrategy>(config_.train.strategy)) {
      error(key, fmt::format("`{}: auto` does not go with `train.strategy: parameter_server`", key),
            is_number ? "a number" : "`none`, `block` or a list of layers");
    }
  }

  /// The first two names of each key are known; what stands below may be of a type that is not chosen now.
  void check_allowed_changes() {
    const std::vector<std::string>& allowed = config_.run.allow_change;
    for (size_t i = 0; i < allowed.size(); ++i) {
      const size_t dot = allowed[i].find('.');
      const std::string top = allowed[i].substr(0, dot);
      const std::string name =
          dot == std::string::npos ? "" : allowed[i].substr(dot + 1, allowed[i].find('.', dot + 1) - dot - 1);
      const std::vector<std::string> tops = names_in(""), below = names_in(top);
      const bool known = std::ranges::find(tops, top) != tops.end();
      const bool any_below = below.empty() || name.empty() || name == "type" || config::to_integer(name);
      if (known && (any_below || std::ranges::find(below, name) != below.end())) continue;
      const std::string key = known ? top + "." + name : top;
      error(fmt::format("run.allow_change.{}", i),
            fmt::format("`run.allow_change`: there is no key `{}`", key),
            config::hint_for_unknown_key(key, known ? below : tops, configuration_keys()));
    }
  }

  void check_tokens(const RelativeBatchSize& batch) {
    const std::string key = batch.tokens ? "train.batch_size.tokens" : "train.batch_size.tokens_per_replica";
    check_size(key, BatchSize(*batch.all_tokens()));
    if (!sound_.contains({"data"})) return;
    if (!config_.data.sequence_length) {
      error(key, fmt::format("`{}` needs `data.sequence_length`, which says how many tokens a row has", key),
            "`train.batch_size: 64`, in examples, does without");
      sound_.remove("train");
    } else if (const int64_t length = longest_row(config_); *batch.all_tokens() % length != 0) {
      error(key,
            fmt::format("`{}` ({}) is not a whole number of rows of {} tokens (`data.sequence_length`)", key,
                        *batch.all_tokens(), length),
            nearest_multiples(length, *batch.all_tokens()));
      sound_.remove("train");
    }
  }

  void check_learning_rate() {
    if (config_.learning_rate.empty() && !config_.optimizer->own_learning_rate(0)) {
      error("optimizer", fmt::format("`{}` needs a `learning_rate`", config_.optimizer.type()),
            "for example `learning_rate: 0.001`; adafactor alone has one of its own");
    }
    const TrainOptions& train = config_.train;
    if (config_.run.mode != RunMode::kTrain || train.steps || train.epochs) return;
    check_needs_no_total("learning_rate", config_.learning_rate);
    for (size_t i = 0; i < config_.optimizer->rules.size(); ++i) {
      check_needs_no_total(fmt::format("optimizer.rules.{}.learning_rate", i),
                           config_.optimizer->rules[i].learning_rate);
    }
  }

  void check_needs_no_total(const std::string& key, const std::vector<Schedule>& schedules) {
    if (needs_total(schedules)) {
      error(key, "the schedule depends on the length of the run, which `train.time` does not give in steps",
            "`total_steps` in the schedule, or `train.steps`");
    }
  }

  /// Rules cannot name the dimensions of a mesh that is still to be found.
  void check_found_mesh() {
    if (!config_.mesh || !config_.mesh->is_auto) return;
    for (const auto& [section, layout] :
         {std::pair("layout", &config_.layout), std::pair("parameter_layout", &config_.parameter_layout),
          std::pair("optimizer_layout", &config_.optimizer_layout)}) {
      if (layout->empty()) continue;
      error(section,
            fmt::format("`{}` has rules over dimensions of the mesh, which `mesh: auto` is still to find",
                        section),
            "names and sizes in `mesh`, or no rules");
    }
    if (!config_.layout.is_auto)
      error("mesh", "`mesh: auto` is found together with the layout", "`layout: auto` beside it");
  }

  /// What goes with the stages of a pipeline.
  void check_pipeline() {
    const bool has_rule = config_.layout.find(kLayers) != nullptr;
    if (!has_rule && config_.placement.empty()) return;
    const std::string key = has_rule ? fmt::format("layout.{}", kLayers) : "placement";
    if (searches_layout(config_) && !has_rule)
      error(key, "`auto` does not look for layouts with a `placement`",
            "`layout: {layers: stages, auto: true}`, or rules without `auto`");
    if (parameter_servers(config_) != nullptr)
      error(key, "the stages of a pipeline do not go with `train.strategy: parameter_server`",
            "`train.strategy: all_reduce`");
  }

  void check_mesh() {
    try {
      resolve_mesh(config_);
    } catch (const Error& wrong) {
      diagnostics_.add(wrong);
      sound_.remove("mesh");
    }
  }

  void check_sources() {
    const RunMode mode = config_.run.mode;
    const bool reads_others =
        mode == RunMode::kInfer || mode == RunMode::kScore || mode == RunMode::kEvaluate;
    if (!config_.data.train && !reads_others) {
      error("data", "`data.train` is missing",
            "a map with `type`, for example idx with `images` and `labels`");
    }
  }

  /// Data sets of type `split` are named in `data.split`, and no others are.
  void check_held_out() {
    std::vector<std::string> names;
    for (const auto& [name, share] : config_.data.split) names.push_back(name);
    for (const auto& [name, dataset] : config_.evaluate.datasets) {
      const bool is_held_out = dataset.choice.type() == kHeldOut,
                 is_named = config_.data.split.find(name) != nullptr;
      if (is_held_out && !is_named)
        error("evaluate.datasets." + name, fmt::format("`data.split` has no part `{}`", name),
              names.empty() ? fmt::format("`data.split: {{{}: 0.1}}`", name) : did_you_mean(name, names));
      if (!is_held_out && is_named)
        error("evaluate.datasets." + name,
              fmt::format("`{}` is a part of `data.split` and a source of type {}", name,
                          dataset.choice.type()),
              "`type: split`, or another name");
    }
  }

  void check_inference() {
    if (config_.precision.infer != InferPrecision::kInt8 || !names_gpus(config_)) return;
    error("precision.infer", "`precision.infer: int8` is for processors, and `devices` names a GPU",
          "`bfloat16`, or `devices: cpu`");
  }

  void check_collectives() {
    if (config_.cluster.collectives != Collectives::kNccl || names_gpus(config_)) return;
    error("cluster.collectives", "`cluster.collectives: nccl` goes from GPU to GPU, and `devices` names none",
          "`gloo`, or `devices: cuda`");
  }

  void check_trace() {
    if (config_.run.mode != RunMode::kTrace) return;
    if (config_.trace.input.empty()) error("trace", "`trace.input` is missing", "a safetensors file");
    if (config_.trace.output.empty()) error("trace", "`trace.output` is missing", "a safetensors file");
  }

  void check_bench() {
    if (config_.run.mode != RunMode::kBench ||
        !std::holds_alternative<ParameterServerStrategy>(config_.train.strategy))
      return;
    error("train.strategy", "run.mode=bench measures steps without parameter servers",
          "`train.strategy=all_reduce`; a run with servers says in its log how long steps take");
  }

  void check_show() {
    if (config_.run.mode != RunMode::kShow || !config_.data.train || !has_texts(*config_.data.train)) return;
    error("data.train", "run.mode=show: there are no images to show, for data.train are texts",
          "a source of images, such as idx, cifar or images");
  }

  /// What `preference` compares with.
  void check_preference() {
    if (!config_.preference) return;
    if (config_.distill) error("preference", "`preference` and `distill` both make the loss", "one of them");
    const RunMode mode = config_.run.mode;
    if (!has_training_step(mode) && mode != RunMode::kEvaluate) return;
    if (!config_.preference->teacher.checkpoint.empty()) return;
    if (config_.checkpoint.init.path.empty())
      error(
          "preference", "`preference` has no reference model",
          "`checkpoint.init` with the trained model from which this one starts, or `preference.checkpoint`");
    if (config_.checkpoint.init.raw)
      error("checkpoint.init.raw",
            "`raw` weights are not those of the reference model, which takes running means where it has them",
            "`preference.checkpoint`, or no `raw`");
  }

  const Config& config_;
  SoundSections& sound_;
  Diagnostics& diagnostics_;
};

/// Takes what stands in sections with mistakes out of the configuration, so that building the model reports
/// only what is wrong for certain.
void forget_unsound(Config& config, const SoundSections& sound) {
  if (!sound.contains({"mesh", "devices", "layout", "parameter_layout", "optimizer_layout"})) {
    config.mesh.reset();
    config.devices = {"cpu"};
    config.layout = config.parameter_layout = config.optimizer_layout = {};
    config.hosts_all = true;
  }
  const RelativeBatchSize smallest{.tokens = {}, .per_replica = 1, .tokens_per_replica = {}};
  if (!sound.contains({"train"})) {
    config.train = {};
    config.train.batch_size = smallest;
  }
  if (!sound.contains({"data"})) {
    config.data.train.reset();
    config.data.sequence_length.reset();
    if (std::holds_alternative<RelativeBatchSize>(config.train.batch_size))
      config.train.batch_size = smallest;
  }
  if (!sound.contains({"optimizer"})) config.optimizer = Optimizer(config.optimizer.type());
  if (!sound.contains({"evaluate"})) config.evaluate = {};
  if (!sound.contains({"model"})) config.model = Node();
}

}  // namespace

void check_config(Config& config, Diagnostics& diagnostics) {
  SoundSections sound(config.root);
  ConfigCheck(config, sound, diagnostics).run();
  forget_unsound(config, sound);
}

}  // namespace mtf
