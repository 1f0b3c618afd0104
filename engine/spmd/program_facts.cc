#include "engine/spmd/program_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <unordered_map>

namespace mtf {
namespace {

/// The name of an operation in counters; all reductions share one.
std::string counter_name(std::string_view operation) {
  const bool reduction = operation.starts_with("reduce_") && !operation.starts_with("reduce_first");
  return std::string(reduction ? "reduce" : operation) + "_op";
}

/// The axes as text, such as "[0, 2]".
std::string axes_text(AxisMask axes, int rank) {
  std::string text;
  for (int axis = 0; axis < rank; ++axis) {
    if (has_axis(axes, axis)) text += fmt::format("{}{}", text.empty() ? "" : ", ", axis);
  }
  return "[" + text + "]";
}

class Explainer {
 public:
  explicit Explainer(const Program& program)
      : program_(program),
        positions_(static_cast<double>(program.mesh.size())),
        works_(program),
        makers_(program.values.size()) {
    find_makers(program.instructions, 1);
  }

  ProgramFacts run();
  void work(const std::vector<Instruction>& block, int64_t times,
            const std::function<void(const WorkFact&)>& visit);

 private:
  struct Maker {
    const Instruction* instruction = nullptr;
    int64_t times = 1;
  };
  /// The results of the operations with one name.
  struct Results {
    ProgramCounter all, unique;
  };

  void find_makers(const std::vector<Instruction>& block, int64_t times);
  void block(const std::vector<Instruction>& block, int64_t times);
  void tensors(const Instruction& instruction, int64_t times);
  void local(const Instruction& instruction, int64_t times);
  void contraction(const Instruction& instruction, double flops, int64_t times);
  void collective(const Instruction& instruction, int64_t times);
  void count_collective(const CollectiveFact& fact, ValueId input, const Instruction& instruction);
  void count_shift(const action::Exchange& exchange, AxisMask axes, ValueId input, double times,
                   double bytes);
  void count_variables();
  void count_views();
  void count_output(std::string_view operation, ValueId id, int64_t times);

  const Maker* maker(ValueId id) const;
  Origin origin(const Instruction& instruction) const;
  Origin origin_of_sum(ValueId id, AxisMask axes) const;
  Origin origin_of(const Instruction& instruction, ValueId input) const;
  std::string variable_of(ValueId input, ValueId result) const;
  /// The number of elements on all positions together, replicas included.
  double laid_out(ValueId id) const {
    return static_cast<double>(program_.local_size(id)) * positions_ * share(program_.values[id].layout);
  }
  /// The part of the positions that have a value.
  double share(const Layout& layout) const {
    return layout.pin ? 1 / static_cast<double>(program_.mesh.size(layout.pin->axis)) : 1;
  }
  /// The part of the positions that run an instruction.
  double share(const Instruction& instruction) const {
    return instruction.outputs.empty() ? 1 : share(program_.values[instruction.outputs[0]].layout);
  }
  static void add(double elements, double bytes, ProgramCounter& counter) {
    counter.elements += elements;
    counter.bytes += bytes;
  }
  void count(const std::string& name, double elements, double bytes) {
    add(elements, bytes, facts_.counters[name]);
  }

  const Program& program_;
  const double positions_;
  WorkFinder works_;
  std::vector<Maker> makers_;  ///< by value: the first instruction that writes it
  std::unordered_map<std::string_view, Results> results_;
  int64_t next_message_ = 0;
  ProgramFacts facts_;
};

ProgramFacts Explainer::run() {
  facts_.tensors.reserve(program_.values.size());
  count_variables();
  for (const auto& [name, id] : program_.inputs) count_output("input", id, 1);
  count_views();
  block(program_.instructions, 1);
  for (const auto& [operation, results] : results_) {
    facts_.counters.emplace(fmt::format("output/{}", operation), results.all);
    facts_.counters.emplace(fmt::format("output_unique/{}", operation), results.unique);
  }
  return std::move(facts_);
}

void Explainer::work(const std::vector<Instruction>& block, int64_t times,
                     const std::function<void(const WorkFact&)>& visit) {
  for (const Instruction& instruction : block) {
    if (std::optional<Work> work = works_.of(instruction)) {
      if (!instruction.is_collective()) {
        work->flops *= share(instruction);
        work->bytes *= share(instruction);
        work->host_bytes *= share(instruction);
      }
      visit({origin(instruction), times, *work});
    }
    this->work(instruction.body(), times * instruction.count(), visit);
  }
}

void Explainer::find_makers(const std::vector<Instruction>& block, int64_t times) {
  for (const Instruction& instruction : block) {
    for (ValueId id : instruction.outputs) {
      if (makers_[id].instruction == nullptr) makers_[id] = {&instruction, times};
    }
    find_makers(instruction.body(), times * instruction.count());
  }
}

void Explainer::block(const std::vector<Instruction>& block, int64_t times) {
  for (const Instruction& instruction : block) {
    tensors(instruction, times);
    if (instruction.operation()) local(instruction, times);
    if (instruction.is_collective()) collective(instruction, times);
    this->block(instruction.body(), times * instruction.count());
  }
}

void Explainer::tensors(const Instruction& instruction, int64_t times) {
  for (size_t i = 0; i < instruction.outputs.size(); ++i) {
    const ValueId id = instruction.outputs[i];
    if (program_.values[id].storage == Value::Storage::kVariable) continue;
    Origin from =
        instruction.is_collective() ? origin_of(instruction, instruction.inputs[i]) : origin(instruction);
    from.operation = name_of(instruction);
    facts_.tensors.push_back({id, std::move(from), times});
  }
}

void Explainer::local(const Instruction& instruction, int64_t times) {
  for (ValueId id : instruction.outputs) count_output(instruction.operation()->name(), id, times);
  const double flops =
      works_.of_operation(instruction).flops * static_cast<double>(times) * share(instruction);
  if (flops > 0) contraction(instruction, flops, times);
}

void Explainer::contraction(const Instruction& instruction, double flops, int64_t times) {
  ContractionFact fact{origin(instruction), {}, {}, times, flops, 0, 0};
  std::vector<Dimension> volume;
  for (ValueId id : instruction.inputs) {
    const Value& value = program_.values[id];
    for (int i = 0; i < value.shape.rank(); ++i) {
      if (std::ranges::find(volume, value.shape[i].name, &Dimension::name) != volume.end()) continue;
      volume.push_back(value.shape[i]);
      fact.layout.split.change().push_back(value.layout.split[i]);
    }
  }
  fact.volume = Shape(std::move(volume));
  for (int axis = 0; axis < program_.mesh.rank(); ++axis) {
    const std::optional<Pin>& pin = program_.values[instruction.outputs[0]].layout.pin;
    if (program_.mesh.size(axis) > 1 && !has_axis(fact.layout.split_axes(), axis) &&
        !(pin && pin->axis == axis))
      fact.repeated |= axis_bit(axis);
  }
  fact.unique_flops = flops * positions_ / static_cast<double>(program_.mesh.size_of(fact.repeated));
  facts_.flops += flops;
  facts_.unique_flops += fact.unique_flops;
  if (!instruction.provenance.recomputed) facts_.model_flops += fact.unique_flops;
  facts_.repeated_flops += flops * (1 - 1 / static_cast<double>(program_.mesh.size_of(fact.repeated)));
  const std::string name(fact.origin.operation);
  count(name, flops * positions_ / 2, 0);
  count(name + "_unique", fact.unique_flops / 2, 0);
  facts_.contractions.push_back(std::move(fact));
}

void Explainer::collective(const Instruction& instruction, int64_t times) {
  const int64_t message = next_message_++;
  const AxisMask axes = instruction.as<action::Communicate>()->axes;
  Instruction part = instruction;
  for (size_t i = 0; i < instruction.inputs.size(); ++i) {
    const ValueId input = instruction.inputs[i];
    part.inputs = {input};
    CollectiveFact fact{
        name_of(instruction),
        axes,
        origin_of(instruction, input),
        variable_of(input, instruction.outputs[i]),
        instruction.outputs[i],
        message,
        times,
        bytes_sent(program_, part) * (instruction.collective<action::Send>() ? 1 : share(instruction))};
    count_collective(fact, input, instruction);
    const double bytes = fact.bytes_sent * static_cast<double>(times);
    facts_.bytes_sent += bytes;
    facts_.traffic[fact.axes].bytes_sent += bytes;
    facts_.collectives.push_back(std::move(fact));
  }
  facts_.messages += times;
  facts_.traffic[axes].messages += times;
}

void Explainer::count_collective(const CollectiveFact& fact, ValueId input, const Instruction& instruction) {
  const auto times = static_cast<double>(fact.times);
  const double bytes = fact.bytes_sent * positions_ * times;
  const std::string operation = counter_name(fact.origin.operation);
  const std::string axes = axes_text(fact.axes, program_.mesh.rank());
  const std::string axis = axes.substr(1, axes.size() - 2);
  if (const auto* exchange = instruction.collective<action::Exchange>())
    return count_shift(*exchange, fact.axes, input, times, bytes);
  if (instruction.collective<action::AllReduce>())
    return count(fmt::format("allreduce/{}/{}", axes, operation), laid_out(input) * times, bytes);
  if (instruction.collective<action::ReduceScatter>())
    return count(fmt::format("reducescatter/{}/{}", axes, operation), laid_out(input) * times, bytes);
  if (instruction.collective<action::Send>())
    return count(fmt::format("send/{}", axis), laid_out(input) * times, bytes);
  if (instruction.collective<action::AllGather>())
    return count(fmt::format("allconcat/{}/{}", axis, operation), laid_out(fact.result) * times, bytes);
  count(fmt::format("alltoall/{}/{}", axis, operation), laid_out(input) * times, bytes);
}

/// A shift by whole * part + rest moves the first part - rest entries of each part by `whole` coordinates and
/// the others by one more. Entries that stay on their position are not counted.
void Explainer::count_shift(const action::Exchange& exchange, AxisMask axes, ValueId input, double times,
                            double bytes) {
  const int64_t part = program_.local_shape(input)[exchange.dimension].size;
  const int64_t parts = program_.mesh.size_of(axes);
  if (!exchange.wrap && std::abs(exchange.offset) >= part * parts) return;
  const int64_t rest = (exchange.offset % part + part) % part;
  const int64_t whole = (exchange.offset - rest) / part;
  struct Piece {
    int64_t by, entries;
    double sent;  ///< entries that leave their position, over all positions
  };
  std::vector<Piece> pieces{{whole, part - rest, 0}, {whole + 1, rest, 0}};
  double all_sent = 0;
  for (Piece& piece : pieces) {
    const bool stays = piece.by % parts == 0;
    const int64_t senders = stays           ? 0
                            : exchange.wrap ? parts
                                            : std::max<int64_t>(0, parts - std::abs(piece.by));
    piece.sent = static_cast<double>(piece.entries * senders);
    all_sent += piece.sent;
  }
  for (const Piece& piece : pieces) {
    if (piece.sent == 0) continue;
    count(fmt::format("shift[{}]", piece.by),
          laid_out(input) * times * static_cast<double>(piece.entries) / static_cast<double>(part),
          bytes * piece.sent / all_sent);
  }
}

void Explainer::count_variables() {
  for (const ProgramVariable& v : program_.variables) {
    const auto elements = static_cast<double>(v.variable.shape.size());
    count(v.variable.trainable() ? "variables/trainable" : "variables/untrainable", elements,
          elements * static_cast<double>(size_of(v.variable.dtype)));
    if (v.value != kNoValue) count_output("variable", v.value, 1);
  }
}

/// Reshapes are the values that no instruction makes: they give other dimensions to existing memory.
void Explainer::count_views() {
  for (ValueId id = 0; id < static_cast<ValueId>(program_.values.size()); ++id) {
    if (program_.values[id].alias == kNoValue || makers_[id].instruction != nullptr) continue;
    const Maker* made = maker(id);
    if (made && made->instruction->is<action::Transfer>()) continue;  // a view of what came back was counted
    count_output("reshape", id, made ? made->times : 1);
  }
}

void Explainer::count_output(std::string_view operation, ValueId id, int64_t times) {
  const Value& value = program_.values[id];
  const auto size = static_cast<double>(size_of(value.dtype));
  const double elements = laid_out(id) * static_cast<double>(times);
  const double unique = static_cast<double>(value.shape.size()) * static_cast<double>(times);
  Results& results = results_[operation];
  add(elements, elements * size, results.all);
  add(unique, unique * size, results.unique);
}

const Explainer::Maker* Explainer::maker(ValueId id) const {
  while (id != kNoValue && makers_[id].instruction == nullptr) id = program_.values[id].alias;
  return id == kNoValue ? nullptr : &makers_[id];
}

/// What a loop accumulates or assembles is attributed to the origin of its terms.
Origin Explainer::origin(const Instruction& instruction) const {
  const bool collects =
      !instruction.operation() && (instruction.is<action::Accumulate>() || instruction.is<action::Place>());
  if (const Maker* made = collects ? maker(instruction.inputs[0]) : nullptr) {
    Origin from = made->instruction->is_collective()
                      ? origin_of(*made->instruction, made->instruction->inputs[0])
                      : origin(*made->instruction);
    return {name_of(instruction), from.layer, from.phase};
  }
  const Operation* operation = instruction.operation();
  return {operation ? operation->name() : name_of(instruction), instruction.provenance.scope,
          instruction.provenance.phase};
}

/// The operation that first left `id` partial over `axes`; additions, scalings and loops pass a partial sum
/// on.
Origin Explainer::origin_of_sum(ValueId id, AxisMask axes) const {
  Origin result;
  for (const Maker* made = maker(id); made;) {
    result = origin(*made->instruction);
    const Maker* before = nullptr;
    for (ValueId input : made->instruction->inputs) {
      if (!before && (program_.values[input].layout.partial & axes) == axes) before = maker(input);
    }
    made = before;
  }
  return result;
}

Origin Explainer::origin_of(const Instruction& instruction, ValueId input) const {
  const auto& communicate = *instruction.as<action::Communicate>();
  const bool sum =
      instruction.collective<action::AllReduce>() || instruction.collective<action::ReduceScatter>();
  if (sum) return origin_of_sum(input, communicate.axes);
  if (communicate.required_by) {
    return {communicate.required_by->name(), instruction.provenance.scope, instruction.provenance.phase};
  }
  const Maker* made = maker(input);
  return made ? origin(*made->instruction) : origin(instruction);
}

std::string Explainer::variable_of(ValueId input, ValueId result) const {
  for (ValueId id : {input, result}) {
    const Value& root = program_.values[program_.root(id)];
    if (root.storage == Value::Storage::kVariable) return root.name;
  }
  return {};
}

}  // namespace

std::string_view name_of(Phase phase) {
  return phase == Phase::kForward ? "forward" : phase == Phase::kBackward ? "backward" : "update";
}

void for_each_work(const Program& program, const std::function<void(const WorkFact&)>& visit) {
  Explainer(program).work(program.instructions, 1, visit);
}

ProgramFacts program_facts(const Program& program) { return Explainer(program).run(); }

ProgramCounters counter_totals(const ProgramCounters& counters) {
  ProgramCounters totals;
  for (const auto& [name, counter] : counters) {
    for (size_t end = name.find('/');; end = name.find('/', end + 1)) {
      ProgramCounter& total = totals[name.substr(0, end)];
      total.elements += counter.elements;
      total.bytes += counter.bytes;
      if (end == std::string::npos) break;
    }
  }
  return totals;
}

}  // namespace mtf
