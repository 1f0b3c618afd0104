#include "trainer/decode/chosen_weights.h"

#include <fmt/format.h>

#include <map>

#include "engine/checkpoint/checkpoint.h"
#include "engine/core/convert.h"
#include "engine/core/counted.h"
#include "trainer/checkpoints.h"
#include "trainer/optimizer/averages.h"
#include "trainer/restore.h"
#include "trainer/vocabulary_check.h"

namespace mtf {
namespace {

ChosenWeights one(const std::string& path) { return {CheckpointReader(path).manifest().step, {path}}; }

std::vector<SavedCheckpoint> all_saved(const Config& config, const Mark& mark) {
  std::vector<SavedCheckpoint> saved = list_checkpoints(checkpoints_directory(config));
  if (saved.empty())
    throw Error(ErrorKind::kCheckpoint, mark, config.run.model_dir.text + " holds no checkpoint");
  return saved;
}

ChosenWeights mean_of_newest(const Config& config, int64_t count, const Mark& mark) {
  const std::vector<SavedCheckpoint> saved = all_saved(config, mark);
  if (static_cast<int64_t>(saved.size()) < count) {
    throw Error(ErrorKind::kCheckpoint, mark,
                fmt::format("{} holds {}, not {}", config.run.model_dir.text,
                            counted(static_cast<int64_t>(saved.size()), "checkpoint"), count),
                "a smaller `average`; `checkpoint.keep_last` says how many a run keeps");
  }
  ChosenWeights chosen{saved.back().step, {}};
  for (auto at = saved.end() - count; at != saved.end(); ++at) chosen.paths.push_back(at->path);
  return chosen;
}

/// sum += weights; weights of any floating-point type.
void add_weights(const VariableStore& weights, std::map<std::string, std::vector<double>>& sums) {
  for (const std::string& name : weights.names()) {
    const HostTensor value = weights.get(name);
    std::vector<double>& sum = sums[name];
    sum.resize(static_cast<size_t>(value.shape.size()));
    HostTensor wide(value.shape, DType::kFloat32);
    convert_elements(value.bytes.data(), value.dtype, wide.bytes.data(), wide.dtype, value.shape.size());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += wide.data<float>()[i];
  }
}

}  // namespace

std::string ChosenWeights::description() const {
  if (paths.size() == 1) return fmt::format("step {}", step);
  return fmt::format("the mean of {} checkpoints up to step {}", paths.size(), step);
}

std::vector<ChosenWeights> choose_weights(const Config& config, const InferCheckpoints& choice,
                                          std::string_view key) {
  const Mark mark = config.mark(key);
  const auto find = [&](const CheckpointChoice& single) { return one(find_checkpoint(config, single, key)); };
  if (const auto* word = std::get_if<InferCheckpointWord>(&choice)) {
    if (*word == InferCheckpointWord::kLatest) return {find(CheckpointWord::kLatest)};
    if (*word == InferCheckpointWord::kBest) return {find(CheckpointWord::kBest)};
    std::vector<ChosenWeights> chosen;
    for (const SavedCheckpoint& saved : all_saved(config, mark)) chosen.push_back({saved.step, {saved.path}});
    return chosen;
  }
  if (const auto* step = std::get_if<int64_t>(&choice)) return {find(*step)};
  if (const auto* path = std::get_if<config::Path>(&choice)) return {find(*path)};
  if (const auto* mean = std::get_if<AverageOfCheckpoints>(&choice))
    return {mean_of_newest(config, mean->average, config.mark(std::string(key) + ".average"))};
  std::vector<ChosenWeights> chosen;
  for (const int64_t step : std::get<std::vector<int64_t>>(choice)) chosen.push_back(find(step));
  if (chosen.empty()) throw Error(ErrorKind::kConfig, mark, "no checkpoint is named", "`latest`, or steps");
  return chosen;
}

void load_weights(const ChosenWeights& chosen, const Session& session, VariableStore& weights) {
  std::map<std::string, std::vector<double>> sums;
  for (const std::string& path : chosen.paths) {
    CheckpointReader reader(path);
    check_vocabularies(session, reader.manifest(), path);
    restore_variables(reader, weights, evaluated_weights(session.config));
    if (chosen.paths.size() > 1) add_weights(weights, sums);
  }
  for (const auto& [name, sum] : sums) {
    const Variable& variable = weights.variable(name);
    HostTensor wide(variable.shape, DType::kFloat32), mean(variable.shape, variable.dtype);
    for (size_t i = 0; i < sum.size(); ++i)
      wide.data<float>()[i] = static_cast<float>(sum[i] / static_cast<double>(chosen.paths.size()));
    convert_elements(wide.bytes.data(), wide.dtype, mean.bytes.data(), mean.dtype, variable.shape.size());
    weights.set(name, mean);
  }
}

}  // namespace mtf
