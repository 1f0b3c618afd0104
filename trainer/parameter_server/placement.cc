#include "trainer/parameter_server/placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "trainer/parameter_server/strategy.h"

namespace mtf {
namespace {

int64_t bytes_of(const Variable& variable) {
  return variable.shape.size() * static_cast<int64_t>(size_of(variable.dtype));
}

/// The task that a pattern of the configuration gives.
std::optional<int> chosen_server(const std::string& name, const ServerPlacement& placement) {
  const auto* tasks = std::get_if<config::Named<int64_t>>(&placement);
  if (tasks == nullptr) return std::nullopt;
  for (const auto& [pattern, task] : *tasks) {
    if (matches_any(name, {pattern})) return static_cast<int>(task);
  }
  return std::nullopt;
}

/// Every weight without a place goes to the server with the fewest bytes, the largest first.
void place_by_bytes(std::vector<PlacedWeight>& weights, size_t servers) {
  std::vector<int64_t> bytes(servers);
  std::vector<PlacedWeight*> open;
  for (PlacedWeight& weight : weights) {
    if (weight.server < 0) {
      open.push_back(&weight);
    } else {
      bytes[weight.server] += bytes_of(weight.variable);
    }
  }
  std::ranges::stable_sort(open, [](const PlacedWeight* a, const PlacedWeight* b) {
    return bytes_of(a->variable) > bytes_of(b->variable);
  });
  for (PlacedWeight* weight : open) {
    weight->server = static_cast<int>(std::ranges::min_element(bytes) - bytes.begin());
    bytes[weight->server] += bytes_of(weight->variable);
  }
}

}  // namespace

std::vector<std::string> server_addresses(const Config& config) {
  for (const auto& [job, tasks] : config.launch.jobs) {
    if (job == "ps") return tasks;
  }
  return {};
}

std::vector<PlacedWeight> place_weights(const Program& program, const Config& config) {
  const ServerPlacement& placement = parameter_servers(config)->placement;
  std::vector<PlacedWeight> weights;
  for (const ProgramVariable& v : program.variables) {
    if (v.variable.kind != Variable::Kind::kWeight) continue;
    PlacedWeight weight{.variable = v.variable,
                        .server = chosen_server(v.variable.name, placement).value_or(-1),
                        .is_trained = matches_any(v.variable.name, config.train.trainable)};
    if (const ValueId id = program.output("grad/" + v.variable.name); id != kNoValue)
      weight.gradient = program.values[id].dtype;
    weights.push_back(std::move(weight));
  }
  place_by_bytes(weights, server_addresses(config).size());
  return weights;
}

ServerGraphs build_server_graphs(const std::vector<PlacedWeight>& weights, int server,
                                 const UpdateOptions& options) {
  ServerGraphs graphs{std::make_unique<Graph>(), std::make_unique<Graph>(), {}};
  std::vector<VariableGradient> own, own_of_squares;
  Tensors squares;
  for (const PlacedWeight& weight : weights) {
    const std::string input = "grad/" + weight.variable.name;
    if (weight.gradient) {
      squares.push_back(graphs.update->input(fmt::format("square/{}", squares.size()), {}, DType::kFloat64));
    }
    if (weight.server != server) continue;
    const Variable& w = weight.variable;
    const Variable& variable = graphs.update->variable(w.name, w.shape, w.dtype, w.initializer, w.kind);
    if (!weight.is_trained) continue;
    own.push_back({&variable, {}});
    if (!weight.gradient) continue;
    own.back().gradient = graphs.update->input(input, w.shape, *weight.gradient);
    const Variable& same = graphs.squares->variable(w.name, w.shape, w.dtype, w.initializer, w.kind);
    own_of_squares.push_back({&same, graphs.squares->input(input, w.shape, *weight.gradient)});
  }
  const Tensors own_squares = gradient_squares(*graphs.squares, own_of_squares);
  graphs.gradients = own_squares.size();
  for (size_t i = 0; i < own_squares.size(); ++i)
    graphs.squares->set_output(fmt::format("square/{}", i), own_squares[i]);
  const Tensor loss = graphs.update->input("loss", {});
  const Update update = add_update(*graphs.update, loss, own, options, squares);
  graphs.update->set_output("grad_norm", update.grad_norm);
  graphs.update->set_output("finite", update.finite);
  graphs.scalars = update.scalars;
  return graphs;
}

std::vector<ServedVariable> served_variables(const std::vector<PlacedWeight>& weights, int servers,
                                             const UpdateOptions& options) {
  std::vector<ServedVariable> served;
  for (int server = 0; server < servers; ++server) {
    const ServerGraphs graphs = build_server_graphs(weights, server, options);
    for (const auto& variable : graphs.update->variables())
      served.push_back({static_cast<uint32_t>(served.size()), server, *variable});
  }
  return served;
}

}  // namespace mtf
