#include "trainer/checkpoint/restore.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <numeric>
#include <regex>
#include <set>
#include <utility>

#include "engine/base/printable.h"
#include "engine/core/convert_elements.h"
#include "layers/lora.h"
#include "trainer/checkpoint/checkpoints.h"
#include "trainer/checkpoint/slot_types.h"
#include "trainer/optimizer/averages.h"
#include "trainer/optimizer/patterns.h"
#include "trainer/session/initial_weights.h"
#include "trainer/session/stored_model.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void wrong_shape(const std::string& path, const Variable& variable, DType dtype,
                              const std::string& shape, const std::string& hint = {}) {
  throw Error(ErrorKind::kCheckpoint,
              fmt::format("{}: variable `{}` is {} {}, and the model has {} {}", path, variable.name,
                          name_of(dtype), shape, name_of(variable.dtype), variable.shape.to_string()),
              hint);
}

/// Sets a variable from as many elements of this type.
void set_elements(const std::byte* data, DType dtype, const Variable& variable, VariableStore& variables) {
  HostTensor tensor(variable.shape, variable.dtype);
  convert_elements(data, dtype, tensor.bytes.data(), tensor.dtype, tensor.shape.size());
  variables.set(variable.name, tensor);
}

/// Throws "FILE lacks 2 of the model's variables: ...".
[[noreturn]] void throw_missing(ErrorKind kind, const std::string& path, const Mark& mark,
                                const std::vector<std::string>& missing,
                                const std::vector<std::string>& there, const std::string& advice) {
  constexpr size_t kListed = 8;
  throw Error(kind, mark,
              fmt::format("{} lacks {} of the model's variables: {}", path, missing.size(),
                          list_names(missing, kListed)),
              fmt::format("it has {}{}", list_names(there, kListed), advice));
}

/// Reads the slices of `variable` from a checkpoint's variable of the same shape.
void read_slices(CheckpointReader& reader, const CheckpointVariable& saved, const Variable& variable,
                 VariableStore& variables) {
  std::vector<std::byte> buffer;
  for (const VariableStore::StoredSlice& slice : variables.slices(variable.name)) {
    const int64_t elements = slice.shape.size();
    buffer.resize(saved.dtype == variable.dtype ? 0 : static_cast<size_t>(elements) * size_of(saved.dtype));
    slice.fill([&](std::byte* to) {
      reader.read(saved.name, slice.begin, slice.shape.sizes(), buffer.empty() ? to : buffer.data());
      if (!buffer.empty()) convert_elements(buffer.data(), saved.dtype, to, variable.dtype, elements);
    });
  }
}

void restore(CheckpointReader& reader, const CheckpointVariable& saved, const Variable& variable,
             VariableStore& variables) {
  if (saved.shape != variable.shape || !convertible(saved.dtype, variable.dtype))
    wrong_shape(reader.path(), variable, saved.dtype, saved.shape.to_string());
  read_slices(reader, saved, variable, variables);
}

std::string of_step(const Config& config, int64_t step, const Mark& mark) {
  const std::vector<SavedCheckpoint> saved = list_checkpoints(checkpoints_directory(config));
  std::vector<std::string> steps;
  for (const SavedCheckpoint& checkpoint : saved) {
    if (checkpoint.step == step) return checkpoint.path;
    steps.push_back(fmt::format("{}", checkpoint.step));
  }
  throw Error(ErrorKind::kConfig, mark,
              fmt::format("{} has no checkpoint of step {}", config.run.model_dir.text, step),
              steps.empty() ? "it has none at all" : fmt::format("it has {}", fmt::join(steps, ", ")));
}

std::string best(const Config& config, const Mark& mark) {
  const auto& keep_best = config.checkpoint.keep_best;
  if (!keep_best) {
    throw Error(ErrorKind::kConfig, mark, "nothing says by which metric `best` is meant",
                "for example `checkpoint.keep_best: {metric: DATASET/METRIC}`");
  }
  const auto values = best_first(list_checkpoints(checkpoints_directory(config)), keep_best->metric);
  if (values.empty()) {
    throw Error(
        ErrorKind::kCheckpoint, mark,
        fmt::format("no checkpoint of {} has the metric `{}`", config.run.model_dir.text, keep_best->metric));
  }
  return of_step(config, values.front().step, mark);
}

/// Returns the name of what `what` restores to `weight`.
template <class Source>
std::string name_in(const Source& source, const std::string& weight, Restore what) {
  if (what != Restore::kAverages) return weight;
  std::string average = average_name(weight);
  return source.find(average) ? average : weight;
}

/// Throws Error where the source has low-rank updates of kernels that the model reads without them: what the updates have
/// learned would be lost. `apart`: weights that the model has besides.
template <class Source>
void check_updates(const Source& source, const std::vector<std::string>& weights,
                   std::span<const std::string> apart = {}) {
  std::set<std::string> here(weights.begin(), weights.end());
  here.insert(apart.begin(), apart.end());
  for (const std::string& kernel : weights) {
    const std::string update = kernel + kLoraDown;
    if (here.contains(update) || !source.find(update)) continue;
    throw Error(
        ErrorKind::kCheckpoint,
        fmt::format("{} has a low-rank update of `{}`, which this model lacks", source.path(), kernel),
        "`lora` of the layer as in the run's config.yaml, or an export in Hugging Face form, which "
        "has one kernel");
  }
}

/// The variables of a checkpoint's directory or of a safetensors file, by their names there.
class WeightSource {
 public:
  explicit WeightSource(SafetensorsFile file) : file_(std::move(file)) {}
  explicit WeightSource(const std::string& path) {
    std::error_code ignored;
    if (fs::is_regular_file(path, ignored)) {
      file_.emplace(path);
    } else {
      reader_.emplace(path);
    }
  }

  const std::string& path() const { return file_ ? file_->path() : reader_->path(); }
  /// The names in the order of the source.
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    if (file_) {
      for (const StoredTensor& tensor : file_->tensors()) names.push_back(tensor.name);
    } else {
      for (const CheckpointVariable& variable : reader_->manifest().variables) names.push_back(variable.name);
    }
    return names;
  }
  bool find(const std::string& name) const {
    return file_ ? file_->find(name) != nullptr : reader_->find(name) != nullptr;
  }
  /// Throws Error, with `hint`, when the shape or dtype of `stored` does not suit the variable.
  void check(const std::string& stored, const Variable& variable, const std::string& hint = {}) const {
    const auto check = [&](const std::vector<int64_t>& sizes, DType dtype, const std::string& shape) {
      if (!are_elements_of(sizes, variable.shape) || !convertible(dtype, variable.dtype))
        wrong_shape(path(), variable, dtype, shape, hint);
    };
    if (file_) {
      const StoredTensor& tensor = file_->at(stored);
      check(tensor.shape, tensor.dtype, fmt::format("[{}]", fmt::join(tensor.shape, ", ")));
    } else {  // names of dimensions may differ; only the sizes must match
      const CheckpointVariable& saved = *reader_->find(stored);
      check(saved.shape.sizes(), saved.dtype, saved.shape.to_string());
    }
  }
  /// Throws Error when a checkpoint names the dimensions of `stored` otherwise than the variable's.
  void check_names(const std::string& stored, const Variable& variable) const {
    if (!reader_) return;
    const CheckpointVariable& saved = *reader_->find(stored);
    if (saved.shape != variable.shape) wrong_shape(path(), variable, saved.dtype, saved.shape.to_string());
  }
  /// Sets a variable from `stored`, for which check() has returned.
  void set(const std::string& stored, const Variable& variable, VariableStore& variables) {
    if (file_) {
      const StoredTensor& tensor = file_->at(stored);
      return set_elements(tensor.data.data(), tensor.dtype, variable, variables);
    }
    const CheckpointVariable& saved = *reader_->find(stored);
    if (saved.shape.rank() == variable.shape.rank()) return read_slices(*reader_, saved, variable, variables);
    HostTensor whole(saved.shape, saved.dtype);
    reader_->read(saved.name, std::vector<int64_t>(static_cast<size_t>(saved.shape.rank())),
                  saved.shape.sizes(), whole.bytes.data());
    set_elements(whole.bytes.data(), whole.dtype, variable, variables);
  }

 private:
  std::optional<SafetensorsFile> file_;
  std::optional<CheckpointReader> reader_;
};

/// Sets variables from what the source has under these names. Throws Error if it lacks some of them.
void restore_all(WeightSource source, const std::vector<std::pair<std::string, const Variable*>>& wanted,
                 Restore what, VariableStore& variables, std::span<const std::string> apart = {}) {
  std::vector<std::string> missing;
  std::vector<std::string> names;
  for (const auto& [name, variable] : wanted) names.push_back(name);
  check_updates(source, names, apart);
  for (const auto& [name, variable] : wanted) {
    const std::string stored = name_in(source, name, what);
    if (!source.find(stored)) {
      missing.push_back(name);
      continue;
    }
    source.check(stored, *variable);
    source.check_names(stored, *variable);
    source.set(stored, *variable, variables);
  }
  if (!missing.empty()) throw_missing(ErrorKind::kCheckpoint, source.path(), {}, missing, source.names(), {});
}

/// The weights of section checkpoint.init, by their names in the model (checkpoint.init.rename).
class InitialWeights {
 public:
  explicit InitialWeights(const InitOptions& options)
      : options_(options), source_(checkpoint_at(options.path)) {
    const std::vector<std::string> stored = source_.names();
    std::vector<std::string> names = stored;
    for (const auto& [pattern, replacement] : options.rename) {
      check_patterns_occur("checkpoint.init.rename", {pattern}, names, options.path.mark);
      const std::regex regex(pattern);
      for (std::string& name : names) name = std::regex_replace(name, regex, replacement);
    }
    for (size_t i = 0; i < names.size(); ++i) add(names[i], stored[i]);
  }

  const std::string& path() const { return source_.path(); }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, stored] : stored_names_) names.push_back(name);
    return names;
  }
  bool find(const std::string& name) const { return stored_names_.contains(name); }
  /// False if the source lacks the variable. Throws Error when its shape or dtype does not suit.
  bool fits(const Variable& variable) const {
    if (!find(variable.name)) return false;
    source_.check(
        taken_name(variable), variable,
        fmt::format("`checkpoint.init.exclude: [{}]` leaves it as it is", exact_pattern(variable.name)));
    return true;
  }
  /// Sets a variable for which fits() returned true.
  void set(const Variable& variable, VariableStore& variables) {
    source_.set(taken_name(variable), variable, variables);
  }
  /// True if set() takes the running mean of the variable.
  bool takes_average(const Variable& variable) const {
    return taken_name(variable) != stored_names_.at(variable.name);
  }

 private:
  /// The source's name of what the variable is set to.
  std::string taken_name(const Variable& variable) const {
    const Restore what = options_.raw ? Restore::kWeights : Restore::kAverages;
    return name_in(source_, stored_names_.at(variable.name), what);
  }
  void add(const std::string& name, const std::string& stored) {
    if (!stored_names_.emplace(name, stored).second) {
      throw Error(ErrorKind::kConfig, options_.path.mark,
                  fmt::format("`checkpoint.init.rename` gives `{}` and `{}` the same name `{}`", stored,
                              stored_names_.at(name), name));
    }
  }

  const InitOptions& options_;
  WeightSource source_;
  /// The source's name of each weight, by its name in the model.
  std::map<std::string, std::string> stored_names_;
};

/// Returns the variables that section checkpoint.init selects. Throws Error if `source` lacks one of them, none is
/// selected or a pattern finds none.
std::vector<const Variable*> taken_variables(const InitOptions& options, const InitialWeights& source,
                                             const std::vector<const Variable*>& variables) {
  std::vector<const Variable*> taken;
  std::vector<std::string> missing, names;
  for (const Variable* variable : variables) {
    names.push_back(variable->name);
    if (!selects(options, variable->name)) continue;
    if (source.fits(*variable)) {
      taken.push_back(variable);
    } else {
      missing.push_back(variable->name);
    }
  }
  constexpr size_t kListed = 8;
  check_updates(source, names);
  std::vector<std::string> all = source.names();  // a pattern may be that of a head which only the source has
  std::ranges::copy_if(names, std::back_inserter(all),
                       [&source](const std::string& name) { return !source.find(name); });
  check_patterns_occur("checkpoint.init.include", options.include, all, options.path.mark);
  check_patterns_occur("checkpoint.init.exclude", options.exclude, all, options.path.mark);
  // Names that `rename` has made are the configuration's.
  const ErrorKind kind = options.rename.empty() ? ErrorKind::kCheckpoint : ErrorKind::kConfig;
  if (!missing.empty())
    throw_missing(
        kind, source.path(), options.path.mark, missing, source.names(),
        "; `checkpoint.init.rename` maps names, `checkpoint.init.exclude` leaves variables as they are");
  if (taken.empty()) {
    throw Error(ErrorKind::kConfig, options.path.mark,
                fmt::format("`include` and `exclude` of `checkpoint.init` leave none of {} variables",
                            variables.size()),
                fmt::format("regular expressions that find some of {}", list_names(names, kListed)));
  }
  return taken;
}

}  // namespace

Restore evaluated_weights(const Config& config) {
  return config.train.ema_decay ? Restore::kAverages : Restore::kWeights;
}

bool has_averages(const Manifest& manifest) {
  return std::ranges::any_of(manifest.variables, [](const CheckpointVariable& variable) {
    return !averaged_weight(variable.name).empty();
  });
}

NotRestored restore_variables(CheckpointReader& reader, VariableStore& variables, Restore what,
                              std::span<const std::string> apart) {
  const std::vector<std::string> names = variables.names();
  check_updates(reader, names, apart);
  NotRestored lacking;
  for (const std::string& name : names) {
    const Variable& variable = variables.variable(name);
    if (!variable.is_saved()) continue;
    const bool slot = variable.kind == Variable::Kind::kSlot;
    const bool weights_alone = what == Restore::kWeights || what == Restore::kAverages;
    const bool may_lack = what == Restore::kPresent || slot;
    if (slot && !weights_alone && restore_slot_codes(reader, variable, variables)) continue;
    const CheckpointVariable* saved = reader.find(slot ? name : restored_name(reader, name, what));
    if (saved && !(slot && weights_alone)) {
      restore(reader, *saved, variable, variables);
    } else if (!weights_alone && is_average(variable)) {
      lacking.averages.push_back(name);
    } else if (may_lack) {
      lacking.kept.push_back(name);
    } else {
      throw Error(ErrorKind::kCheckpoint, fmt::format("{} lacks the variable `{}`", reader.path(), name));
    }
  }
  return lacking;
}

bool are_elements_of(const std::vector<int64_t>& stored, const Shape& shape) {
  const std::vector<int64_t> here = shape.sizes();
  if (stored == here) return true;
  const std::optional<int> heads = shape.find("heads"), entries = shape.find("d_kv");
  if (!heads) return false;
  const int64_t first = *heads, run = entries ? *entries - first + 1 : 1,
                stored_run = std::ssize(stored) - shape.rank() + run;
  if (stored_run < 1 || (run > 1) == (stored_run > 1)) return false;
  const auto product = [&](const std::vector<int64_t>& all, int64_t count) {
    return std::accumulate(all.begin() + first, all.begin() + first + count, int64_t{1}, std::multiplies<>());
  };
  return std::equal(here.begin(), here.begin() + first, stored.begin()) &&
         std::equal(here.begin() + first + run, here.end(), stored.begin() + first + stored_run) &&
         product(here, run) == product(stored, stored_run);
}

void restore_weights(SafetensorsFile file, VariableStore& variables, Restore what,
                     std::span<const std::string> apart) {
  std::vector<std::pair<std::string, const Variable*>> wanted;
  for (const std::string& name : variables.names()) {
    const Variable& variable = variables.variable(name);
    if (is_initialized(variable)) wanted.emplace_back(name, &variable);
  }
  restore_all(WeightSource(std::move(file)), wanted, what, variables, apart);
}

void restore_constants(const std::string& path, std::string_view prefix, VariableStore& variables) {
  std::vector<std::pair<std::string, const Variable*>> wanted;
  for (const std::string& name : variables.names()) {
    const Variable& variable = variables.variable(name);
    if (variable.kind == Variable::Kind::kConstant && name.starts_with(prefix))
      wanted.emplace_back(name.substr(prefix.size()), &variable);
  }
  restore_all(WeightSource(path), wanted, Restore::kAverages, variables);
}

std::string restored_name(const CheckpointReader& reader, const std::string& weight, Restore what) {
  return name_in(reader, weight, what);
}

std::string find_checkpoint(const Config& config, const CheckpointChoice& choice, std::string_view key) {
  const Mark mark = config.mark(key);
  if (const auto* step = std::get_if<int64_t>(&choice)) return of_step(config, *step, mark);
  if (const auto* path = std::get_if<config::Path>(&choice)) return checkpoint_at(*path);
  return std::get<CheckpointWord>(choice) == CheckpointWord::kBest
             ? best(config, mark)
             : latest_of(config.run.model_dir.text, config.mark("run.model_dir"));
}

void check_initial_weights(const InitOptions& options, const Graph* graph) {
  const InitialWeights source(options);
  if (graph == nullptr) return;
  std::vector<const Variable*> weights;
  for (const auto& variable : graph->variables()) {
    if (is_initialized(*variable)) weights.push_back(variable.get());
  }
  std::ranges::sort(weights, {}, &Variable::name);
  taken_variables(options, source, weights);
}

std::string initialize_weights(const InitOptions& options, VariableStore& variables) {
  InitialWeights source(options);
  std::vector<const Variable*> weights;
  for (const std::string& name : variables.names()) {
    const Variable& variable = variables.variable(name);
    if (is_initialized(variable)) weights.push_back(&variable);
  }
  const std::vector<const Variable*> taken = taken_variables(options, source, weights);
  size_t averages = 0;
  for (const Variable* variable : taken) {
    source.set(*variable, variables);
    averages += source.takes_average(*variable) ? 1 : 0;
  }
  return fmt::format("{} of {} variables start from {}{}", taken.size(), weights.size(), source.path(),
                     averages == 0 ? "" : fmt::format(", {} of them from their running means", averages));
}

}  // namespace mtf
