#include "engine/spmd/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/check.h"
#include "engine/base/hash.h"
#include "engine/spmd/exchange.h"

namespace mtf {
namespace {

std::string_view name_of(Reduction reduction) {
  return reduction == Reduction::kSum ? "sum" : reduction == Reduction::kMax ? "max" : "min";
}

/// The text between the parentheses after the operands.
std::string arguments_of(const Program& program, const Instruction& instruction) {
  const std::string axes = program.mesh.names(instruction.axes);
  const auto dimension = [&](int axis) { return program.values[instruction.inputs[0]].shape[axis].name; };
  switch (instruction.kind) {
    case InstructionKind::kLocal:
      return instruction.operation->attributes();
    case InstructionKind::kSlice:
    case InstructionKind::kAllGather:
      return fmt::format("{}, {}", dimension(instruction.dimension), axes);
    case InstructionKind::kAllReduce:
      return fmt::format("{}, {}", name_of(instruction.reduction), axes);
    case InstructionKind::kReduceScatter:
      return fmt::format("{}, {}, {}", name_of(instruction.reduction), dimension(instruction.dimension),
                         axes);
    case InstructionKind::kAllToAll:
      return fmt::format("{} to {}, {}", dimension(instruction.concat_dimension),
                         dimension(instruction.dimension), axes);
    case InstructionKind::kExchange:
      return fmt::format("{}, {}{}, {}", dimension(instruction.dimension), instruction.offset,
                         instruction.wrap ? ", wrap" : "", axes);
    case InstructionKind::kRepeat:
      return fmt::format("{}", instruction.count);
    case InstructionKind::kAccumulate: {
      if (!instruction.operation) return {};
      const std::string attributes = instruction.operation->attributes();
      return std::string(instruction.operation->name()) + (attributes.empty() ? "" : " " + attributes);
    }
    default:
      return {};
  }
}

std::string reference(const Program& program, ValueId id) { return "%" + program.values[id].name; }

void print(const Program& program, const std::vector<Instruction>& block, const std::string& indent,
           std::string& text) {
  for (const Instruction& instruction : block) {
    text += indent + to_string(program, instruction);
    if (instruction.kind == InstructionKind::kRepeat) {
      text += " {\n";
      print(program, instruction.body, indent + "  ", text);
      text += indent + "}";
    }
    text += "\n";
  }
}

}  // namespace

std::string name_of(const Instruction& instruction) {
  switch (instruction.kind) {
    case InstructionKind::kLocal:
      return std::string(instruction.operation->name());
    case InstructionKind::kSlice:
      return "slice";
    case InstructionKind::kAllReduce:
      return "all_reduce";
    case InstructionKind::kReduceScatter:
      return "reduce_scatter";
    case InstructionKind::kAllGather:
      return "all_gather";
    case InstructionKind::kAllToAll:
      return "all_to_all";
    case InstructionKind::kExchange:
      return "exchange";
    case InstructionKind::kDone:
      return "done";
    case InstructionKind::kCopy:
      return "copy";
    case InstructionKind::kAccumulate:
      return "accumulate";
    case InstructionKind::kPlace:
      return "place";
    case InstructionKind::kRepeat:
      return "repeat";
  }
  return "?";
}

ValueId Program::add_value(Value value) {
  const auto id = static_cast<ValueId>(values.size());
  if (value.name.empty()) value.name = std::to_string(id);
  values.push_back(std::move(value));
  return id;
}

ValueId Program::input(const std::string& name) const {
  for (const auto& [key, id] : inputs) {
    if (key == name) return id;
  }
  return kNoValue;
}

ValueId Program::output(const std::string& name) const {
  for (const auto& [key, id] : outputs) {
    if (key == name) return id;
  }
  return kNoValue;
}

ValueId Program::root(ValueId id) const {
  while (values[id].alias != kNoValue) id = values[id].alias;
  return id;
}

Shape Program::local_shape(ValueId id) const {
  return slice_shape(values[id].shape, values[id].layout, mesh);
}

int64_t Program::local_bytes(ValueId id) const {
  const Value& value = values[id];
  auto bytes = static_cast<int64_t>(size_of(value.dtype));
  for (int i = 0; i < value.shape.rank(); ++i) bytes *= value.shape[i].size / parts(value.layout, i, mesh);
  return bytes;
}

std::string Program::to_string() const {
  std::string text = "mesh " + mesh.to_string() + "\n";
  print(*this, instructions, "", text);
  for (const auto& [name, id] : outputs) text += fmt::format("output {} = {}\n", name, reference(*this, id));
  return text;
}

std::string to_string(const Program& program, const Instruction& instruction) {
  std::string text;
  for (ValueId id : instruction.outputs) text += (text.empty() ? "" : ", ") + reference(program, id);
  if (!text.empty()) text += " = ";
  text += name_of(instruction) + (instruction.started ? "_start(" : "(");
  std::string inside;
  for (ValueId id : instruction.inputs) inside += (inside.empty() ? "" : ", ") + reference(program, id);
  const std::string arguments = arguments_of(program, instruction);
  if (!arguments.empty()) inside += (inside.empty() ? "" : ", ") + arguments;
  text += inside + ")";
  if (instruction.guard != kNoValue) text += " if " + reference(program, instruction.guard);
  if (!instruction.outputs.empty()) {
    text = fmt::format("{:<56}", text);
    for (size_t i = 0; i < instruction.outputs.size(); ++i) {
      const Value& value = program.values[instruction.outputs[i]];
      text += fmt::format("{} {}{}", i > 0 ? "," : "", short_name(value.dtype),
                          to_string(value.shape, value.layout, program.mesh));
    }
  }
  return text;
}

double bytes_sent(const Program& program, const Instruction& instruction) {
  const auto n = static_cast<double>(program.mesh.size_of(instruction.axes));
  double bytes = 0;
  for (ValueId id : instruction.inputs) {
    const auto input = static_cast<double>(program.local_bytes(id));
    switch (instruction.kind) {
      case InstructionKind::kAllReduce:
        bytes += 2 * (n - 1) * input / n;
        break;
      case InstructionKind::kReduceScatter:
      case InstructionKind::kAllToAll:
        bytes += (n - 1) * input / n;
        break;
      case InstructionKind::kAllGather:
        bytes += (n - 1) * input;
        break;
      case InstructionKind::kExchange: {
        const int64_t part = program.local_shape(id)[instruction.dimension].size;
        const int64_t entries =
            exchanged_entries(static_cast<int64_t>(n), part, instruction.offset, instruction.wrap);
        bytes += static_cast<double>(entries) / n * input / static_cast<double>(part);
        break;
      }
      default:
        break;
    }
  }
  return bytes;
}

std::string program_hash(const Program& program) { return hash128_hex(program.to_string()); }

}  // namespace mtf
