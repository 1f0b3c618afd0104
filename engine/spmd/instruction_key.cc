#include "engine/spmd/instruction_key.h"

#include <functional>
#include <optional>
#include <string_view>

namespace mtf {

size_t InstructionKey::Hash::operator()(const InstructionKey& key) const {
  return std::hash<std::string_view>()(
      {reinterpret_cast<const char*>(key.parts_.data()), key.parts_.size() * sizeof key.parts_[0]});
}

void InstructionKey::set(const Program& program, const Instruction& instruction) {
  const auto add_pointer = [this](const void* part) { parts_.push_back(reinterpret_cast<uintptr_t>(part)); };
  const auto add = [this](int64_t part) { parts_.push_back(static_cast<uintptr_t>(part)); };
  parts_.clear();
  add(static_cast<int64_t>(instruction.action.index()));
  add(instruction.guard != kNoValue);
  if (const auto* slice = instruction.as<action::Slice>()) add(slice->dimension);
  if (const auto* place = instruction.as<action::Place>()) {
    add(place->dimension);
    add(place->count);
  }
  add_pointer(instruction.operation());
  for (const std::vector<ValueId>* ids : {&instruction.inputs, &instruction.outputs}) {
    for (const ValueId id : *ids) {
      const Value& value = program.values[id];
      add_pointer(value.shape.identity());
      add_pointer(value.layout.split.identity());
      add(value.layout.partial);
      const std::optional<Pin>& pin = value.layout.pin;
      add(pin ? pin->axis : -1);
      add(pin ? pin->coordinate : -1);
      add(static_cast<int64_t>(value.dtype));
    }
  }
}

}  // namespace mtf
