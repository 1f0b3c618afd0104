#include "trainer/checkpoints.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <list>
#include <span>

#include "engine/core/convert.h"
#include "engine/core/fault.h"
#include "engine/core/hash.h"
#include "engine/runtime/slicing.h"
#include "models/model.h"
#include "trainer/model_dir.h"
#include "trainer/optimizer/averages.h"
#include "trainer/vocabulary_check.h"

namespace mtf {
namespace {

/// Data set under which the next row of training is kept.
constexpr const char* kTrainRows = "train";

std::map<std::string, double> numbers_of(const RunState& state, bool kept) {
  std::map<std::string, double> numbers{
      {"seconds", state.seconds},
      {"evaluation_seconds", state.evaluation_seconds},
      {"rate_scale", state.rate_scale},
      {"tokens", static_cast<double>(state.tokens)},
      {"worse_evaluations", static_cast<double>(state.worse_evaluations)},
      {"evaluation_pending", state.evaluation_pending ? 1 : 0},
      {"kept", kept ? 1 : 0},
  };
  if (state.best) numbers["best"] = *state.best;
  return numbers;
}

std::optional<double> number(const std::map<std::string, double>& numbers, const std::string& name) {
  const auto found = numbers.find(name);
  return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

/// `a` is better than `b` in this metric ("DATASET/METRIC").
bool better(const std::string& metric, double a, double b) {
  return greater_is_better(metric.substr(metric.rfind('/') + 1)) ? a > b : a < b;
}

/// The manifest; nothing when it is damaged.
std::optional<Manifest> try_manifest(const SavedCheckpoint& saved) {
  try {
    return read_manifest(saved.path);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The steps that are not removed.
class Kept {
 public:
  explicit Kept(const CheckpointOptions& options) : options_(options) {}

  void choose(const std::vector<SavedCheckpoint>& saved) {
    for (const SavedCheckpoint& checkpoint : saved) add(checkpoint);
    const size_t last = std::min(saved.size(), static_cast<size_t>(options_.keep_last));
    for (size_t i = saved.size() - last; i < saved.size(); ++i) steps_.push_back(saved[i].step);
    if (!options_.keep_best) return;
    const std::vector<SavedValue> values = best_first(saved, options_.keep_best->metric);
    for (size_t i = 0; i < std::min(values.size(), static_cast<size_t>(options_.keep_best->count)); ++i)
      steps_.push_back(values[i].step);
  }
  bool contains(int64_t step) const { return std::ranges::find(steps_, step) != steps_.end(); }

 private:
  void add(const SavedCheckpoint& checkpoint) {
    const std::optional<Manifest> manifest = try_manifest(checkpoint);
    // What cannot be read is not ours to remove.
    if (!manifest || number(manifest->state, "kept").value_or(0) != 0) steps_.push_back(checkpoint.step);
  }

  const CheckpointOptions& options_;
  std::vector<int64_t> steps_;
};

}  // namespace

std::vector<SavedValue> best_first(const std::vector<SavedCheckpoint>& saved, const std::string& metric) {
  std::vector<SavedValue> values;
  for (const SavedCheckpoint& checkpoint : saved) {
    const std::optional<Manifest> manifest = try_manifest(checkpoint);
    if (!manifest) continue;
    if (const auto value = number(manifest->metrics, metric)) values.push_back({checkpoint.step, *value});
  }
  std::ranges::stable_sort(
      values, [&](const SavedValue& a, const SavedValue& b) { return better(metric, a.value, b.value); });
  return values;
}

RunState run_state(const Manifest& manifest) {
  const auto value = [&](const char* name, double otherwise) {
    return number(manifest.state, name).value_or(otherwise);
  };
  RunState state;
  state.step = manifest.step;
  const auto row = manifest.next_rows.find(kTrainRows);
  if (row == manifest.next_rows.end()) {
    throw Error(ErrorKind::kCheckpoint,
                fmt::format("{} holds no place in the training data", checkpoint_name(manifest.step)),
                "it holds weights only; `checkpoint.init.path` starts a fresh run from them");
  }
  state.next_row = row->second;
  state.seconds = value("seconds", 0);
  state.evaluation_seconds = value("evaluation_seconds", 0);
  state.rate_scale = value("rate_scale", 1);
  state.tokens = static_cast<int64_t>(value("tokens", 0));
  state.best = number(manifest.state, "best");
  state.worse_evaluations = static_cast<int64_t>(value("worse_evaluations", 0));
  state.evaluation_pending = value("evaluation_pending", 0) != 0;
  return state;
}

bool is_better(const std::string& metric, double value, const std::optional<double>& before) {
  return std::isfinite(value) && (!before || better(metric, value, *before));
}

std::string checkpoints_directory(const Config& config) { return in_model_dir(config, "checkpoints"); }

Checkpoints::Checkpoints(const Session& session, const VariableStore& variables, const RunState& start)
    : session_(session),
      options_(session.config.checkpoint),
      variables_(variables),
      directory_(checkpoints_directory(session.config)),
      config_hash_(hash128_hex(resolved_yaml(session.config))),
      keep_clock_(options_.keep_every.value_or(config::Interval{}), position(start)) {
  remove_unfinished(directory_);
  if (!options_.keep_best) return;
  best_ = best_first(list_checkpoints(directory_), options_.keep_best->metric);
}

Checkpoints::~Checkpoints() {
  if (pending_.valid()) pending_.wait();
}

RunPosition Checkpoints::position(const RunState& state) const {
  return {state.step,
          static_cast<double>(state.next_row) / static_cast<double>(session_.train_data->examples()),
          state.seconds - state.evaluation_seconds};
}

void Checkpoints::save(const RunState& state, const Metrics& metrics) {
  wait();
  copy_variables();
  Manifest manifest;
  manifest.step = state.step;
  manifest.seed = static_cast<uint64_t>(session_.config.run.seed);
  manifest.config_hash = config_hash_;
  manifest.next_rows[kTrainRows] = state.next_row;
  manifest.instruction_set = session_.backend->instruction_set();
  manifest.mesh = session_.layouts.mesh.to_string();
  manifest.vocabularies = fingerprints(session_.vocabularies);
  manifest.state = numbers_of(state, keep_clock_.due(position(state)));
  for (const auto& [name, value] : metrics) {
    if (!std::isfinite(value)) continue;
    manifest.metrics[name] = value;
    if (options_.keep_best && name == options_.keep_best->metric) best_.push_back({state.step, value});
  }
  pending_ = std::async(std::launch::async, [this, manifest = std::move(manifest)] { write(manifest); });
}

bool Checkpoints::is_best(const Metrics& metrics) const {
  if (!options_.keep_best) return false;
  const std::string& metric = options_.keep_best->metric;
  for (const auto& [name, value] : metrics) {
    if (name != metric || !std::isfinite(value)) continue;
    const auto ahead = std::ranges::count_if(
        best_, [&, mine = value](const SavedValue& other) { return !better(metric, mine, other.value); });
    return ahead < options_.keep_best->count;
  }
  return false;
}

void Checkpoints::check() {
  if (pending_.valid() && pending_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) wait();
}

void Checkpoints::wait() {
  if (pending_.valid()) pending_.get();
}

void Checkpoints::copy_variables() {
  if (snapshot_.empty()) {
    for (const std::string& name : variables_.names()) {
      const Variable& variable = variables_.variable(name);
      snapshot_.push_back(
          {&variable, std::vector<std::byte>(variable.shape.size() * size_of(variable.dtype))});
    }
  }
  for (Copy& copy : snapshot_) {
    const Variable& variable = *copy.variable;
    for (const VariableStore::StoredSlice& slice : variables_.slices(variable.name)) {
      copy_from_slice(variable.shape, slice.shape, slice.begin, size_of(variable.dtype), slice.data,
                      copy.bytes.data());
    }
  }
}

void Checkpoints::write(Manifest manifest) {
  CheckpointFile weights{"weights.safetensors", {}}, slots{"optimizer.safetensors", {}},
      averages{"averages.safetensors", {}};
  const auto file_of = [&](const Variable& variable) -> CheckpointFile& {
    if (is_average(variable)) return averages;
    return variable.kind == Variable::Kind::kSlot ? slots : weights;
  };
  const DType master = precision_of(session_.config).master;
  std::list<std::vector<std::byte>> converted;  // until they are written
  for (const Copy& copy : snapshot_) {
    const Variable& variable = *copy.variable;
    const DType dtype = variable.kind == Variable::Kind::kWeight ? master : variable.dtype;
    std::span<const std::byte> bytes = copy.bytes;
    if (dtype != variable.dtype) {
      const int64_t elements = variable.shape.size();
      std::vector<std::byte>& other = converted.emplace_back(static_cast<size_t>(elements) * size_of(dtype));
      convert_elements(copy.bytes.data(), variable.dtype, other.data(), dtype, elements);
      bytes = other;
    }
    file_of(variable).tensors.push_back({variable.name, dtype, variable.shape, {}, {}, bytes});
  }
  std::vector<CheckpointFile> files{std::move(weights)};
  for (CheckpointFile* file : {&slots, &averages}) {
    if (!file->tensors.empty()) files.push_back(std::move(*file));
  }
  write_checkpoint(directory_, std::move(manifest), files);
  remove_old();
  fault_point("save.done");
}

void Checkpoints::remove_old() {
  const std::vector<SavedCheckpoint> saved = list_checkpoints(directory_);
  Kept kept(options_);
  kept.choose(saved);
  for (const SavedCheckpoint& checkpoint : saved) {
    if (!kept.contains(checkpoint.step)) remove_checkpoint(checkpoint);
  }
}

}  // namespace mtf
