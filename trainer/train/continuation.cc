#include "trainer/train/continuation.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/hash.h"
#include "models/model.h"
#include "trainer/session/model_dir.h"

namespace mtf {
namespace {

using config::Change;
using config::Resume;

/// True for dropout rates of the model. They may change, since they affect no variable.
bool is_dropout(std::string_view path) {
  return is_below(path, "model") && path.find(".dropout") != std::string_view::npos;
}

std::string shortened(const std::string& text) {
  constexpr size_t longest = 120;
  return text.size() <= longest ? text : text.substr(0, longest) + " ...";
}

/// Adds the defaults of the options that were left out to both models, where both can be parsed.
void complete_models(Config& before, Config& after) {
  Diagnostics diagnostics;
  const auto old_model = config::parse<ModelChoice>(before.model, diagnostics);
  const auto new_model = config::parse<ModelChoice>(after.model, diagnostics);
  if (diagnostics.has_errors() || old_model.empty() || new_model.empty()) return;
  before.model = config::dump(old_model);
  after.model = config::dump(new_model);
}

class Comparison {
 public:
  Comparison(const Config& config, Diagnostics& diagnostics, Continuation& result)
      : config_(config), diagnostics_(diagnostics), result_(result) {}

  void run(Config before, Config after) {
    compare_block_variables(before.model, after.model);
    complete_models(before, after);
    for (const Change& change : config::changes(before, after)) add(change);
    if (has_other_data_)
      result_.changes.push_back(
          "the examples that the run has seen count in the new data too, and it goes on behind them; a new "
          "`run.model_dir` with `checkpoint.init.path` begins at the first example");
    check_steps(before.train.steps, after.train.steps);
  }

 private:
  void add(const Change& change) {
    if (change.resume == Resume::kFree) return;
    has_other_data_ |= is_below(change.path, "data.train");
    const std::string line = fmt::format("`{}` was {} and is now {}", change.path, shortened(change.before),
                                         shortened(change.after));
    if (change.resume == Resume::kReported || is_dropout(change.path)) {
      result_.changes.push_back(line);
    } else if (allowed(change.path)) {
      result_.changes.push_back(line);
      result_.architecture_changed |= is_below(change.path, "model") || is_below(change.path, "optimizer");
    } else {
      refuse(change.path, line);
    }
  }

  void refuse(const std::string& path, const std::string& line) {
    diagnostics_.error(
        config_.mark(path),
        fmt::format("{}, which a run that continues in {} cannot change", line, config_.run.model_dir.text),
        fmt::format("the old value, `run.model_dir=NEW`, or `run.allow_change: [{}]`", path));
  }

  bool allowed(const std::string& path) const { return is_allowed_change(config_, path); }

  /// Compares YAML variables that only blocks of the model use: the model contains them as `$names`.
  void compare_block_variables(const config::Node& before, const config::Node& after) {
    const config::Node old_values = config::deferred_variables(before);
    const config::Node new_values = config::deferred_variables(after);
    for (const config::Entry& entry : new_values.entries()) {
      const config::Entry* old_value = old_values.entry(entry.key);
      if (!old_value || old_value->value == entry.value) continue;
      add({"vars." + entry.key, config::to_flow_yaml(old_value->value), config::to_flow_yaml(entry.value),
           Resume::kError});
    }
  }

  void check_steps(const std::optional<int64_t>& before, const std::optional<int64_t>& after) {
    if (!before || !after || *after >= *before || allowed("train.steps")) return;
    diagnostics_.error(
        config_.mark("train.steps"),
        fmt::format("`train.steps` was {} in the run that is continued and is now {}", *before, *after),
        "it may only grow, unless `run.allow_change: [train.steps]`");
  }

  const Config& config_;
  Diagnostics& diagnostics_;
  Continuation& result_;
  bool has_other_data_ = false;
};

void compare_patience(const std::optional<PatienceOptions>& before,
                      const std::optional<PatienceOptions>& after, Continuation& result) {
  const std::string old_metric = before ? before->metric : "", new_metric = after ? after->metric : "";
  result.patience_changed = old_metric != new_metric;
  if (result.patience_changed && before && after)
    result.changes.push_back(
        fmt::format("`train.patience.metric` was {} and is now {}, of which no evaluation has counted yet",
                    old_metric, new_metric));
}

/// Returns the configuration of config.yaml, for a checkpoint that does not contain the configuration with
/// which it was trained, or one that this version cannot read.
std::optional<Config> config_in_directory(const Config& config, const Manifest& manifest,
                                          Continuation& result, Diagnostics& diagnostics) {
  const std::string path = in_model_dir(config, "config.yaml"), text = read_text(path);
  Diagnostics of_file;
  Config old = load_resolved(text, path, of_file);
  if (of_file.has_errors()) {
    const Problem& first = of_file.errors().front();
    diagnostics.error(
        first.mark, fmt::format("the configuration of the run to be continued is damaged: {}", first.message),
        "restore the file, or `run.model_dir=NEW`");
    return std::nullopt;
  }
  if (hash128_hex(text) != manifest.config_hash) {
    result.changes.push_back(
        fmt::format("{} has changed since {} was saved, by an older version that did not keep it: of what it "
                    "said then, only `run.seed` can be compared",
                    path, checkpoint_name(manifest.step)));
  }
  old.run.seed = static_cast<int64_t>(manifest.seed);
  return old;
}

/// Returns the configuration with which the checkpoint was trained.
std::optional<Config> old_config(const Config& config, const Manifest& manifest, Continuation& result,
                                 Diagnostics& diagnostics) {
  if (!manifest.config.empty()) {
    Diagnostics of_text;
    Config old = load_resolved(manifest.config, result.checkpoint->path, of_text);
    result.trained_with = manifest.config;
    if (!of_text.has_errors()) return old;
  }
  return config_in_directory(config, manifest, result, diagnostics);
}

}  // namespace

std::optional<Continuation> find_continuation(Config& config, Diagnostics& diagnostics) {
  if (!holds_run(config, diagnostics)) return std::nullopt;
  if (config.run.on_existing == OnExisting::kFail) {
    diagnostics.error(
        config.mark("run.on_existing"),
        fmt::format("{} holds a run already, and `run.on_existing` is fail", config.run.model_dir.text),
        "`run.model_dir=NEW`, or `run.on_existing=resume` to continue it");
    return std::nullopt;
  }
  Continuation result;
  NewestCheckpoint newest = newest_checkpoint(config);
  if (!newest.checkpoint) return result;
  result.checkpoint = newest.checkpoint;
  result.damaged = std::move(newest.damaged);
  const std::optional<Config> old =
      old_config(config, read_manifest(result.checkpoint->path), result, diagnostics);
  if (!old) return result;
  if (!std::holds_alternative<int64_t>(config.train.batch_size))
    config.train.batch_size = old->train.batch_size;
  if (!config.train.microbatches.value) config.train.microbatches = old->train.microbatches;
  if (is_auto(config.train.recompute)) config.train.recompute = old->train.recompute;
  Comparison(config, diagnostics, result).run(*old, resolved(config));
  compare_patience(old->train.patience, config.train.patience, result);
  return result;
}

Continuation older_continuation(Config config) {
  Diagnostics diagnostics;
  std::optional<Continuation> older = find_continuation(config, diagnostics);
  diagnostics.throw_if_errors();
  if (older && older->checkpoint) return std::move(*older);
  throw Error(ErrorKind::kCheckpoint,
              fmt::format("{} holds no checkpoint any more, only damaged ones that were set aside",
                          config.run.model_dir.text),
              "`run.model_dir=NEW`");
}

}  // namespace mtf
