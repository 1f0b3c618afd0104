#include "trainer/config/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "data/sources/held_out.h"
#include "engine/base/check.h"
#include "engine/base/nearest.h"
#include "engine/base/parse_number.h"
#include "engine/spmd/partition/mesh_advice.h"
#include "models/model.h"
#include "trainer/config/config_check.h"
#include "trainer/config/config_mesh.h"
#include "trainer/config/cores.h"
#include "trainer/config/devices.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;
using config::Node;

DType dtype_of(ElementType type) {
  return type == ElementType::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
}

/// First line of the file that resolved_yaml makes.
bool is_resolved_file(const std::string& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return false;  // a pipe is read once
  std::ifstream file(path);
  std::string line;
  return std::getline(file, line) && line == kResolvedHeader;
}

config::Path default_model_dir(const std::vector<std::string>& files) {
  if (files.empty()) return {};
  const fs::path first(files.front());
  if (first.filename() == "config.yaml" && is_resolved_file(first)) {
    const fs::path parent = first.parent_path();
    return {parent.empty() ? "." : parent.string()};
  }
  return {(fs::path("runs") / first.stem()).string()};
}

/// An empty path stays empty.
std::string absolute(const std::string& path) {
  return path.empty() ? path : fs::absolute(path).lexically_normal().string();
}

template <class Source>
void make_absolute(Source& source) {
  for (config::Path* path : paths_of(source)) path->text = absolute(path->text);
}

/// Files of the sections `infer` and `score` beside those of sources; "-" and nothing are none.
std::vector<std::string*> decoding_files(Config& config) {
  std::vector<std::string*> files{&config.infer.input.text, &config.infer.output,  &config.infer.prefix,
                                  &config.score.inputs,     &config.score.targets, &config.score.output};
  std::erase_if(files, [](const std::string* file) { return file->empty() || *file == "-"; });
  return files;
}

/// A key of a map, with everything below it as it stands, replaced by `value`.
Node with_section(const Node& map, const std::string& key, const Node& value) {
  const config::Entry* entry = map.entry(key);
  return map.with(config::Entry{key, entry != nullptr ? entry->mark : Mark{}, value});
}

}  // namespace

Mark Config::mark(std::string_view path) const { return root.mark_of(path); }

bool is_below(std::string_view path, std::string_view section) {
  return path == section || (path.starts_with(section) && path[section.size()] == '.');
}

bool is_allowed_change(const Config& config, std::string_view path) {
  return std::ranges::any_of(config.run.allow_change,
                             [&](const std::string& key) { return is_below(path, key); });
}

const std::vector<config::KnownKey>& configuration_keys() {
  static const std::vector<config::KnownKey> keys = [] {
    std::vector<config::KnownKey> all = config::known_keys<Config>();
    const std::vector<config::KnownKey> of_models = config::known_keys<ModelChoice>("model");
    all.insert(all.end(), of_models.begin(), of_models.end());
    for (const char* key : {"include", "vars"}) all.push_back({key, {}});
    return all;
  }();
  return keys;
}

/// What evaluate.infer does not give is as in section `infer`, but for the method.
static void complete_evaluation_infer(Config& config) {
  const Node* evaluate = config.root.find("evaluate");
  const Node* own = evaluate != nullptr ? evaluate->find("infer") : nullptr;
  const auto missing = [&](const char* key) { return own == nullptr || own->find(key) == nullptr; };
  DecodeOptions& infer = config.evaluate.infer;
  if (missing("beam_size")) infer.beam_size = config.infer.beam_size;
  if (missing("length_penalty")) infer.length_penalty = config.infer.length_penalty;
  if (missing("max_length")) infer.max_length = config.infer.max_length;
  if (missing("min_length")) infer.min_length = config.infer.min_length;
  if (missing("force_end")) infer.force_end = config.infer.force_end;
  if (missing("no_repeat_ngram_size")) infer.no_repeat_ngram_size = config.infer.no_repeat_ngram_size;
  if (missing("repetition_penalty")) infer.repetition_penalty = config.infer.repetition_penalty;
  if (missing("suppress_tokens")) infer.suppress_tokens = config.infer.suppress_tokens;
  if (missing("stop_tokens")) infer.stop_tokens = config.infer.stop_tokens;
  if (missing("stop")) infer.stop = config.infer.stop;
  if (missing("batch_size")) infer.batch_size = config.infer.batch_size;
}

/// What `data.split` holds out is evaluated, also where evaluate.datasets says nothing of it.
static void evaluate_held_out(Config& config) {
  for (const auto& [name, share] : config.data.split) {
    if (!config.evaluate.datasets.find(name))
      config.evaluate.datasets.emplace_back(name, EvaluationSourceOptions{SourceChoice(kHeldOut), {}});
  }
}

/// Which process of how many this is, as far as section `cluster` is right.
static void find_launch(Config& config, Diagnostics& diagnostics) {
  ClusterOptions options = cluster_options(config);
  try {
    config.launch = detect_launch(options, environment_of_process());
  } catch (const Error& error) {
    const bool is_plan = config.run.mode == RunMode::kExplain && options.processes && !options.process &&
                         !options.address && options.jobs.empty();
    if (!is_plan) {
      diagnostics.add(error);
      return;
    }
    // Only their number is given: the plan is that of the first process, and nobody is met.
    options.launcher = Launcher::kNone;
    options.process = 0;
    options.address = "planned:1";
    config.launch = detect_launch(options, {});
  }
  if (config.machine && config.machine->device.kind == DeviceKind::kCpu)
    config.launch.local_size = processes_of_machine(*config.machine, config.launch.size);
}

/// Loads what `hardware` names, for run.mode=explain; other modes run on the hardware that is there, and run.mode=bench
/// compares it with `hardware`. GPUs are planned
/// without naming them in `devices`.
static void find_hardware(Config& config, Diagnostics& diagnostics) {
  if (config.run.mode != RunMode::kExplain || !config.hardware) return;
  config.machine = load_hardware(*config.hardware, diagnostics);
  if (!config.machine) return;
  const bool is_cuda = config.machine->device.kind == DeviceKind::kCuda;
  const Node* given = config.root.find("devices");
  if (given == nullptr || given->is_null()) {
    if (is_cuda) config.devices = {"cuda"};
    return;
  }
  for (size_t i = 0; i < config.devices.size(); ++i) {
    if (config.devices[i].starts_with("cuda") == is_cuda) continue;
    const DeviceOptions& device = config.machine->device;
    diagnostics.error(
        config.mark(fmt::format("devices.{}", i)),
        fmt::format("`devices: {}` is not what `hardware` has{}: {}", config.devices[i],
                    device.name.empty() ? "" : ", " + device.name, is_cuda ? "GPUs" : "processors"),
        is_cuda ? "`devices: cuda`, or leave it out" : "`devices: cpu`, or leave it out");
    return;
  }
}

static bool is_of_images(const Node& source) {
  const Node* type = source.find("type");
  return type != nullptr && type->text() == "images";
}

/// The first source of images in data.train; nullptr if there is none.
static const Node* training_images(const Node& root) {
  const Node* data = root.find("data");
  const Node* train = data != nullptr ? data->find("train") : nullptr;
  if (train == nullptr || is_of_images(*train)) return train;
  const auto named =
      std::ranges::find_if(train->entries(), [](const config::Entry& e) { return is_of_images(e.value); });
  return named != train->entries().end() ? &named->value : nullptr;
}

/// Returns a source of images with what data.train says and it does not: images are prepared alike.
static Node with_image_keys(Node source, const Node& train) {
  if (!is_of_images(source)) return source;
  for (const char* key : {"size", "channels", "resize", "max_pixels"}) {
    const config::Entry* given = train.entry(key);
    if (given != nullptr && source.entry(key) == nullptr) source = source.with(*given);
  }
  return source;
}

/// Completes the images of evaluate.datasets and infer.input by data.train.
static Node with_image_keys(const Node& given) {
  const Node* train = training_images(given);
  const Node *evaluate = given.find("evaluate"), *infer = given.find("infer");
  Node root = given;
  if (const Node* sets = evaluate != nullptr ? evaluate->find("datasets") : nullptr; sets && train) {
    Node datasets = *sets;
    for (config::Entry set : sets->entries()) {
      set.value = with_image_keys(set.value, *train);
      datasets = datasets.with(std::move(set));
    }
    root = with_section(root, "evaluate", with_section(*evaluate, "datasets", datasets));
  }
  if (const Node* input = infer != nullptr ? infer->find("input") : nullptr; input && train)
    root = with_section(root, "infer", with_section(*infer, "input", with_image_keys(*input, *train)));
  return root;
}

/// `model_dir`: where the files name none.
static Config typed(const Node& given, const config::Path& model_dir, Diagnostics& diagnostics) {
  const Node root = with_image_keys(given);
  Config config = config::parse<Config>(root, diagnostics, {}, {}, &configuration_keys);
  config.root = root;
  complete_evaluation_infer(config);
  evaluate_held_out(config);
  for (std::string* file : decoding_files(config)) *file = config::expand_home(*file);
  if (config.run.model_dir.empty()) config.run.model_dir = model_dir;
  find_hardware(config, diagnostics);
  find_launch(config, diagnostics);
  check_config(config, diagnostics);
  return config;
}

Config load_config(const std::vector<std::string>& files, const std::vector<std::string>& arguments,
                   Diagnostics& diagnostics) {
  return typed(config::load(files, arguments, diagnostics), default_model_dir(files), diagnostics);
}

Config load_resolved(const std::string& text, const std::string& name, Diagnostics& diagnostics,
                     std::vector<std::string> arguments) {
  arguments.insert(arguments.end(), {"devices=cpu", "cluster={launcher: none}"});
  return typed(config::load_text(text, name, arguments, diagnostics), {}, diagnostics);
}

Hosting hosting_of(const Config& config) {
  if (config.hosts_all || is_asynchronous(config)) return {};
  return {config.launch.size, config.launch.rank};
}

Layouts make_layouts(const Config& config) { return make_layouts(config, resolve_mesh(config)); }

Layouts make_layouts(const Config& config, const Mesh& mesh) {
  Layouts layouts =
      Layouts::make(mesh, config.layout.without(kLayers), config.parameter_layout, config.optimizer_layout);
  layouts.pipeline = pipeline_of(config, mesh);
  if (const auto teacher = teacher_section(config)) {
    const TeacherOptions& options = teacher->options;
    layouts.part =
        ScopeLayouts{std::string(kTeacher), teacher->name, options.layout.value_or(layouts.activation),
                     options.layout.value_or(layouts.parameter).plus(options.parameter_layout)};
  }
  return layouts;
}

std::optional<TeacherSection> teacher_section(const Config& config) {
  if (config.distill) return TeacherSection{"distill", config.distill->teacher};
  if (!config.preference) return std::nullopt;
  TeacherSection section{"preference", config.preference->teacher};
  if (section.options.checkpoint.empty()) section.options.checkpoint = config.checkpoint.init.path;
  return section;
}

namespace {

/// The stage that a key of section `placement` names.
int64_t stage_number(const std::string& key, const Mark& mark) {
  if (const auto stage = parse_number<int64_t>(key)) return *stage;
  throw Error(ErrorKind::kConfig, mark,
              fmt::format("`placement` has `{}` where the number of a stage belongs", key),
              "{stages: {0: [block_0..3], 1: [block_4..7]}}");
}

}  // namespace

std::optional<Pipeline> pipeline_of(const Config& config, const Mesh& mesh) {
  const LayoutRule* rule = config.layout.find(kLayers);
  if (rule == nullptr && config.placement.empty()) return std::nullopt;
  Pipeline pipeline{.mesh_dimension = {},
                    .rounds = config.pipeline.rounds,
                    .schedule = config.pipeline.schedule,
                    .mark = rule == nullptr ? config.mark("placement") : rule->mark};
  const auto refuse = [&](const std::string& message, const std::string& hint) {
    throw Error(ErrorKind::kConfig, pipeline.mark, message, hint);
  };
  if (rule != nullptr && !config.placement.empty())
    refuse("`layout` and `placement` both place layers on stages",
           "`layout: {layers: stages}`, or `placement`");
  const size_t dimensions = rule == nullptr ? config.placement.size() : rule->mesh_dimensions.size();
  pipeline.mesh_dimension = rule == nullptr ? config.placement.front().first : rule->mesh_dimensions.front();
  if (dimensions > 1) refuse("the stages of a pipeline lie along one mesh dimension", "{layers: stages}");
  if (!mesh.shape().contains(pipeline.mesh_dimension))
    refuse(fmt::format("the stages of a pipeline are `{}`, which is no dimension of the mesh",
                       pipeline.mesh_dimension),
           advise_mesh_dimension(mesh, pipeline.mesh_dimension));
  if (rule != nullptr) return pipeline;
  if (pipeline.rounds > 1)
    refuse(
        "`pipeline.rounds` is for `layout: {layers: stages}`: `placement` says itself which chunks a stage "
        "has",
        "leave `pipeline.rounds` out");
  for (const auto& [key, names] : config.placement.front().second)
    pipeline.placement[stage_number(key, pipeline.mark)] = names;
  return pipeline;
}

bool searches_layout(const Config& config) {
  return (config.mesh && config.mesh->is_auto) || config.layout.is_auto || config.parameter_layout.is_auto ||
         config.optimizer_layout.is_auto;
}

int64_t longest_row(const Config& config) {
  const BySide<int64_t> lengths = sequence_lengths(*config.data.sequence_length);
  return std::max(lengths.inputs, lengths.targets);
}

int64_t train_batch_size(const Config& config, const Layouts& layouts) {
  if (const auto* size = std::get_if<int64_t>(&config.train.batch_size)) return *size;
  const auto& relative = std::get<RelativeBatchSize>(config.train.batch_size);
  const int64_t replicas = relative.tokens ? 1 : LayoutMap(layouts.mesh, layouts.activation).parts("batch");
  if (relative.per_replica) return replicas * *relative.per_replica;
  return replicas * (*relative.all_tokens() / longest_row(config));
}

int64_t evaluate_batch_size(const Config& config, const Layouts& layouts) {
  if (const auto* size = std::get_if<int64_t>(&config.evaluate.batch_size)) return *size;
  return train_batch_size(config, layouts);
}

uint64_t data_seed(const Config& config) {
  return static_cast<uint64_t>(config.data.seed.value_or(config.run.seed));
}

int thread_count(const Config& config) {
  if (config.run.threads.value) return static_cast<int>(*config.run.threads.value);
  return usable_cores(config.launch.local_size);
}

bool has_training_step(RunMode mode) {
  return mode == RunMode::kTrain || mode == RunMode::kExplain || mode == RunMode::kTrace ||
         mode == RunMode::kBench;
}

Precision precision_of(const Config& config) {
  // Other modes than training read running means, which are float32, in place of the weights.
  const bool reads_averages = config.train.ema_decay && !has_training_step(config.run.mode);
  return {dtype_of(config.precision.master),
          reads_averages ? DType::kFloat32 : dtype_of(config.precision.slice),
          dtype_of(config.precision.activation), config.precision.matmul};
}

DType slot_type_of(const Config& config) {
  switch (config.precision.slots) {
    case SlotType::kFloat32:
      return DType::kFloat32;
    case SlotType::kBFloat16:
      return DType::kBFloat16;
    case SlotType::kInt8:
      return DType::kInt8;
  }
  MTF_CHECK(false, "slot type {}", static_cast<int>(config.precision.slots));
}

bool slots_on_host(const Config& config) {
  return config.offload.slots == MemoryPlace::kHost && names_gpus(config) &&
         parameter_servers(config) == nullptr;
}

std::optional<int64_t> offloaded_bytes(const Config& config) {
  if (config.offload.activations == MemoryPlace::kDevice || !names_gpus(config)) return std::nullopt;
  return config.offload.least_bytes.value;
}

Config resolved(const Config& config) {
  Config resolved = config;
  const Layouts layouts = make_layouts(config);
  resolved.train.batch_size = train_batch_size(config, layouts);
  resolved.evaluate.batch_size = evaluate_batch_size(config, layouts);
  if (resolved.mesh && !resolved.mesh->is_auto) {
    for (int axis = 0; axis < layouts.mesh.rank(); ++axis)
      resolved.mesh->axes[axis].size = layouts.mesh.size(axis);
  }
  if (resolved.data.train) make_absolute(*resolved.data.train);
  if (resolved.data.vocabulary) make_absolute(*resolved.data.vocabulary);
  for (auto& [name, dataset] : resolved.evaluate.datasets) make_absolute(dataset);
  for (config::Path* path : {&resolved.data.cache, &resolved.trace.input, &resolved.trace.output,
                             &resolved.report.output, &resolved.checkpoint.init.path}) {
    if (!path->empty()) path->text = absolute(path->text);
  }
  const auto resolve_teacher = [](auto& section) {
    if (!section) return;
    for (config::Path* path : {&section->teacher.checkpoint, &section->teacher.config}) {
      if (!path->empty()) path->text = absolute(path->text);
    }
  };
  resolve_teacher(resolved.distill);
  resolve_teacher(resolved.preference);
  for (config::Path& file : resolved.report.samples) file.text = absolute(file.text);
  if (resolved.hardware) {
    auto* file = std::get_if<config::Path>(&*resolved.hardware);
    if (file != nullptr && is_hardware_file(*file)) file->text = absolute(file->text);
  }
  for (InferCheckpoints* checkpoint :
       {&resolved.evaluate.checkpoint, &resolved.infer.checkpoint, &resolved.score.checkpoint}) {
    if (auto* path = std::get_if<config::Path>(checkpoint)) path->text = absolute(path->text);
    if (auto* list = std::get_if<std::vector<CheckpointChoice>>(checkpoint)) {
      for (CheckpointChoice& choice : *list) {
        if (auto* path = std::get_if<config::Path>(&choice)) path->text = absolute(path->text);
      }
    }
  }
  for (std::string* file : decoding_files(resolved)) *file = absolute(*file);
  for (std::optional<SourceChoice>* source : {&resolved.infer.input.choice, &resolved.score.data}) {
    if (!*source) continue;
    for (config::Path* path : (**source)->paths()) path->text = absolute(path->text);
  }
  resolved.cluster = without_processes(config.cluster);
  return resolved;
}

std::string resolved_yaml(const Config& config) {
  Node root = config::dump(resolved(config));
  root = with_section(root, "run", root.find("run")->without("model_dir"));
  if (!config.model.is_null()) {
    const Node variables = config::deferred_variables(config.model);
    if (!variables.entries().empty()) root = with_section(root, "vars", variables);
  }
  return fmt::format("{}\n{}", kResolvedHeader, config::to_yaml(root));
}

}  // namespace mtf
