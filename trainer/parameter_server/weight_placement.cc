#include "trainer/parameter_server/weight_placement.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <numeric>

#include "engine/backend/squares.h"
#include "engine/base/nearest.h"
#include "trainer/config/strategy.h"
#include "trainer/optimizer/patterns.h"
#include "trainer/report/progress.h"
#include "trainer/session/step.h"

namespace mtf {
namespace {

/// Weights smaller than this are not split, since the messages would cost more than the bytes.
constexpr int64_t kLeastSplitBytes = 1 << 16;

int64_t bytes_of(const Variable& variable) { return bytes_of(variable.shape, variable.dtype); }

int64_t rows_of(const Shape& shape) { return shape.rank() > 0 ? shape[0].size : 1; }

WeightPart whole(const Variable& variable, int server) { return {server, 0, rows_of(variable.shape)}; }

/// Returns the variable that a server stores for a part of `variable`.
Variable part_of(const Variable& variable, const WeightPart& part) {
  Variable result = variable;
  if (part.end - part.begin < rows_of(variable.shape))
    result.shape = variable.shape.resized(variable.shape[0].name, part.end - part.begin);
  return result;
}

/// Returns the granularity of splits, in rows: it makes the parts whole blocks of the sum of squares.
int64_t rows_of_block(const Shape& shape) {
  const int64_t of_row = shape.size() / rows_of(shape);
  return kSquaresBlock / std::gcd(kSquaresBlock, of_row);
}

class Placing {
 public:
  Placing(std::vector<PlacedWeight>& weights, size_t servers, const Optimizer& optimizer)
      : weights_(weights), bytes_(servers), splits_(servers > 1 && optimizer->is_elementwise()) {}

  /// Places the weights that match a pattern of the configuration; they are not split.
  void place_chosen(const config::Named<int64_t>& tasks, const Mark& mark, Diagnostics& diagnostics) {
    for (const auto& [pattern, task] : tasks) {
      bool matches = false;
      for (PlacedWeight& weight : weights_) {
        if (!matches_any(weight.variable.name, {pattern})) continue;
        matches = true;
        if (weight.parts.empty()) put(weight, static_cast<int>(task));
      }
      if (matches) continue;
      std::vector<std::string> names;
      for (const PlacedWeight& weight : weights_) names.push_back(weight.variable.name);
      diagnostics.error(mark,
                        fmt::format("`train.strategy.placement`: no variable has `{}` in its name", pattern),
                        did_you_mean(pattern, names));
    }
  }

  void place_by_bytes() {
    std::vector<PlacedWeight*> open;
    int64_t all = 0;
    for (PlacedWeight& weight : weights_) {
      all += bytes_of(weight.variable);
      if (weight.parts.empty()) open.push_back(&weight);
    }
    std::ranges::stable_sort(open, [](const PlacedWeight* a, const PlacedWeight* b) {
      return bytes_of(a->variable) > bytes_of(b->variable);
    });
    for (PlacedWeight* weight : open) {
      const auto least = std::ranges::min_element(bytes_);
      const int64_t bytes = bytes_of(weight->variable);
      const bool fits = (*least + bytes) * static_cast<int64_t>(bytes_.size()) * 16 <= all * 17;
      const bool can_split =
          splits_ && bytes >= kLeastSplitBytes && weight->variable.dtype == DType::kFloat32;
      if (fits || !can_split) {
        put(*weight, static_cast<int>(least - bytes_.begin()));
      } else {
        split(*weight);
      }
    }
  }

 private:
  void put(PlacedWeight& weight, int server) {
    weight.parts = {whole(weight.variable, server)};
    bytes_[server] += bytes_of(weight.variable);
  }

  /// Splits a weight so that all servers have about the same number of bytes afterwards.
  void split(PlacedWeight& weight) {
    const Shape& shape = weight.variable.shape;
    const int64_t of_row = bytes_of(weight.variable) / rows_of(shape), block = rows_of_block(shape);
    // Servers with most bytes first: what they have above an even share reduces the share of the others.
    std::vector<size_t> order(bytes_.size());
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::greater(), [&](size_t server) { return bytes_[server]; });
    int64_t all = std::accumulate(bytes_.begin(), bytes_.end(), bytes_of(weight.variable));
    int64_t left = rows_of(shape);
    std::vector<int64_t> rows(bytes_.size());
    for (size_t i = 0; i < order.size(); ++i) {
      const auto sharers = static_cast<int64_t>(order.size() - i);
      const int64_t room = std::max<int64_t>(all / sharers - bytes_[order[i]], 0);
      const int64_t wished = (room / of_row + block / 2) / block * block;
      rows[order[i]] = sharers == 1 ? left : std::min(left, wished);
      left -= rows[order[i]];
      bytes_[order[i]] += rows[order[i]] * of_row;
      all -= bytes_[order[i]];
    }
    // A part that is not a whole number of blocks must be the last one.
    int64_t begin = 0;
    std::vector<size_t> servers = order;
    std::ranges::sort(servers, {},
                      [&](size_t server) { return std::pair(rows[server] % block != 0, server); });
    for (const size_t server : servers) {
      if (rows[server] == 0) continue;
      weight.parts.push_back({static_cast<int>(server), begin, begin + rows[server]});
      begin += rows[server];
    }
  }

  std::vector<PlacedWeight>& weights_;
  std::vector<int64_t> bytes_;  ///< bytes on each server
  bool splits_;
};

}  // namespace

std::vector<PlacedWeight> place_weights(const Program& program, const Config& config,
                                        Diagnostics& diagnostics) {
  std::vector<PlacedWeight> weights;
  for (const ProgramVariable& v : program.variables) {
    if (v.variable.kind != Variable::Kind::kWeight) continue;
    PlacedWeight weight{
        .variable = v.variable, .parts = {}, .is_trained = is_trained(v.variable.name, config)};
    if (const ValueId id = program.output("grad/" + v.variable.name); id != kNoValue)
      weight.gradient = program.values[id].dtype;
    weights.push_back(std::move(weight));
  }
  const ServerPlacement& placement = parameter_servers(config)->placement;
  Placing placing(weights, server_addresses(config).size(), config.optimizer);
  if (const auto* tasks = std::get_if<config::Named<int64_t>>(&placement))
    placing.place_chosen(*tasks, config.mark("train.strategy.placement"), diagnostics);
  placing.place_by_bytes();
  return weights;
}

ServerGraph build_server_graph(const std::vector<PlacedWeight>& weights, int server,
                               const UpdateOptions& options) {
  ServerGraph result{std::make_unique<Graph>(), {}};
  Graph& graph = *result.update;
  std::vector<VariableGradient> own;
  Tensors squares;
  for (const PlacedWeight& weight : weights) {
    if (weight.gradient)
      squares.push_back(graph.input(fmt::format("square/{}", squares.size()), {}, DType::kFloat64));
    const auto part = std::ranges::find(weight.parts, server, &WeightPart::server);
    if (part == weight.parts.end()) continue;
    const Variable w = part_of(weight.variable, *part);
    const Variable& variable = graph.variable(w.name, w.shape, w.dtype, w.initializer, w.kind, w.step_scale);
    if (!weight.is_trained) continue;
    own.push_back({&variable, {}, part->begin * (w.shape.size() / rows_of(w.shape))});
    if (weight.gradient) own.back().gradient = graph.input("grad/" + w.name, w.shape, *weight.gradient);
  }
  const Tensor loss = graph.input("loss", {});
  const Update update = add_update(graph, loss, own, options, squares);
  graph.set_output("grad_norm", update.grad_norm);
  graph.set_output("finite", update.finite);
  result.scalars = update.scalars;
  return result;
}

std::vector<ServedVariable> served_variables(const std::vector<PlacedWeight>& weights, int servers,
                                             const UpdateOptions& options) {
  // A server's update graph needs at least one gradient in the run, which may belong to another server.
  PlacedWeight elsewhere{.variable = {}, .parts = {}, .gradient = DType::kFloat32};
  std::vector<ServedVariable> served;
  for (int server = 0; server < servers; ++server) {
    for (const PlacedWeight& weight : weights) {
      const auto part = std::ranges::find(weight.parts, server, &WeightPart::server);
      if (part == weight.parts.end()) continue;
      const ServerGraph graph = build_server_graph({weight, elsewhere}, server, options);
      for (const auto& variable : graph.update->variables())
        served.push_back({static_cast<uint32_t>(served.size()), server, *variable, part->begin});
    }
  }
  return served;
}

std::vector<std::string> describe_placement(const std::vector<PlacedWeight>& weights,
                                            const std::vector<ServedVariable>& variables, int servers) {
  std::vector<int64_t> bytes(static_cast<size_t>(servers)), count(bytes.size());
  for (const ServedVariable& v : variables) {
    bytes[v.server] += v.bytes();
    ++count[v.server];
  }
  const auto all = static_cast<double>(std::accumulate(bytes.begin(), bytes.end(), int64_t{0}));
  std::vector<std::string> lines, parts;
  for (int server = 0; server < servers; ++server) {
    const auto here = static_cast<double>(bytes[server]);
    parts.push_back(fmt::format("{} has {} variable{}, {} ({:.0f} %)", server, count[server],
                                count[server] == 1 ? "" : "s", bytes_text(here),
                                all > 0 ? 100 * here / all : 0));
  }
  lines.push_back(fmt::format("parameter servers: {}", fmt::join(parts, ", ")));
  for (const PlacedWeight& weight : weights) {
    if (!weight.is_split()) continue;
    parts.clear();
    for (const WeightPart& part : weight.parts)
      parts.push_back(fmt::format("{} to {} at {}", part.begin, part.end - 1, part.server));
    lines.push_back(fmt::format("parameter servers: `{}` {} is split along `{}`: {}", weight.variable.name,
                                weight.variable.shape.to_string(), weight.variable.shape[0].name,
                                fmt::join(parts, ", ")));
  }
  return lines;
}

}  // namespace mtf
