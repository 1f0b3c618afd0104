#include "trainer/config.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>

#include "engine/core/nearest.h"
#include "models/model_options.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;
using config::Node;

/// First line of the file that resolved_yaml makes.
bool is_resolved_file(const std::string& path) {
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

/// Number of positions that `devices` asks for; nothing: as many as the mesh needs. Throws Error.
std::optional<int64_t> device_count(const Config& config) {
  constexpr int64_t kMostDevices = 1'000'000;
  int64_t count = 0;
  for (size_t i = 0; i < config.devices.size(); ++i) {
    const std::string& device = config.devices[i];
    const Mark mark = config.mark(fmt::format("devices.{}", i));
    if (device.starts_with("cuda")) {
      throw Error(ErrorKind::kConfig, mark,
                  fmt::format("`devices`: `{}` comes with the CUDA backend, which is not there yet", device),
                  "`cpu`");
    }
    const int64_t times = device == "cpu"              ? 1
                          : device.starts_with("cpu*") ? config::to_integer(device.substr(4)).value_or(0)
                                                       : 0;
    if (times < 1 || times > kMostDevices) {
      throw Error(ErrorKind::kConfig, mark, fmt::format("`devices`: `{}` is not a device", device),
                  "`cpu` or `cpu*8`");
    }
    if (device == "cpu" && config.devices.size() == 1) return std::nullopt;
    count += times;
  }
  return count;
}

/// "1 process with 8, 2 with 4, 4 with 2, 8 with 1": how many positions each of so many processes may have.
std::string legal_splits(int64_t positions) {
  constexpr size_t kMost = 8;
  std::vector<std::string> splits;
  for (int64_t n = 1; n <= positions && splits.size() < kMost; ++n) {
    if (positions % n == 0)
      splits.push_back(fmt::format("{} with {}", n == 1 ? "1 process" : fmt::to_string(n), positions / n));
  }
  return fmt::format("{}", fmt::join(splits, ", "));
}

/// The positions of `mesh` must be those that the processes have.
void check_processes(const Config& config, const Mesh& mesh, const std::optional<int64_t>& devices,
                     int processes) {
  const Mark mark = config.mark(devices ? "devices" : "mesh");
  const std::string positions = mesh.size() == 1 ? "1 position" : fmt::format("{} positions", mesh.size());
  if (processes == 1) {
    if (!devices || mesh.size() == *devices) return;
    throw Error(ErrorKind::kConfig, config.mark(config.root.find("devices") ? "devices" : "mesh"),
                fmt::format("`mesh` has {} and `devices` has {}", positions, *devices),
                fmt::format("`devices: cpu*{}`, or `cpu` for as many as the mesh needs", mesh.size()));
  }
  if (devices ? mesh.size() == *devices * processes : mesh.size() % processes == 0) return;
  throw Error(
      ErrorKind::kConfig, mark,
      devices ? fmt::format("`mesh` has {}, and {} processes with {} each have {}", positions, processes,
                            *devices, *devices * processes)
              : fmt::format("`mesh` has {}, which {} processes cannot share evenly", positions, processes),
      fmt::format("for this mesh: {}", legal_splits(mesh.size())));
}

/// Throws Error when `mesh`, `devices` and the processes are not right or do not fit.
Mesh resolve_mesh(const Config& config) {
  const std::optional<int64_t> devices = device_count(config);
  const int processes = hosting_of(config).processes;
  if (!config.mesh) {
    if (processes > 1) {
      throw Error(
          ErrorKind::kConfig, config.mark("mesh"),
          fmt::format("without `mesh` there is 1 position, which {} processes cannot share", processes),
          fmt::format("for example `mesh: {{all: {}}}` and `layout: {{batch: all}}`", processes));
    }
    return Mesh();
  }
  int64_t given = 1;
  for (const auto& axis : config.mesh->axes) given *= axis.size.value_or(1);
  const int64_t positions = devices.value_or(1) * processes;  // one per process unless `devices` says more
  const bool counted = devices || processes > 1;
  if (counted && config.mesh->has_auto() && positions % given != 0) {
    throw Error(ErrorKind::kConfig, config.mark("mesh"),
                processes == 1
                    ? fmt::format("the sizes of `mesh` ({}) do not divide the {} positions of `devices`",
                                  given, positions)
                    : fmt::format("the sizes of `mesh` ({}) do not divide the {} positions of {} processes",
                                  given, positions, processes),
                fmt::format("sizes whose product divides {}{}", positions,
                            processes == 1 ? "" : ", or `devices: cpu*N` for N positions in each process"));
  }
  const Mesh mesh = config.mesh->resolve(counted ? positions : given);
  check_processes(config, mesh, devices, processes);
  return mesh;
}

/// "2 or 4": the divisors of `n` next to `wanted`, which is none.
std::string nearest_divisors(int64_t n, int64_t wanted) {
  constexpr int64_t kTried = 1'000'000;
  int64_t below = std::min(wanted, n), above = wanted;
  while (n % below != 0 && wanted - below < kTried) --below;
  while (above < n && n % above != 0 && above - wanted < kTried) ++above;
  return above > n || n % above != 0 ? fmt::format("{}", below) : fmt::format("{} or {}", below, above);
}

/// Tokens of a row of the longest feature.
int64_t longest_row(const Config& config) {
  const BySide<int64_t> lengths = sequence_lengths(*config.data.sequence_length);
  return std::max(lengths.inputs, lengths.targets);
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
    if (sound_.contains({"train", "run"})) check_limits();
    if (sound_.contains({"evaluate"})) check_size("evaluate.batch_size", config_.evaluate.batch_size);
    if (sound_.contains({"train", "run", "optimizer", "learning_rate"})) check_learning_rate();
    if (sound_.contains({"mesh", "devices"})) check_mesh();
    if (sound_.contains({"data"})) check_sources();
    if (sound_.contains({"run", "trace"})) check_trace();
    if (sound_.contains({"cluster"})) check_cluster(cluster_options(config_), diagnostics_);
    if (sound_.contains({"cluster", "train"})) check_strategy(config_, diagnostics_);
    check_patterns("train.trainable", config_.train.trainable);
    check_patterns("trace.tensors", config_.trace.tensors);
    check_patterns("optimizer.no_decay", common_options(config_.optimizer).no_decay);
    check_patterns("checkpoint.init.include", config_.checkpoint.init.include);
    check_patterns("checkpoint.init.exclude", config_.checkpoint.init.exclude);
    if (config_.model.is_null() && sound_.contains({"model"}))
      error("model", "`model` is missing", "a map with `type` and `layers`");
  }

 private:
  void error(std::string_view path, std::string message, std::string hint = {}) {
    diagnostics_.error(config_.mark(path), std::move(message), std::move(hint));
  }

  /// `key` names a list of patterns.
  void check_patterns(const std::string& key, const std::vector<std::string>& patterns) {
    constexpr size_t kLongestPattern = 500;  // std::regex calls itself for each bracket
    for (size_t i = 0; i < patterns.size(); ++i) {
      const std::string& pattern = patterns[i];
      const std::string path = fmt::format("{}.{}", key, i);
      if (pattern.size() > kLongestPattern) {
        error(path, fmt::format("`{}`: a pattern of more than {} characters", key, kLongestPattern));
        sound_.remove(key.substr(0, key.find('.')));
        continue;
      }
      try {
        const std::regex regex(pattern);
      } catch (const std::regex_error& wrong) {
        error(path, fmt::format("`{}`: `{}` is not a regular expression: {}", key, pattern, wrong.what()));
        sound_.remove(key.substr(0, key.find('.')));
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
    if (const auto* batch = std::get_if<int64_t>(&train.batch_size)) {
      if (*batch % train.microbatches != 0) {
        error("train.microbatches",
              fmt::format("`train.microbatches` ({}) does not divide `train.batch_size` ({})",
                          train.microbatches, *batch),
              "it could be " + nearest_divisors(*batch, train.microbatches));
        sound_.remove("train");
      }
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
    const bool adafactor = std::holds_alternative<AdafactorOptimizerOptions>(config_.optimizer);
    if (config_.learning_rate.empty() && !adafactor) {
      const Node optimizer = config::dump(config_.optimizer);
      error("optimizer", fmt::format("`{}` needs a `learning_rate`", optimizer.find("type")->text()),
            "for example `learning_rate: 0.001`; adafactor alone has one of its own");
    }
    const TrainOptions& train = config_.train;
    if (config_.run.mode == RunMode::kTrain && needs_total(config_.learning_rate) && !train.steps &&
        !train.epochs) {
      error("learning_rate",
            "the schedule depends on the length of the run, which `train.time` does not give in steps",
            "`total_steps` in the schedule, or `train.steps`");
    }
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
    const bool reads_other_texts = mode == RunMode::kInfer || mode == RunMode::kScore;
    if (!config_.data.train && !reads_other_texts) {
      error("data", "`data.train` is missing",
            "a map with `type`, for example idx with `images` and `labels`");
    }
  }

  void check_trace() {
    if (config_.run.mode != RunMode::kTrace) return;
    if (config_.trace.input.empty()) error("trace", "`trace.input` is missing", "a safetensors file");
    if (config_.trace.output.empty()) error("trace", "`trace.output` is missing", "a safetensors file");
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
    config.launch.size = 1;
    config.launch.rank = 0;
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
  if (!sound.contains({"evaluate"})) config.evaluate = {};
  if (!sound.contains({"model"})) config.model = Node();
}

std::string absolute(const std::string& path) { return fs::absolute(path).lexically_normal().string(); }

template <class Source>
void make_absolute(Source& source) {
  for (config::Path* path : paths_of(source)) path->text = absolute(path->text);
}

/// Files of the sections `infer` and `score`; "-" and nothing are none.
std::vector<std::string*> decoding_files(Config& config) {
  std::vector<std::string*> files{&config.infer.input,  &config.infer.output,  &config.infer.prefix,
                                  &config.score.inputs, &config.score.targets, &config.score.output};
  std::erase_if(files, [](const std::string* file) { return file->empty() || *file == "-"; });
  return files;
}

/// A key of the root, with everything below it as it stands, replaced by `value`.
Node with_section(const Node& root, const std::string& key, const Node& value) {
  return root.with(config::Entry{key, {}, value});
}

}  // namespace

Mark Config::mark(std::string_view path) const {
  const Node* node = &root;
  Mark mark = root.mark();
  while (!path.empty() && node) {
    const size_t dot = path.find('.');
    const std::string_view key = path.substr(0, dot);
    if (const std::optional<int64_t> index = node->is_list() ? config::to_integer(key) : std::nullopt) {
      if (*index < 0 || *index >= static_cast<int64_t>(node->elements().size())) break;
      node = &node->elements()[*index];
      mark = node->mark();
    } else {
      const config::Entry* entry = node->entry(key);
      if (!entry) break;
      mark = entry->value.mark().known() ? entry->value.mark() : entry->mark;
      node = &entry->value;
    }
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return mark;
}

const std::vector<config::KnownKey>& configuration_keys() {
  static const std::vector<config::KnownKey> keys = [] {
    std::vector<config::KnownKey> all = config::known_keys<Config>();
    const std::vector<config::KnownKey> of_models = config::known_keys<ModelOptions>("model");
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
  if (missing("batch_size")) infer.batch_size = config.infer.batch_size;
}

/// Which process of how many this is, as far as section `cluster` is right.
static void find_launch(Config& config, Diagnostics& diagnostics) {
  try {
    config.launch = detect_launch(cluster_options(config), environment_of_process());
  } catch (const Error& error) {
    diagnostics.add(error);
  }
}

Config load_config(const std::vector<std::string>& files, const std::vector<std::string>& arguments,
                   Diagnostics& diagnostics) {
  const Node root = config::load(files, arguments, diagnostics);
  Config config = config::parse<Config>(root, diagnostics, {}, {}, &configuration_keys);
  config.root = root;
  complete_evaluation_infer(config);
  for (std::string* file : decoding_files(config)) *file = config::expand_home(*file);
  if (config.run.model_dir.empty()) config.run.model_dir = default_model_dir(files);
  SoundSections sound(root);
  find_launch(config, diagnostics);
  ConfigCheck(config, sound, diagnostics).run();
  forget_unsound(config, sound);
  return config;
}

Hosting hosting_of(const Config& config) {
  if (is_asynchronous(config)) return {};
  return {config.launch.size, config.launch.rank};
}

Layouts make_layouts(const Config& config) {
  const Mesh mesh = resolve_mesh(config);
  return Layouts::make(mesh, config.layout, config.parameter_layout, config.optimizer_layout);
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

/// The processes of a machine share its cores, unless the launcher has given each cores of its own: then this
/// process may use others than its parent.
int thread_count(const Config& config) {
  if (config.run.threads.value) return static_cast<int>(*config.run.threads.value);
  cpu_set_t cores, of_parent;
  CPU_ZERO(&cores);
  CPU_ZERO(&of_parent);
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
  const bool own =
      sched_getaffinity(getppid(), sizeof(of_parent), &of_parent) == 0 && !CPU_EQUAL(&cores, &of_parent);
  return std::max(1, CPU_COUNT(&cores) / (own ? 1 : config.launch.local_size));
}

Precision precision_of(const Config& config) {
  const auto dtype = [](ElementType type) {
    return type == ElementType::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
  };
  return {dtype(config.precision.master), dtype(config.precision.slice), dtype(config.precision.activation)};
}

Config resolved(const Config& config) {
  Config resolved = config;
  const Layouts layouts = make_layouts(config);
  resolved.train.batch_size = train_batch_size(config, layouts);
  resolved.evaluate.batch_size = evaluate_batch_size(config, layouts);
  if (resolved.mesh) {
    for (int axis = 0; axis < layouts.mesh.rank(); ++axis)
      resolved.mesh->axes[axis].size = layouts.mesh.size(axis);
  }
  if (resolved.data.train) make_absolute(*resolved.data.train);
  if (resolved.data.vocabulary) make_absolute(*resolved.data.vocabulary);
  for (auto& [name, dataset] : resolved.evaluate.datasets) make_absolute(dataset);
  for (config::Path* path : {&resolved.data.cache, &resolved.trace.input, &resolved.trace.output,
                             &resolved.checkpoint.init.path}) {
    if (!path->empty()) path->text = absolute(path->text);
  }
  for (std::string* file : decoding_files(resolved)) *file = absolute(*file);
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
