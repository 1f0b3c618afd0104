#include "trainer/plan/bounds.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string_view>
#include <unordered_map>

#include "engine/graph/structural.h"

namespace mtf {
namespace {

/// Operations whose gradient by an operand is the sum over the dimensions that this operand lacks.
bool sums_gradient(std::string_view operation) {
  constexpr std::array<std::string_view, 5> names{"einsum", "gather", "add", "multiply", "subtract"};
  return std::ranges::find(names, operation) != names.end();
}

DimensionSet all_of(const SplittableDimensions& dimensions, const Operation& operation) {
  DimensionSet set;
  for (const Tensor& input : operation.inputs()) set |= dimensions.of(input.shape());
  for (const OutputInfo& output : operation.outputs()) set |= dimensions.of(output.shape);
  return set;
}

/// True if one of the scopes is `path` or around it.
bool is_in(const std::set<std::string>& scopes, std::string_view path) {
  for (size_t end = path.find('/'); !scopes.empty(); end = path.find('/', end + 1)) {
    if (scopes.contains(std::string(path.substr(0, end)))) return true;
    if (end == std::string_view::npos) break;
  }
  return false;
}

/// The positions among which work with these dimensions is divided at best.
double parts(const std::vector<SearchAxis>& axes, const DimensionSet& dimensions, bool is_free) {
  double n = 1;
  for (const SearchAxis& axis : axes) {
    if (is_free || axis.rounds > 0 || (axis.possible & dimensions).any()) n *= static_cast<double>(axis.size);
  }
  return n;
}

/// Processes that meet along a mesh dimension whose neighbours are `stride` positions apart.
double processes_along(int64_t size, int64_t stride, int64_t hosted) {
  return static_cast<double>(std::clamp<int64_t>((size * stride + hosted - 1) / hosted, 1, size));
}

}  // namespace

void LayoutBounds::add(const Graph& step, const Program& program, const std::set<std::string>& trained,
                       double weight) {
  std::set<std::string> blocks;
  for (const Unit& unit : step.units()) {
    if (unit.is_block) blocks.insert(unit.name);
  }
  blocks_ += weight * static_cast<double>(blocks.size());
  WorkFinder works(program);
  add_work(program, works, program.instructions, blocks, weight);
  for (const ProgramVariable& v : program.variables) {
    if (v.variable.on_host) continue;
    const bool is_slot = domain_of(v.variable) == Domain::kOptimizer;
    const auto bytes = static_cast<double>(bytes_of(v.variable.shape, v.variable.dtype));
    add(variables_, {.dimensions = dimensions_.of(v.variable.shape),
                     .amount = weight * bytes,
                     .is_free = open_.parameter || (is_slot && open_.optimizer)});
  }
  add_gradients(step, trained, weight);
}

void LayoutBounds::add(std::vector<Item>& items, const Item& item) {
  for (Item& other : items) {
    if (other.dimensions == item.dimensions && other.is_free == item.is_free &&
        other.is_block == item.is_block) {
      other.amount += item.amount;
      return;
    }
  }
  items.push_back(item);
}

void LayoutBounds::add_work(const Program& program, WorkFinder& works, const std::vector<Instruction>& block,
                            const std::set<std::string>& blocks, double times) {
  for (const Instruction& instruction : block) {
    add_work(program, works, instruction.body(), blocks, times * static_cast<double>(instruction.count()));
    if (instruction.is_collective()) continue;
    const std::optional<Work> work = works.of(instruction);
    if (!work) continue;
    DimensionSet set;
    for (const std::vector<ValueId>* ids : {&instruction.inputs, &instruction.outputs}) {
      for (const ValueId id : *ids) {
        if (id != kNoValue) set |= dimensions_.of(program.values[static_cast<size_t>(id)].shape);
      }
    }
    const bool is_update = instruction.provenance.phase == Phase::kUpdate;
    add(work_,
        {.dimensions = set,
         .amount = times * rates_.seconds(*work),
         .is_free = is_update && (open_.parameter || open_.optimizer),
         .is_block = has_flops(work->kind) && !is_update && is_in(blocks, instruction.provenance.path())});
  }
}

void LayoutBounds::add_gradients(const Graph& step, const std::set<std::string>& trained, double weight) {
  /// What has been found of a weight: the dimensions over which all contributions to its gradient are summed.
  struct Found {
    const Variable* variable = nullptr;
    DimensionSet summed;
    bool is_used = false;
  };
  std::map<std::string, Found> weights;
  std::unordered_map<const Operation*, std::string>
      same;  ///< makers of a weight's value, perhaps of another type
  for_each_live_operation(step, [&](const Operation& operation) {
    if (const auto* read = dynamic_cast<const ReadVariable*>(&operation)) {
      if (!trained.contains(read->variable->name)) return;
      weights[read->variable->name].variable = read->variable;
      same[&operation] = read->variable->name;
      return;
    }
    if (operation.provenance().phase != Phase::kForward) return;
    if (operation.name() == "cast") {
      if (const auto maker = same.find(&operation.inputs()[0].operation()); maker != same.end())
        same.emplace(&operation, maker->second);
      return;
    }
    if (operation.hints().domain != Domain::kActivation) return;
    for (const Tensor& input : operation.inputs()) {
      const auto maker = same.find(&input.operation());
      if (maker == same.end()) continue;
      Found& found = weights[maker->second];
      const DimensionSet summed = sums_gradient(operation.name()) ? all_of(dimensions_, operation) &
                                                                        ~dimensions_.of(found.variable->shape)
                                                                  : DimensionSet();
      found.summed = found.is_used ? found.summed & summed : summed;
      found.is_used = true;
    }
  });
  for (const auto& [name, found] : weights) {
    if (!found.is_used || found.summed.none()) continue;
    constexpr double kSmallestElement = 2;  // gradients may be bfloat16
    const double bytes = weight * static_cast<double>(found.variable->shape.size()) * kSmallestElement;
    const DimensionSet set = dimensions_.of(found.variable->shape);
    const auto equal = std::ranges::find_if(
        gradients_, [&](const Gradient& g) { return g.dimensions == set && g.summed == found.summed; });
    if (equal != gradients_.end()) {
      equal->bytes += bytes;
    } else {
      gradients_.push_back({set, found.summed, bytes});
    }
  }
}

double LayoutBounds::processes(const std::vector<SearchAxis>& axes, const DimensionSet& dimensions,
                               bool is_free) const {
  double n = 1;
  int64_t stride = 1;  // positions between neighbours along a mesh dimension
  for (size_t i = axes.size(); i-- > 0;) {
    if (is_free || axes[i].rounds > 0 || (axes[i].possible & dimensions).any())
      n *= processes_along(axes[i].size, stride, rates_.hosted);
    stride *= axes[i].size;
  }
  return n;
}

/// Gradients are summed and spread, or the weights that they have changed.
constexpr double kTimesSent = 2;

double LayoutBounds::seconds(const std::vector<SearchAxis>& axes) const {
  double computing = 0, blocks = 0;
  for (const Item& item : work_) {
    const double seconds = item.amount / processes(axes, item.dimensions, item.is_free);
    computing += seconds;
    if (item.is_block) blocks += seconds;
  }
  computing = with_stages(axes, computing, blocks);
  double sent = 0;
  for (const Gradient& gradient : gradients_) {
    double members = 1;
    int64_t stride = 1;
    for (size_t i = axes.size(); i-- > 0;) {
      if ((axes[i].chosen & gradient.summed).any())
        members *= processes_along(axes[i].size, stride, rates_.hosted);
      stride *= axes[i].size;
    }
    if (members <= 1) continue;
    // Sums over several levels of links send at least half of the bytes over each.
    const double share = rates_.links > 1 ? 0.5 : (members - 1) / members;
    sent += kTimesSent * share * gradient.bytes / processes(axes, gradient.dimensions, false);
  }
  return rates_.step + std::max(computing, rates_.link > 0 ? sent / rates_.link : 0);
}

double LayoutBounds::with_stages(const std::vector<SearchAxis>& axes, double all, double blocks) const {
  int64_t stride = 1;
  for (size_t i = axes.size(); i-- > 0;) {
    const SearchAxis& axis = axes[i];
    const double stages = static_cast<double>(axis.size), rounds = axis.rounds;
    const bool is_apart = axis.rounds > 0 && processes_along(axis.size, stride, rates_.hosted) == stages;
    stride *= axis.size;
    if (!is_apart || blocks_ < 1) continue;
    const auto microbatches = static_cast<double>(rates_.microbatches);
    // What a microbatch needs at least in each chunk: `blocks * stages` is what it needs in all blocks.
    const double fewest = std::floor(std::round(blocks_) / (stages * rounds));
    const double chunk = blocks * stages * fewest / (blocks_ * microbatches);
    const double mean = all + (stages - 1) / 2 * chunk;  // stage s waits for s chunks
    const double last = (rounds * microbatches + stages - 1) * chunk;
    return std::max(mean, last);
  }
  return all;
}

double LayoutBounds::variable_bytes(const std::vector<SearchAxis>& axes) const {
  double bytes = 0;
  for (const Item& item : variables_) bytes += item.amount / parts(axes, item.dimensions, item.is_free);
  return bytes;
}

std::vector<bool> LayoutBounds::sums_gradients(const SplitChoice& chosen) const {
  std::vector<bool> sums(chosen.size());
  for (size_t axis = 0; axis < chosen.size(); ++axis)
    sums[axis] = std::ranges::any_of(
        gradients_, [&](const Gradient& gradient) { return (chosen[axis] & gradient.summed).any(); });
  return sums;
}

}  // namespace mtf
