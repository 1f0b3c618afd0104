#include "trainer/restore.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <regex>

#include "engine/checkpoint/safetensors.h"
#include "engine/core/convert.h"
#include "engine/core/printable.h"
#include "layers/context.h"
#include "trainer/checkpoints.h"
#include "trainer/optimizer/averages.h"
#include "trainer/optimizer/optimizers.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

std::vector<int64_t> sizes(const Shape& shape) {
  std::vector<int64_t> result;
  for (const Dimension& d : shape) result.push_back(d.size);
  return result;
}

[[noreturn]] void wrong_shape(const std::string& path, const Variable& variable, DType dtype,
                              const std::string& shape, const std::string& hint = {}) {
  throw Error(ErrorKind::kCheckpoint,
              fmt::format("{}: variable `{}` is {} {}, and the model has {} {}", path, variable.name,
                          name_of(dtype), shape, name_of(variable.dtype), variable.shape.to_string()),
              hint);
}

/// Reads the slices of a variable of the same shape.
void read_slices(CheckpointReader& reader, const CheckpointVariable& saved, const Variable& variable,
                 VariableStore& variables) {
  std::vector<std::byte> buffer;
  for (const VariableStore::StoredSlice& slice : variables.slices(variable.name)) {
    const int64_t elements = slice.shape.size();
    buffer.resize(saved.dtype == variable.dtype ? 0 : static_cast<size_t>(elements) * size_of(saved.dtype));
    slice.fill([&](std::byte* to) {
      reader.read(saved.name, slice.begin, sizes(slice.shape), buffer.empty() ? to : buffer.data());
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

/// The newest checkpoint of a run's directory.
std::string latest_of(const std::string& run, const Mark& mark) {
  const std::vector<SavedCheckpoint> saved = list_checkpoints((fs::path(run) / "checkpoints").string());
  if (saved.empty()) throw Error(ErrorKind::kCheckpoint, mark, run + " holds no checkpoint");
  return saved.back().path;
}

/// A checkpoint's directory or that of a run.
std::string checkpoint_at(const config::Path& path) {
  if (fs::exists(fs::path(path.text) / "manifest.json")) return path.text;
  if (!fs::exists(path.text)) {
    throw Error(ErrorKind::kCheckpoint, path.mark, "there is no " + path.text,
                "the directory of a run or of a checkpoint");
  }
  return latest_of(path.text, path.mark);
}

std::string of_step(const Config& config, int64_t step, const Mark& mark) {
  const std::vector<SavedCheckpoint> saved = list_checkpoints(checkpoints_directory(config));
  std::vector<std::string> steps;
  for (const SavedCheckpoint& checkpoint : saved) {
    if (checkpoint.step == step) return checkpoint.path;
    steps.push_back(fmt::format("{}", checkpoint.step));
  }
  throw Error(ErrorKind::kCheckpoint, mark,
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

/// Weights by the name that they have in the model.
class WeightSource {
 public:
  explicit WeightSource(const InitOptions& options) : options_(options) {
    const std::string& path = options.path.text;
    if (fs::is_regular_file(path)) {
      file_.emplace(path);
      for (const StoredTensor& tensor : file_->tensors()) add(tensor.name);
    } else {
      reader_.emplace(checkpoint_at(options.path));
      for (const CheckpointVariable& variable : reader_->manifest().variables) add(variable.name);
    }
  }

  const std::string& path() const { return file_ ? file_->path() : reader_->path(); }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [name, stored] : stored_names_) names.push_back(name);
    return names;
  }
  /// False when there is none of this name.
  bool set(const Variable& variable, VariableStore& variables) {
    const auto found = stored_names_.find(variable.name);
    if (found == stored_names_.end()) return false;
    if (file_) {
      set(file_->at(found->second), variable, variables);
    } else {
      set(*reader_->find(found->second), variable, variables);
    }
    return true;
  }

 private:
  void add(const std::string& stored) {
    std::string name = stored;
    for (const auto& [pattern, replacement] : options_.rename)
      name = std::regex_replace(name, std::regex(pattern), replacement);
    if (!stored_names_.emplace(name, stored).second) {
      throw Error(ErrorKind::kConfig, options_.path.mark,
                  fmt::format("`checkpoint.init.rename` gives `{}` and `{}` the same name `{}`", stored,
                              stored_names_.at(name), name));
    }
  }
  void set(const StoredTensor& stored, const Variable& variable, VariableStore& variables) {
    if (stored.shape != sizes(variable.shape) || !convertible(stored.dtype, variable.dtype)) {
      wrong_shape(path(), variable, stored.dtype, fmt::format("[{}]", fmt::join(stored.shape, ", ")),
                  exclusion(variable));
    }
    HostTensor tensor(variable.shape, variable.dtype);
    convert_elements(stored.data.data(), stored.dtype, tensor.bytes.data(), tensor.dtype,
                     tensor.shape.size());
    variables.set(variable.name, tensor);
  }
  /// Names of dimensions may differ: only sizes count.
  void set(const CheckpointVariable& saved, const Variable& variable, VariableStore& variables) {
    if (sizes(saved.shape) != sizes(variable.shape) || !convertible(saved.dtype, variable.dtype))
      wrong_shape(path(), variable, saved.dtype, saved.shape.to_string(), exclusion(variable));
    read_slices(*reader_, saved, variable, variables);
  }

  static std::string exclusion(const Variable& variable) {
    return fmt::format("`checkpoint.init.exclude: [{}]` leaves it as it is", variable.name);
  }

  const InitOptions& options_;
  std::optional<SafetensorsFile> file_;
  std::optional<CheckpointReader> reader_;
  std::map<std::string, std::string> stored_names_;  ///< by name in the model
};

}  // namespace

std::vector<std::string> restore_variables(CheckpointReader& reader, VariableStore& variables, Restore what) {
  std::vector<std::string> kept;
  for (const std::string& name : variables.names()) {
    const Variable& variable = variables.variable(name);
    const bool slot = variable.kind == Variable::Kind::kSlot;
    const bool weights_alone = what == Restore::kWeights || what == Restore::kAverages;
    const CheckpointVariable* saved = reader.find(slot ? name : restored_name(reader, name, what));
    if (saved && !(slot && weights_alone)) {
      restore(reader, *saved, variable, variables);
    } else if (what == Restore::kAll && is_average(variable)) {
      start_average(name, variables);  // names are in order: the weight comes first
    } else if (what == Restore::kAll || (weights_alone && !slot)) {
      throw Error(ErrorKind::kCheckpoint, fmt::format("{} lacks the variable `{}`", reader.path(), name));
    } else {
      kept.push_back(name);
    }
  }
  return kept;
}

std::string restored_name(const CheckpointReader& reader, const std::string& weight, Restore what) {
  if (what != Restore::kAverages) return weight;
  std::string average = average_name(weight);
  return reader.find(average) ? average : weight;
}

std::string find_checkpoint(const Config& config, const CheckpointChoice& choice, std::string_view key) {
  const Mark mark = config.mark(key);
  if (const auto* step = std::get_if<int64_t>(&choice)) return of_step(config, *step, mark);
  if (const auto* path = std::get_if<config::Path>(&choice)) return checkpoint_at(*path);
  return std::get<CheckpointWord>(choice) == CheckpointWord::kBest
             ? best(config, mark)
             : latest_of(config.run.model_dir.text, config.mark("run.model_dir"));
}

std::string initialize_weights(const InitOptions& options, VariableStore& variables) {
  WeightSource source(options);
  std::vector<std::string> missing;
  int64_t taken = 0, weights = 0;
  for (const std::string& name : variables.names()) {
    const Variable& variable = variables.variable(name);
    if (variable.kind == Variable::Kind::kSlot) continue;
    ++weights;
    if (!matches_any(name, options.include) || matches_any(name, options.exclude)) continue;
    if (source.set(variable, variables)) {
      ++taken;
    } else {
      missing.push_back(name);
    }
  }
  constexpr size_t kListed = 8;
  if (!missing.empty()) {
    throw Error(
        ErrorKind::kCheckpoint, options.path.mark,
        fmt::format("{} lacks {} of the model's variables: {}", source.path(), missing.size(),
                    list_names(missing, kListed)),
        fmt::format("it has {}; `checkpoint.init.rename` maps names, `checkpoint.init.exclude` leaves "
                    "variables as they are",
                    list_names(source.names(), kListed)));
  }
  if (taken == 0) {
    throw Error(
        ErrorKind::kConfig, options.path.mark,
        fmt::format("`include` and `exclude` of `checkpoint.init` leave none of {} variables", weights),
        fmt::format("regular expressions that find some of {}", list_names(variables.names(), kListed)));
  }
  return fmt::format("{} of {} variables start from {}", taken, weights, source.path());
}

}  // namespace mtf
