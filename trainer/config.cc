#include "trainer/config.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>

#include "engine/core/nearest.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;
using config::Node;

/// First line of the file that resolved_yaml makes.
constexpr std::string_view kResolvedHeader = "# Resolved configuration of this run.";

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

void check_patterns(const std::vector<std::string>& patterns, const Mark& mark, std::string_view key,
                    Diagnostics& diagnostics) {
  for (const std::string& pattern : patterns) {
    try {
      const std::regex regex(pattern);
    } catch (const std::regex_error& error) {
      diagnostics.error(
          mark, fmt::format("`{}`: `{}` is not a regular expression: {}", key, pattern, error.what()));
    }
  }
}

/// Number of positions that `devices` asks for; nothing: as many as the mesh needs.
std::optional<int64_t> device_count(const Config& config, const Mark& mark, Diagnostics& diagnostics) {
  int64_t count = 0;
  for (const std::string& device : config.devices) {
    if (device.starts_with("cuda")) {
      diagnostics.error(
          mark, fmt::format("`devices`: `{}` comes with the CUDA backend, which is not there yet", device),
          "`cpu`");
      return std::nullopt;
    }
    const int64_t times = device == "cpu"              ? 1
                          : device.starts_with("cpu*") ? config::to_integer(device.substr(4)).value_or(0)
                                                       : 0;
    if (times < 1) {
      diagnostics.error(mark, fmt::format("`devices`: `{}` is not a device", device), "`cpu` or `cpu*8`");
      return std::nullopt;
    }
    if (device == "cpu" && config.devices.size() == 1) return std::nullopt;
    count += times;
  }
  return count;
}

Mesh resolve_mesh(const Config& config, const Mark& mark, Diagnostics& diagnostics) {
  const std::optional<int64_t> devices = device_count(config, mark, diagnostics);
  if (!config.mesh) return Mesh();
  int64_t given = 1;
  for (const auto& axis : config.mesh->axes) given *= axis.size.value_or(1);
  const Mesh mesh = config.mesh->resolve(devices.value_or(given));
  if (devices && mesh.size() != *devices) {
    diagnostics.error(mark,
                      fmt::format("`mesh` has {} positions and `devices` has {}", mesh.size(), *devices),
                      fmt::format("`devices: cpu*{}`, or `cpu` for as many as the mesh needs", mesh.size()));
  }
  return mesh;
}

class ConfigCheck {
 public:
  ConfigCheck(const Config& config, Diagnostics& diagnostics) : config_(config), diagnostics_(diagnostics) {}

  void run() {
    check_limits();
    check_learning_rate();
    check_mesh();
    check_sources();
    check_trace();
    check_patterns(config_.train.trainable, config_.mark("train.trainable"), "train.trainable", diagnostics_);
    check_patterns(config_.trace.tensors, config_.mark("trace.tensors"), "trace.tensors", diagnostics_);
    check_patterns(common_options(config_.optimizer).no_decay, config_.mark("optimizer.no_decay"),
                   "optimizer.no_decay", diagnostics_);
    if (config_.model.is_null()) error("model", "`model` is missing", "a map with `type` and `layers`");
  }

 private:
  void error(std::string_view path, std::string message, std::string hint = {}) {
    diagnostics_.error(config_.mark(path), std::move(message), std::move(hint));
  }

  void check_limits() {
    const TrainOptions& train = config_.train;
    if (config_.run.mode == RunMode::kTrain && !train.steps && !train.epochs && !train.time) {
      error("train", "nothing says when training ends", "`train.steps`, `train.epochs` or `train.time`");
    }
    if (const auto* batch = std::get_if<int64_t>(&train.batch_size)) {
      if (*batch % train.microbatches != 0) {
        error("train.microbatches",
              fmt::format("`train.microbatches` ({}) does not divide `train.batch_size` ({})",
                          train.microbatches, *batch));
      }
    }
  }

  void check_learning_rate() {
    const bool adafactor = std::holds_alternative<AdafactorOptimizerOptions>(config_.optimizer);
    if (config_.learning_rate.empty() && !adafactor) {
      error("optimizer", "this optimizer needs a `learning_rate`",
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
      resolve_mesh(config_, config_.mark(config_.root.find("devices") ? "devices" : "mesh"), diagnostics_);
    } catch (const Error& problem) {
      for (Problem p : problem.problems()) {
        if (!p.mark.known()) p.mark = config_.mark("mesh");
        diagnostics_.add(std::move(p));
      }
    }
  }

  void check_sources() {
    if (!config_.data.train) {
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
  Diagnostics& diagnostics_;
};

std::string absolute(const std::string& path) { return fs::absolute(path).lexically_normal().string(); }

template <class Source>
void make_absolute(Source& source) {
  std::visit(
      [](auto& options) {
        if constexpr (requires { options.images; }) {
          for (config::Path& path : options.images) path.text = absolute(path.text);
          for (config::Path& path : options.labels) path.text = absolute(path.text);
        }
      },
      source);
}

/// A key of the root, with everything below it as it stands, replaced by `value`.
Node with_section(const Node& root, const std::string& key, const Node& value) {
  return root.with(config::Entry{key, {}, value});
}

}  // namespace

Mark Config::mark(std::string_view path) const {
  const Node* node = &root;
  Mark mark;
  while (!path.empty() && node) {
    const size_t dot = path.find('.');
    const config::Entry* entry = node->entry(path.substr(0, dot));
    if (!entry) break;
    mark = entry->value.mark().known() ? entry->value.mark() : entry->mark;
    node = &entry->value;
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return mark;
}

Config load_config(const std::vector<std::string>& files, const std::vector<std::string>& arguments,
                   Diagnostics& diagnostics) {
  const size_t errors = diagnostics.errors().size();
  const Node root = config::load(files, arguments, diagnostics);
  Config config = config::parse<Config>(root, diagnostics);
  config.root = root;
  if (config.run.model_dir.empty()) config.run.model_dir = default_model_dir(files);
  // After an error a value is the default: what does not fit together then is no news.
  if (diagnostics.errors().size() == errors) ConfigCheck(config, diagnostics).run();
  return config;
}

Layouts make_layouts(const Config& config) {
  Diagnostics diagnostics;
  const Mesh mesh = resolve_mesh(config, {}, diagnostics);
  diagnostics.throw_if_errors();
  return Layouts::make(mesh, config.layout, config.parameter_layout, config.optimizer_layout);
}

int64_t train_batch_size(const Config& config, const Layouts& layouts) {
  if (const auto* size = std::get_if<int64_t>(&config.train.batch_size)) return *size;
  const LayoutMap map(layouts.mesh, layouts.activation);
  int64_t replicas = 1;
  for (const int axis : map.axes("batch")) replicas *= layouts.mesh.size(axis);
  return replicas * *std::get<RelativeBatchSize>(config.train.batch_size).per_replica;
}

int64_t evaluate_batch_size(const Config& config, const Layouts& layouts) {
  if (const auto* size = std::get_if<int64_t>(&config.evaluate.batch_size)) return *size;
  return train_batch_size(config, layouts);
}

int thread_count(const Config& config) {
  if (config.run.threads.value) return static_cast<int>(*config.run.threads.value);
  cpu_set_t cores;
  CPU_ZERO(&cores);
  if (sched_getaffinity(0, sizeof(cores), &cores) != 0) return 1;
  return std::max(1, CPU_COUNT(&cores));
}

Precision precision_of(const Config& config) {
  const auto dtype = [](ElementType type) {
    return type == ElementType::kBFloat16 ? DType::kBFloat16 : DType::kFloat32;
  };
  return {dtype(config.precision.master), dtype(config.precision.slice), dtype(config.precision.activation)};
}

std::string resolved_yaml(const Config& config) {
  Config resolved = config;
  const Layouts layouts = make_layouts(config);
  resolved.train.batch_size = train_batch_size(config, layouts);
  resolved.evaluate.batch_size = evaluate_batch_size(config, layouts);
  if (resolved.mesh) {
    for (int axis = 0; axis < layouts.mesh.rank(); ++axis)
      resolved.mesh->axes[axis].size = layouts.mesh.size(axis);
  }
  if (resolved.data.train) make_absolute(*resolved.data.train);
  for (auto& [name, dataset] : resolved.evaluate.datasets) make_absolute(dataset);
  for (config::Path* path : {&resolved.trace.input, &resolved.trace.output}) {
    if (!path->empty()) path->text = absolute(path->text);
  }
  Node root = config::dump(resolved);
  root = with_section(root, "run", root.find("run")->without("model_dir"));
  if (!config.model.is_null()) {
    const Node variables = config::deferred_variables(config.model);
    if (!variables.entries().empty()) root = with_section(root, "vars", variables);
  }
  return fmt::format("{}\n{}", kResolvedHeader, config::to_yaml(root));
}

}  // namespace mtf
