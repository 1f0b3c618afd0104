#include "trainer/decode/chosen_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "engine/base/check.h"
#include "engine/base/counted.h"
#include "engine/base/hash.h"
#include "engine/base/print_message.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/core/convert_elements.h"
#include "trainer/checkpoint/checkpoints.h"
#include "trainer/checkpoint/restore.h"
#include "trainer/decode/output.h"
#include "trainer/session/inputs_parts.h"
#include "trainer/session/model_dir.h"
#include "trainer/session/stored_model.h"
#include "trainer/session/vocabulary_check.h"

namespace mtf {
namespace {

ChosenWeights one(const std::string& path) {
  ChosenWeights chosen{0, {path}};
  chosen.step =
      chosen.is_file() ? manifest_of(SafetensorsFile(path)).step : CheckpointReader(path).manifest().step;
  return chosen;
}

std::vector<SavedCheckpoint> all_saved(const Config& config, const Mark& mark) {
  std::vector<SavedCheckpoint> saved = list_checkpoints(checkpoints_directory(config));
  if (saved.empty())
    throw Error(ErrorKind::kConfig, mark, config.run.model_dir.text + " holds no checkpoint");
  return saved;
}

/// Throws Error (kConfig) if running means of the weights would be averaged with weights of checkpoints that lack them.
void check_alike(const Config& config, const std::vector<std::string>& paths, const Mark& mark) {
  if (evaluated_weights(config) != Restore::kAverages) return;
  std::optional<std::string> with, without;
  for (const std::string& path : paths) (has_averages(read_manifest(path)) ? with : without) = path;
  if (!with || !without) return;
  throw Error(ErrorKind::kConfig, mark,
              fmt::format("{} has running means of the weights, and {} has none", *with, *without),
              "an `average` of checkpoints that all have them, or `train.ema_decay=null`, which averages the "
              "weights themselves");
}

ChosenWeights mean_of_newest(const Config& config, int64_t count, const Mark& mark) {
  const std::vector<SavedCheckpoint> saved = all_saved(config, mark);
  if (static_cast<int64_t>(saved.size()) < count) {
    throw Error(ErrorKind::kConfig, mark,
                fmt::format("{} holds {}, not {}", config.run.model_dir.text,
                            counted(static_cast<int64_t>(saved.size()), "checkpoint"), count),
                "a smaller `average`; `checkpoint.keep_last` says how many a run keeps");
  }
  ChosenWeights chosen{saved.back().step, {}};
  for (auto at = saved.end() - count; at != saved.end(); ++at) chosen.paths.push_back(at->path);
  check_alike(config, chosen.paths, mark);
  return chosen;
}

/// Returns the elements of this process's slices of a variable in float32, one slice after the other.
std::vector<float> wide_values(const VariableStore& weights, const std::string& name) {
  const DType dtype = weights.variable(name).dtype;
  std::vector<float> values;
  std::vector<std::byte> buffer;
  for (const VariableStore::StoredSlice& slice : weights.slices(name)) {
    const size_t begin = values.size();
    values.resize(begin + static_cast<size_t>(slice.shape.size()));
    convert_elements(slice.on_host(buffer), dtype, reinterpret_cast<std::byte*>(values.data() + begin),
                     DType::kFloat32, slice.shape.size());
  }
  return values;
}

/// The sums of wide_values() over the checkpoints, by the variable's name.
using WeightSums = std::map<std::string, std::vector<double>>;

void add_weights(const VariableStore& weights, WeightSums& sums) {
  for (const std::string& name : weights.names()) {
    if (!weights.variable(name).is_saved()) continue;
    const std::vector<float> values = wide_values(weights, name);
    std::vector<double>& sum = sums[name];
    sum.resize(values.size());
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += values[i];
  }
}

void set_means(const WeightSums& sums, size_t count, VariableStore& weights) {
  for (const auto& [name, sum] : sums) {
    const DType dtype = weights.variable(name).dtype;
    std::vector<float> means;
    for (const double x : sum) means.push_back(static_cast<float>(x / static_cast<double>(count)));
    const float* next = means.data();
    for (const VariableStore::StoredSlice& slice : weights.slices(name)) {
      slice.fill([&](std::byte* to) {
        convert_elements(reinterpret_cast<const std::byte*>(next), DType::kFloat32, to, dtype,
                         slice.shape.size());
      });
      next += slice.shape.size();
    }
  }
}

/// True if a checkpoint lies in the run that is continued or evaluated.
bool is_of_run(const std::string& checkpoint, const Config& config) {
  std::error_code ignored;
  return std::filesystem::equivalent(run_of(checkpoint), config.run.model_dir.text, ignored);
}

/// Adds the files in which the values below `node` are written.
void add_files(const config::Node& node, std::set<std::string>& files) {
  if (node.mark().known()) files.insert(node.mark().file);
  for (const config::Node& element : node.elements()) add_files(element, files);
  for (const config::Entry& entry : node.entries()) add_files(entry.value, files);
}

/// Says what the existing file `name` is to a run that would write its output there; empty if it may be replaced.
std::string lost_file(const Config& config, const std::string& name, std::span<const NamedInput> inputs) {
  if (is_record_of_run(config, name)) return fmt::format("a file of the run {}", config.run.model_dir.text);
  std::error_code ignored;
  for (const NamedInput& input : inputs)
    if (!is_stream(input.path) && std::filesystem::equivalent(name, input.path, ignored))
      return fmt::format("the file `{}`", input.key);
  std::set<std::string> configurations;
  add_files(config.root, configurations);
  for (const std::string& file : configurations)
    if (std::filesystem::equivalent(name, file, ignored)) return "a file of the configuration";
  return "";
}

/// Reports a member that cannot predict together with the session's model.
void check_member(const Session& session, const ChosenWeights& member, const Model& model, const Mark& mark) {
  const TextDecoder *own = session.model->decoder(), *other = model.decoder();
  const std::string& path = member.paths.front();
  const auto refuse = [&](const std::string& difference) {
    throw Error(ErrorKind::kConfig, mark, fmt::format("{}: its model {}", path, difference),
                "members that read and write what the model of this configuration does");
  };
  if (other == nullptr) refuse("does not write texts");
  if (own->has_encoder() != other->has_encoder())
    refuse(other->has_encoder() ? "has an encoder, and that of this configuration has none"
                                : "has no encoder, and that of this configuration has one");
  if (other->ends_prompts() ? !ends_prompts(session) : own->ends_prompts())
    refuse(fmt::format("{} the given text by an end of sequence, unlike that of this configuration",
                       other->ends_prompts() ? "ends" : "does not end"));
  const std::optional<int64_t> here = own->longest_text(), there = other->longest_text();
  if (!there || (here && *here <= *there)) return;
  throw Error(
      ErrorKind::kConfig, mark,
      fmt::format("{} has positions for texts of {} tokens, and the model of this configuration for {}", path,
                  *there, here ? fmt::to_string(*here) : "any number"),
      "the configuration of the member with the fewest positions");
}

}  // namespace

bool ChosenWeights::is_file() const { return std::filesystem::is_regular_file(paths.front()); }

std::string ChosenWeights::description() const {
  if (is_file() || by_path) return paths.front();
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
  for (const CheckpointChoice& each : std::get<std::vector<CheckpointChoice>>(choice)) {
    chosen.push_back(find(each));
    chosen.back().by_path = std::holds_alternative<config::Path>(each);
  }
  if (chosen.empty()) throw Error(ErrorKind::kConfig, mark, "no checkpoint is named", "`latest`, or steps");
  return chosen;
}

namespace {

/// Loads those of the weights `all` that `weights` has.
void load_some(const ChosenWeights& chosen, const Session& session, Restore what,
               std::span<const std::string> all, VariableStore& weights) {
  if (chosen.is_file()) {
    SafetensorsFile file(chosen.paths.front());
    check_vocabularies(session, manifest_of(file), file.path());
    restore_weights(std::move(file), weights, what, all);
    return;
  }
  WeightSums sums;
  for (const std::string& path : chosen.paths) {
    CheckpointReader reader(path);
    check_vocabularies(session, reader.manifest(), path);
    restore_variables(reader, weights, what, all);
    if (chosen.paths.size() > 1) add_weights(weights, sums);
  }
  set_means(sums, chosen.paths.size(), weights);
}

}  // namespace

void load_weights(const ChosenWeights& chosen, const Session& session, const WeightConversions& conversions,
                  VariableStore& weights, Restore what) {
  const auto load = [&](VariableStore& some) {
    load_some(chosen, session, what, conversions.weights(), some);
  };
  load(weights);
  conversions.make(session, weights, load);
}

std::vector<WeightGroup> together(std::vector<ChosenWeights> chosen, const EnsembleOptions& ensemble) {
  if (ensemble.together) return {std::move(chosen)};
  std::vector<WeightGroup> groups;
  for (ChosenWeights& each : chosen) groups.push_back({std::move(each)});
  return groups;
}

std::string description(const WeightGroup& group) {
  if (group.size() == 1) return group.front().description();
  std::string text = "the ensemble of ";
  for (size_t i = 0; i < group.size(); ++i) {
    const char* between = i == 0 ? "" : i + 1 == group.size() ? " and " : ", ";
    text += between + group[i].description();
  }
  return text;
}

std::vector<std::pair<std::string, std::string>> fields_of(const Session& session,
                                                           const std::vector<WeightGroup>& groups) {
  if (session.processes->size() == 1) return {};
  std::string names, hashes;
  for (const WeightGroup& group : groups) {
    names += (names.empty() ? "" : ", ") + description(group);
    for (const ChosenWeights& weights : group)
      for (const std::string& path : weights.paths) hashes += weights_fingerprint(path) + "\n";
  }
  return {{"weights", names}, {"contents of the weights", hash128_hex(hashes)}};
}

int64_t newest_step(const WeightGroup& group) {
  return std::ranges::max_element(group, {}, &ChosenWeights::step)->step;
}

std::vector<NamedInput> files_of(std::string_view key, std::optional<SourceChoice> source) {
  std::vector<NamedInput> files;
  if (!source) return files;
  for (const config::Path* path : (*source)->paths()) files.push_back({key, path->text});
  return files;
}

void check_output_names(const Config& config, std::string_view key, const std::string& output,
                        const std::vector<WeightGroup>& groups, std::span<const NamedInput> inputs) {
  const Mark mark = config.mark(key);
  check_output_names(output, groups.size(), mark);
  std::map<int64_t, const WeightGroup*> by_step;
  for (const WeightGroup& group : groups) {
    const auto [other, added] = by_step.emplace(newest_step(group), &group);
    if (added) continue;
    throw Error(ErrorKind::kConfig, mark,
                fmt::format("{} and {} are both of step {} and would write into one output",
                            description(*other->second), description(group), newest_step(group)),
                "one of them at a time");
  }
  if (output == "-") return;
  for (const auto& [step, group] : by_step) {
    const std::string name = name_at_step(output, step);
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(name, ignored)) continue;
    if (const std::string lost = lost_file(config, name, inputs); !lost.empty())
      throw Error(ErrorKind::kConfig, mark, fmt::format("{} is {}, which would be lost", name, lost),
                  "another name");
  }
}

GroupModels::GroupModels(const Session& session, const WeightGroup& group, const EnsembleOptions& options,
                         const Mark& mark)
    : ensemble_{{}, options.mean} {
  if (group.size() > 1 && session.layouts.pipeline)
    throw Error(ErrorKind::kConfig, mark, "the members of an ensemble cannot lie on the stages of a pipeline",
                "a layout without `layers`, or one checkpoint");
  for (size_t i = 0; i < group.size(); ++i) {
    const ChosenWeights& member = group[i];
    const std::string& path = member.paths.front();
    std::unique_ptr<Model> model;
    // The run's own checkpoints are of the session's model.
    if (group.size() > 1 && member.by_path) model = model_of(manifest_at(path), path);
    if (model) {
      check_member(session, member, *model, mark);
    } else if (group.size() > 1 && member.by_path && session.processes->is_first()) {
      print_message(
          "{} does not say which model its weights are of: that of this configuration computes with them\n",
          path);
    }
    const bool is_other_run = model && !is_of_run(path, session.config);
    restored_.push_back(is_other_run ? Restore::kAverages : evaluated_weights(session.config));
    ensemble_.members.push_back(
        {model ? model.get() : session.model.get(), options.weights.empty() ? 1 : options.weights[i]});
    if (model) models_.push_back(std::move(model));
  }
  for (const EnsembleMember& member : ensemble_.members)
    programs_.push_back(program_of_weights(decode_environment(session, {{member}}, true)));
}

std::vector<const Program*> GroupModels::programs() const {
  std::vector<const Program*> programs;
  for (const WeightsProgram& member : programs_) programs.push_back(&member.program);
  return programs;
}

GroupWeights::GroupWeights(const Session& session, const GroupModels& models)
    : session_(session),
      models_(models),
      all_(*session.backend, models.programs()[0]->mesh, {}, variable_store_options(session)) {
  for (const Program* program : models.programs()) {
    const std::string name = member_name(std::ssize(members_));
    members_.push_back(std::make_unique<VariableStore>(*session.backend, program->mesh, program->variables,
                                                       variable_store_options(session)));
    all_.share_as(name + "/", *members_.back());
  }
}

void GroupWeights::load(const WeightGroup& group) {
  MTF_CHECK(group.size() == members_.size(), "{} checkpoints for {} members", group.size(), members_.size());
  for (size_t member = 0; member < group.size(); ++member)
    load_weights(group[member], session_, models_.conversions(member), *members_[member],
                 models_.restored(member));
}

}  // namespace mtf
