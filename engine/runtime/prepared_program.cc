#include "engine/runtime/prepared_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "engine/base/check.h"
#include "engine/comm/move_plan.h"
#include "engine/runtime/collective_of.h"
#include "engine/runtime/staged_collective.h"

namespace mtf {
namespace {

/// The position that differs from `position` only along `axes`, where its row-major coordinate is `member`.
int64_t group_member(const Mesh& mesh, int64_t position, AxisMask axes, int64_t member) {
  const int64_t base =
      mesh.first_position(mesh.project(position, ~axes & mesh.all_axes()), ~axes & mesh.all_axes());
  return base + mesh.first_position(member, axes);
}

Move::Kind move_kind(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::kSlice:
      return Move::Kind::kSlice;
    case InstructionKind::kCopy:
      return Move::Kind::kCopy;
    case InstructionKind::kPlace:
      return Move::Kind::kPlace;
    default:
      MTF_CHECK(kind == InstructionKind::kAccumulate, "not a move");
      return Move::Kind::kAccumulate;
  }
}

LocalTensor local_tensor(const Program& program, ValueId id) {
  const Shape local = program.local_shape(id);
  return {program.values[id].shape, local, local.strides(), program.values[id].dtype};
}

/// The kernel of an instruction that is neither a collective nor a loop.
std::unique_ptr<Kernel> prepare_kernel(const Program& program, const Instruction& instruction,
                                       Backend& backend, uint64_t seed) {
  if (instruction.runs_operation()) {
    KernelContext context{.operation = *instruction.operation,
                          .inputs = {},
                          .outputs = {},
                          .seed = seed,
                          .guarded = instruction.guard != kNoValue,
                          .accumulates = instruction.kind == InstructionKind::kAccumulate};
    for (ValueId id : instruction.inputs) context.inputs.push_back(local_tensor(program, id));
    for (ValueId id : instruction.outputs) context.outputs.push_back(local_tensor(program, id));
    return backend.prepare(context);
  }
  return backend.prepare(Move{move_kind(instruction.kind), local_tensor(program, instruction.inputs[0]),
                              local_tensor(program, instruction.outputs[0]), instruction.dimension,
                              instruction.count});
}

size_t largest_scratch(const Program& program, const std::vector<Instruction>& block, Backend& backend) {
  size_t bytes = 0;
  for (const Instruction& instruction : block) {
    if (instruction.kind == InstructionKind::kRepeat) {
      bytes = std::max(bytes, largest_scratch(program, instruction.body, backend));
    } else if (instruction.kind != InstructionKind::kDone && !instruction.is_collective()) {
      bytes = std::max(bytes, prepare_kernel(program, instruction, backend, 0)->scratch_bytes());
    }
  }
  return bytes;
}

/// The name of a collective in messages: "all_gather of layer_2/kernel over data", "all_reduce of %27 and 3
/// others over rows, cols (backward pass of layer_2)".
std::string title_of(const Program& program, const Instruction& instruction) {
  const Value& first = program.values[instruction.inputs[0]];
  std::string title = fmt::format("{} of {}{}", name_of(instruction),
                                  first.storage == Value::Storage::kTemporary ? "%" : "", first.name);
  const size_t others = instruction.inputs.size() - 1;
  if (others > 0) title += others == 1 ? " and another" : fmt::format(" and {} others", others);
  title += " over " + program.mesh.names(instruction.axes);
  const Provenance& from = instruction.provenance;
  if (from.path.empty()) return title;
  const char* pass = from.phase == Phase::kForward  ? ""
                     : from.phase == Phase::kUpdate ? "update of "
                                                    : "backward pass of ";
  return title + fmt::format(" ({}{})", pass, from.path);
}

}  // namespace

int64_t kernel_scratch_bytes(const Program& program, Backend& backend) {
  return whole_pages(static_cast<int64_t>(largest_scratch(program, program.instructions, backend)));
}

PreparedProgram::PreparedProgram(Program program, Backend& backend, Communicator& communicator,
                                 VariableStore& variables, uint64_t seed, bool replicate)
    : program_(std::move(program)),
      backend_(backend),
      communicator_(communicator),
      variables_(variables),
      seed_(seed),
      replicate_(replicate),
      mesh_(program_.mesh, hosting_of(&communicator)),
      memory_(plan_memory(program_, replicate, hosting_of(&communicator))) {
  allocate();
  segments_ = prepare(program_.instructions);
  backend_.compile();
}

void PreparedProgram::allocate() {
  for (const auto& [mask, arena] : memory_.arenas) {
    arenas_[mask] = backend_.allocate(aligned(arena.bytes) * arena.copies);
  }
  for (const auto& [name, id] : program_.inputs) {
    input_bytes_.push_back(aligned(program_.local_bytes(id)));
    inputs_.push_back(backend_.allocate(input_bytes_.back() * copies(stored(id)).size()));
  }
}

AxisMask PreparedProgram::stored(ValueId id) const { return stored_over(program_, id, replicate_); }

const HostedCopies& PreparedProgram::copies(AxisMask mask) const {
  const auto found = copies_.find(mask);
  return found != copies_.end() ? found->second : copies_.emplace(mask, mesh_.copies(mask)).first->second;
}

std::byte* PreparedProgram::address(ValueId id, int64_t position) const {
  const ValueId root = program_.root(id);
  const Value& value = program_.values[root];
  if (value.storage == Value::Storage::kVariable) return variables_.slice(value.name, position);
  const int64_t copy = *copies(stored(root)).find(position);
  if (value.storage == Value::Storage::kInput) {
    return inputs_[value.index]->data() + copy * input_bytes_[value.index];
  }
  MTF_CHECK(memory_.offsets[root] >= 0, "%{} has no memory", value.name);
  const AxisMask arena = memory_.arena_of(stored(root));
  return arenas_.at(arena)->data() + copy * aligned(memory_.arenas.at(arena).bytes) + memory_.offsets[root];
}

const std::vector<int64_t>& PreparedProgram::begin(ValueId id, int64_t position) {
  const Value& value = program_.values[id];
  const int64_t coordinate = program_.mesh.project(position, value.layout.split_axes());
  const std::vector<int64_t>*& known = begin_of_[{id, coordinate}];
  if (!known) known = &begins_.emplace_back(slice_begin(value.shape, value.layout, program_.mesh, position));
  return *known;
}

/// A step runs once for each copy of its results.
AxisMask PreparedProgram::computed_over(const Instruction& instruction) const {
  return mtf::computed_over(program_, instruction, replicate_);
}

std::vector<PreparedSegment> PreparedProgram::prepare(const std::vector<Instruction>& block) {
  std::vector<PreparedSegment> segments;
  AxisMask last = 0;
  for (const Instruction& instruction : block) {
    using Kind = PreparedSegment::Kind;
    if (instruction.kind == InstructionKind::kDone) {
      PreparedStep step = prepare_done(instruction);
      if (step.awaited.empty()) continue;
      segments.push_back({Kind::kDone, 0, {}});
      segments.back().steps.push_back(std::move(step));
      continue;
    }
    const Kind kind = instruction.kind == InstructionKind::kRepeat ? Kind::kRepeat
                      : instruction.is_collective()                ? Kind::kCollective
                                                                   : Kind::kLocal;
    const AxisMask mask = kind == Kind::kLocal ? computed_over(instruction) : 0;
    const bool same =
        kind == Kind::kLocal && !segments.empty() && segments.back().kind == kind && mask == last;
    if (!same) segments.push_back({kind, copies(mask).size(), {}});
    last = mask;
    segments.back().steps.push_back(prepare(instruction));
  }
  return segments;
}

PreparedStep PreparedProgram::prepare(const Instruction& instruction) {
  PreparedStep step;
  step.instruction = &instruction;
  if (instruction.kind == InstructionKind::kRepeat) {
    step.body = prepare(instruction.body);
    return step;
  }
  const HostedCopies& results = copies(computed_over(instruction));
  step.coordinates = results.size();
  step.positions = static_cast<double>(mesh_.positions()) / static_cast<double>(step.coordinates);
  if (instruction.guard != kNoValue) {
    for (int64_t c = 0; c < step.coordinates; ++c) {
      step.guards.push_back(reinterpret_cast<const bool*>(address(instruction.guard, results.position(c))));
    }
  }
  if (instruction.is_collective() && crosses_processes(program_, instruction, mesh_, replicate_)) {
    prepare_remote(instruction, step);
  } else if (instruction.is_collective()) {
    prepare_collective(instruction, step);
  } else {
    prepare_local(instruction, step);
  }
  return step;
}

void PreparedProgram::prepare_local(const Instruction& instruction, PreparedStep& step) {
  step.kernel = prepare_kernel(program_, instruction, backend_, seed_);
  step.tasks = step.kernel->tasks();
  scratch_bytes_ = std::max(scratch_bytes_, step.kernel->scratch_bytes());
  step.inputs = instruction.inputs.size();
  step.outputs = instruction.outputs.size();
  const HostedCopies& results = copies(computed_over(instruction));
  for (int64_t c = 0; c < step.coordinates; ++c) {
    const int64_t position = results.position(c);
    for (const std::vector<ValueId>* ids : {&instruction.inputs, &instruction.outputs}) {
      for (ValueId id : *ids) step.slices.push_back({address(id, position), begin(id, position).data()});
    }
  }
}

void PreparedProgram::prepare_collective(const Instruction& instruction, PreparedStep& step) {
  const Mesh& mesh = program_.mesh;
  const HostedCopies& results = copies(computed_over(instruction));
  std::vector<double> positions(static_cast<size_t>(results.size()));
  for (int64_t position = mesh_.begin(); position < mesh_.begin() + mesh_.positions(); ++position)
    ++positions[static_cast<size_t>(*results.find(position))];
  for (size_t i = 0; i < instruction.inputs.size(); ++i) {
    CollectivePart part;
    part.positions = positions;
    const Collective collective = collective_of(program_, instruction, instruction.inputs[i]);
    part.collective = backend_.prepare(collective);
    part.members = collective.members();
    part.tasks = part.collective->tasks();
    for (int64_t c = 0; c < step.coordinates; ++c) {
      const int64_t position = results.position(c);
      for (int64_t member = 0; member < part.members; ++member) {
        part.inputs.push_back(
            address(instruction.inputs[i], group_member(mesh, position, instruction.axes, member)));
      }
      part.member.push_back(mesh.project(position, instruction.axes));
      part.results.push_back(address(instruction.outputs[i], position));
    }
    step.parts.push_back(std::move(part));
  }
}

double PreparedProgram::bytes_received(const Instruction& instruction) const {
  double bytes = 0;
  for (const ValueId input : instruction.inputs) {
    const std::vector<double> by_member = mtf::bytes_received(collective_of(program_, instruction, input));
    for (int64_t position = mesh_.begin(); position < mesh_.begin() + mesh_.positions(); ++position)
      bytes += by_member[static_cast<size_t>(program_.mesh.project(position, instruction.axes))];
  }
  return bytes;
}

void PreparedProgram::prepare_remote(const Instruction& instruction, PreparedStep& step) {
  const bool is_staged = !backend_.is_host() && !communicator_.is_on_device();
  StagedSlices inputs(backend_), results(backend_);
  const auto place = [&](ValueId id, int64_t position) {
    std::byte* memory = address(id, position);
    if (!is_staged) return memory;
    const bool is_result = std::ranges::find(instruction.outputs, id) != instruction.outputs.end();
    return (is_result ? results : inputs).host(memory, program_.local_bytes(id));
  };
  std::vector<RemotePart> parts = remote_parts(program_, instruction, mesh_, replicate_, place);
  if (communicator_.is_on_device() && !step.guards.empty()) {
    for (RemotePart& part : parts) part.guard = step.guards[0];  // a guard holds at all positions or at none
  }
  std::unique_ptr<RemoteCollective> collective =
      communicator_.prepare(std::move(parts), title_of(program_, instruction));
  if (is_staged)
    collective = make_staged_collective(std::move(collective), std::move(inputs), std::move(results));
  step.pending =
      &pending_.emplace_back(PendingCollective{std::move(collective), bytes_received(instruction)});
  for (ValueId id : instruction.outputs) pending_of_[id] = step.pending;
}

PreparedStep PreparedProgram::prepare_done(const Instruction& instruction) {
  PreparedStep step;
  step.instruction = &instruction;
  for (ValueId id : instruction.inputs) {
    const auto found = pending_of_.find(id);
    if (found != pending_of_.end() && std::ranges::find(step.awaited, found->second) == step.awaited.end())
      step.awaited.push_back(found->second);
  }
  return step;
}

}  // namespace mtf
