#include "engine/spmd/partition/stages.h"

#include <algorithm>

#include "engine/graph/structural.h"
#include "engine/spmd/partition/unit_places.h"

namespace mtf {
namespace {

/// The variable that a tensor is; null: none.
const Variable* variable_of(const Tensor& tensor) {
  const auto* read = dynamic_cast<const ReadVariable*>(&tensor.operation());
  return read == nullptr ? nullptr : read->variable;
}

}  // namespace

Stages::Stages(const Graph& graph, const Layouts& layouts, const OperationSet& live)
    : graph_(graph), placed_(layouts.pipeline ? layouts.pipeline->placed.get() : nullptr) {
  if (placed_ == nullptr) return;
  place_units(graph, *layouts.pipeline, layouts.mesh);
  block(graph.root(), live);
}

int Stages::of(const Tensor& tensor) const {
  if (const Variable* variable = variable_of(tensor)) return of(*variable);
  const auto* loop = dynamic_cast<const Repeat*>(&tensor.operation());
  if (loop == nullptr) return of(tensor.operation());
  const size_t sums = loop->result.carried.size(), placed = sums + loop->result.sums.size();
  const auto index = static_cast<size_t>(tensor.index());
  if (index < sums) return kNone;
  return of(index < placed ? loop->result.sums[index - sums] : loop->result.placed[index - placed]);
}

bool Stages::reads_new_variable(const Operation& operation) const {
  return std::ranges::any_of(operation.inputs(), [this](const Tensor& input) {
    const Variable* variable = variable_of(input);
    return variable != nullptr && !placed_->variables.contains(variable->name);
  });
}

int Stages::find(const Operation& operation) const {
  if (const int unit = operation.hints().unit; unit >= 0)
    return placed_->units.at(graph_.units()[static_cast<size_t>(unit)].name);
  const Phase phase = operation.provenance().phase;
  const bool takes_first = phase == Phase::kBackward && dynamic_cast<const AddN*>(&operation) != nullptr;
  int found = kNone;
  for (const Tensor& input : operation.inputs()) {
    const int chunk = of(input);
    if (chunk == kNone) continue;
    if (found == kNone) {
      found = chunk;
    } else if (phase != Phase::kUpdate) {
      found = takes_first ? std::min(found, chunk) : std::max(found, chunk);
    } else if (placed_->stages[static_cast<size_t>(chunk)] != placed_->stages[static_cast<size_t>(found)]) {
      return kNone;  // what depends on several stages is known to all: the norm of the gradients
    }
  }
  return found == kNone && phase != Phase::kUpdate && reads_new_variable(operation) ? latest_ : found;
}

void Stages::block(const Block& operations, const OperationSet& live) {
  for (const auto& operation : operations) {
    if (!live.contains(operation.get())) continue;
    if (const auto* loop = dynamic_cast<const Repeat*>(operation.get())) {
      block(loop->body, live);
      continue;
    }
    if (operation->name() == "variable") continue;
    if (const auto* assign = dynamic_cast<const Assign*>(operation.get())) {
      // What nothing has read so far, such as a cache that a program fills for others, lies where its value is made.
      placed_->variables.emplace(assign->variable->name, of(assign->input(0)));
      continue;
    }
    const int chunk = find(*operation);
    if (chunk == kNone) continue;
    operations_[operation.get()] = chunk;
    if (operation->hints().unit >= 0 && operation->provenance().phase == Phase::kForward) latest_ = chunk;
    for (const Tensor& input : operation->inputs()) {
      if (const Variable* variable = variable_of(input)) placed_->variables.emplace(variable->name, chunk);
    }
  }
}

}  // namespace mtf
