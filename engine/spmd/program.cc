#include "engine/spmd/program.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/hash.h"
#include "engine/spmd/exchange.h"

namespace mtf {
namespace {

std::string_view name_of(Reduction reduction) {
  return reduction == Reduction::kSum ? "sum" : reduction == Reduction::kMax ? "max" : "min";
}

template <class... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};

/// The text between the parentheses after the operands.
std::string arguments_of(const Program& program, const Instruction& instruction) {
  const auto dimension = [&](int axis) -> const std::string& {
    return program.values[instruction.inputs[0]].shape[axis].name;
  };
  const auto collective = Overloaded{
      [](const action::AllReduce& c) { return std::string(name_of(c.reduction)); },
      [&](const action::ReduceScatter& c) {
        return fmt::format("{}, {}", name_of(c.reduction), dimension(c.dimension));
      },
      [&](const action::AllGather& c) { return dimension(c.dimension); },
      [&](const action::AllToAll& c) {
        return fmt::format("{} to {}", dimension(c.concat_dimension), dimension(c.dimension));
      },
      [&](const action::Exchange& c) {
        return fmt::format("{}, {}{}", dimension(c.dimension), c.offset, c.wrap ? ", wrap" : "");
      },
      [](const action::Send& c) { return c.to ? fmt::format("to {}", *c.to) : std::string("to all"); },
  };
  return std::visit(
      Overloaded{
          [](const action::Run& a) { return a.operation->attributes(); },
          [&](const action::Slice& a) {
            return fmt::format("{}, {}", dimension(a.dimension), program.mesh.names(a.axes));
          },
          [](const action::Accumulate& a) {
            if (!a.operation) return std::string();
            const std::string attributes = a.operation->attributes();
            return std::string(a.operation->name()) + (attributes.empty() ? "" : " " + attributes);
          },
          [](const action::Loop& a) { return std::to_string(a.count); },
          [&](const action::Communicate& a) {
            return fmt::format("{}, {}", std::visit(collective, a.collective), program.mesh.names(a.axes));
          },
          [](const auto&) { return std::string(); },
      },
      instruction.action);
}

std::string reference(const Program& program, ValueId id) { return "%" + program.values[id].name; }

void print(const Program& program, const std::vector<Instruction>& block, const std::string& indent,
           std::string& text) {
  for (const Instruction& instruction : block) {
    text += indent + to_string(program, instruction);
    if (instruction.is<action::Loop>()) {
      text += " {\n";
      print(program, instruction.body(), indent + "  ", text);
      text += indent + "}";
    }
    text += "\n";
  }
}

}  // namespace

const Operation* Instruction::operation() const {
  if (const auto* run = as<action::Run>()) return run->operation.get();
  if (const auto* accumulate = as<action::Accumulate>()) return accumulate->operation.get();
  return nullptr;
}

const std::vector<Instruction>& Instruction::body() const {
  static const std::vector<Instruction> none;
  const auto* loop = as<action::Loop>();
  return loop ? loop->body : none;
}

int64_t Instruction::count() const {
  const auto* loop = as<action::Loop>();
  return loop ? loop->count : 1;
}

std::string_view name_of(const Instruction& instruction) {
  using Name = std::string_view;
  const auto collective = Overloaded{
      [](const action::AllReduce&) { return "all_reduce"; },
      [](const action::ReduceScatter&) { return "reduce_scatter"; },
      [](const action::AllGather&) { return "all_gather"; },
      [](const action::AllToAll&) { return "all_to_all"; },
      [](const action::Exchange&) { return "exchange"; },
      [](const action::Send&) { return "send"; },
  };
  return std::visit(
      Overloaded{
          [](const action::Run& a) { return a.operation->name(); },
          [](const action::Slice&) { return Name("slice"); },
          [](const action::Copy&) { return Name("copy"); },
          [](const action::Accumulate&) { return Name("accumulate"); },
          [](const action::Place&) { return Name("place"); },
          [](const action::Loop&) { return Name("repeat"); },
          [&](const action::Communicate& a) { return Name(std::visit(collective, a.collective)); },
          [](const action::Transfer& a) { return Name(a.to_host ? "to_host" : "from_host"); },
          [](const action::Done&) { return Name("done"); },
      },
      instruction.action);
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

int64_t Program::offset(ValueId id) const {
  int64_t offset = 0;
  for (; values[id].alias != kNoValue; id = values[id].alias) offset += values[id].offset;
  return offset;
}

bool Program::is_in_place(ValueId id) const {
  const ValueId alias = values[id].alias;
  return alias != kNoValue && local_bytes(alias) == local_bytes(id);
}

Shape Program::local_shape(ValueId id) const {
  return slice_shape(values[id].shape, values[id].layout, mesh);
}

int64_t Program::local_size(ValueId id) const {
  const Value& value = values[id];
  int64_t size = 1;
  for (int i = 0; i < value.shape.rank(); ++i) size *= value.shape[i].size / parts(value.layout, i, mesh);
  return size;
}

int64_t Program::local_bytes(ValueId id) const {
  return local_size(id) * static_cast<int64_t>(size_of(values[id].dtype));
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
  const auto* communicate = instruction.as<action::Communicate>();
  const bool started = communicate && communicate->started;
  text += name_of(instruction);
  text += started ? "_start(" : "(";
  std::string inside;
  for (ValueId id : instruction.inputs) inside += (inside.empty() ? "" : ", ") + reference(program, id);
  const std::string arguments = arguments_of(program, instruction);
  if (!arguments.empty()) inside += (inside.empty() ? "" : ", ") + arguments;
  text += inside + ")";
  if (instruction.iteration >= 0) text += fmt::format(" of iteration {}", instruction.iteration);
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
  const auto* communicate = instruction.as<action::Communicate>();
  if (!communicate) return 0;
  const auto n = static_cast<double>(program.mesh.size_of(communicate->axes));
  double bytes = 0;
  for (ValueId id : instruction.inputs) {
    const auto input = static_cast<double>(program.local_bytes(id));
    bytes += std::visit(Overloaded{
                            [&](const action::AllReduce&) { return 2 * (n - 1) * input / n; },
                            [&](const action::AllGather&) { return (n - 1) * input; },
                            [&](const action::Exchange& exchange) {
                              const int64_t part = program.local_shape(id)[exchange.dimension].size;
                              const int64_t entries = exchanged_entries(static_cast<int64_t>(n), part,
                                                                        exchange.offset, exchange.wrap);
                              return static_cast<double>(entries) / n * input / static_cast<double>(part);
                            },
                            [&](const action::Send& send) { return (send.to ? 1 : n - 1) * input / n; },
                            [&](const auto&) { return (n - 1) * input / n; },
                        },
                        communicate->collective);
  }
  return bytes;
}

std::string program_hash(const Program& program) { return hash128_hex(program.to_string()); }

}  // namespace mtf
