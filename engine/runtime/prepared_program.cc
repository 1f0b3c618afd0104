#include "engine/runtime/prepared_program.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "engine/base/check.h"
#include "engine/comm/move_plan.h"
#include "engine/runtime/collective_of.h"
#include "engine/runtime/concurrent_steps.h"
#include "engine/runtime/staged_collective.h"
#include "engine/spmd/instruction_key.h"

namespace mtf {
namespace {

/// The position that differs from `position` only along `axes`, where its row-major coordinate is `member`.
int64_t group_member(const Mesh& mesh, int64_t position, AxisMask axes, int64_t member) {
  const int64_t base =
      mesh.first_position(mesh.project(position, ~axes & mesh.all_axes()), ~axes & mesh.all_axes());
  return base + mesh.first_position(member, axes);
}

LocalTensor local_tensor(const Program& program, ValueId id) {
  const Shape local = program.local_shape(id);
  return {program.values[id].shape, local, local.strides(), program.values[id].dtype};
}

/// The move of an instruction that runs no operation.
Move move_of(const Program& program, const Instruction& instruction) {
  const LocalTensor input = local_tensor(program, instruction.inputs[0]);
  const LocalTensor output = local_tensor(program, instruction.outputs[0]);
  if (const auto* slice = instruction.as<action::Slice>())
    return {Move::Kind::kSlice, input, output, slice->dimension};
  if (const auto* place = instruction.as<action::Place>())
    return {Move::Kind::kPlace, input, output, place->dimension, place->count};
  if (instruction.is<action::Copy>()) return {Move::Kind::kCopy, input, output};
  MTF_CHECK(instruction.is<action::Accumulate>(), "not a move");
  return {Move::Kind::kAccumulate, input, output};
}

/// The context of the kernel of an instruction that runs an operation.
KernelContext kernel_context(const Program& program, const Instruction& instruction, uint64_t seed) {
  KernelContext context{.operation = *instruction.operation(),
                        .inputs = {},
                        .outputs = {},
                        .seed = seed,
                        .guarded = instruction.guard != kNoValue,
                        .accumulates = instruction.is<action::Accumulate>()};
  for (ValueId id : instruction.inputs) context.inputs.push_back(local_tensor(program, id));
  for (ValueId id : instruction.outputs) context.outputs.push_back(local_tensor(program, id));
  return context;
}

/// The kernel of an instruction that is neither a collective nor a loop.
std::unique_ptr<Kernel> kernel_of(const Program& program, const Instruction& instruction, Backend& backend,
                                  uint64_t seed) {
  if (!instruction.operation()) return backend.prepare(move_of(program, instruction));
  return backend.prepare(kernel_context(program, instruction, seed));
}

/// Finds the bytes of scratch memory that the kernels of a program need.
class KernelScratch {
 public:
  KernelScratch(const Program& program, Backend& backend) : program_(program), backend_(backend) {}

  size_t largest(const std::vector<Instruction>& block) {
    size_t bytes = 0;
    for (const Instruction& instruction : block) {
      if (instruction.is<action::Loop>()) {
        bytes = std::max(bytes, largest(instruction.body()));
      } else if (!instruction.is<action::Transfer>() && !instruction.is<action::Done>() &&
                 !instruction.is_collective()) {
        key_.set(program_, instruction);
        if (seen_.insert(key_).second)
          bytes = std::max(bytes, kernel_of(program_, instruction, backend_, 0)->scratch_bytes());
      }
    }
    return bytes;
  }

 private:
  const Program& program_;
  Backend& backend_;
  std::unordered_set<InstructionKey, InstructionKey::Hash> seen_;
  InstructionKey key_;
};

/// The name of a collective in messages: "all_gather of layer_2/kernel over data", "all_reduce of %27 and 3
/// others over rows, cols (backward pass of layer_2)".
std::string title_of(const Program& program, const Instruction& instruction) {
  const Value& first = program.values[instruction.inputs[0]];
  std::string title = fmt::format("{} of {}{}", name_of(instruction),
                                  first.storage == Value::Storage::kTemporary ? "%" : "", first.name);
  const size_t others = instruction.inputs.size() - 1;
  if (others > 0) title += others == 1 ? " and another" : fmt::format(" and {} others", others);
  title += " over " + program.mesh.names(instruction.as<action::Communicate>()->axes);
  const Provenance& from = instruction.provenance;
  if (from.path().empty()) return title;
  const char* pass = from.phase == Phase::kForward  ? ""
                     : from.phase == Phase::kUpdate ? "update of "
                                                    : "backward pass of ";
  return title + fmt::format(" ({}{})", pass, from.path());
}

}  // namespace

int64_t kernel_scratch_bytes(const Program& program, Backend& backend) {
  return whole_pages(static_cast<int64_t>(KernelScratch(program, backend).largest(program.instructions)));
}

PreparedProgram::PreparedProgram(Program program, Backend& backend, Communicator& communicator,
                                 VariableStore& variables, Workspace& workspace, uint64_t seed,
                                 bool replicate)
    : program_(std::move(program)),
      backend_(backend),
      communicator_(communicator),
      variables_(variables),
      threads_(workspace.pool.threads()),
      seed_(seed),
      replicate_(replicate),
      mesh_(program_.mesh, hosting_of(&communicator)),
      groups_(mesh_),
      sums_(position_sums(program_, mesh_, replicate)),
      memory_(plan_memory(program_, replicate, hosting_of(&communicator))) {
  allocate(workspace.temporaries);
  segments_ = prepare(program_.instructions);
  // A run ends when all collectives have, also those that nothing waits for.
  if (last_start_.instruction != nullptr && !pending_of_.contains(last_start_.instruction->outputs[0]))
    segments_.push_back({WaitStep{{last_start_.instruction}, {last_start_.pending}}});
  backend_.compile();
}

void PreparedProgram::allocate(SharedMemory& temporaries) {
  const auto bytes_of = [](const MemoryPlan::Arena& arena) {
    return whole_pages(aligned(arena.bytes) * arena.copies);
  };
  int64_t total = 0;
  for (const auto& [copies, arena] : memory_.arenas) total += bytes_of(arena);
  memories_.push_back(temporaries.at_least(total));
  std::byte* next = memories_.back()->data();
  for (const auto& [copies, arena] : memory_.arenas)
    arenas_[copies] = std::exchange(next, next + bytes_of(arena));
  for (const auto& [copies, arena] : memory_.host_arenas) {
    memories_.push_back(backend_.allocate_on_host(bytes_of(arena)));
    host_arenas_[copies] = memories_.back()->data();
  }
  std::vector<int64_t> bytes;
  for (const auto& [name, id] : program_.inputs)
    bytes.push_back(aligned(program_.local_bytes(id)) * copies(stored(id)).size());
  inputs_ = std::make_unique<ProgramInputs>(backend_, bytes);
}

int64_t PreparedProgram::offset_in_input(ValueId id, int64_t position) const {
  return aligned(program_.local_bytes(id)) * *copies(stored(id)).find(position);
}

Copies PreparedProgram::stored(ValueId id) const { return stored_over(program_, id, replicate_); }

const HostedCopies& PreparedProgram::copies(const Copies& copies) const {
  const auto found = copies_.find(copies);
  return found != copies_.end() ? found->second : copies_.emplace(copies, mesh_.copies(copies)).first->second;
}

std::byte* PreparedProgram::address(ValueId id, int64_t position) const {
  const ValueId root = program_.root(id);
  const Value& value = program_.values[root];
  if (value.storage == Value::Storage::kVariable) return variables_.slice(value.name, position);
  if (value.storage == Value::Storage::kInput)
    return inputs_->address(value.index) + offset_in_input(root, position);
  const int64_t copy = *copies(stored(root)).find(position);
  MTF_CHECK(memory_.offsets[root] >= 0, "%{} has no memory", value.name);
  const Copies arena = memory_.arena_of(stored(root));
  const auto& [memory, plan] =
      value.on_host ? std::tie(host_arenas_, memory_.host_arenas) : std::tie(arenas_, memory_.arenas);
  return memory.at(arena) + copy * aligned(plan.at(arena).bytes) + memory_.offsets[root] +
         program_.offset(id);
}

const std::vector<int64_t>& PreparedProgram::begin(ValueId id, int64_t position) {
  const Value& value = program_.values[id];
  const int64_t coordinate = program_.mesh.project(position, value.layout.split_axes());
  const std::vector<int64_t>*& known = begin_of_[{id, coordinate}];
  if (!known) known = &begins_.emplace_back(slice_begin(value.shape, value.layout, program_.mesh, position));
  return *known;
}

/// A step runs once for each copy of its results.
Copies PreparedProgram::computed_over(const Instruction& instruction) const {
  return mtf::computed_over(program_, instruction, replicate_);
}

std::vector<PreparedSegment> PreparedProgram::prepare(const std::vector<Instruction>& block) {
  std::vector<PreparedSegment> segments;
  for (const Instruction& instruction : block) {
    if (const auto* loop = instruction.as<action::Loop>()) {
      segments.push_back({LoopStep{{&instruction}, loop->count, prepare(loop->body)}});
    } else if (instruction.is<action::Done>()) {
      WaitStep wait = prepare_wait(instruction);
      if (!wait.awaited.empty() || !wait.transfers.empty()) segments.push_back({std::move(wait)});
    } else if (instruction.is<action::Transfer>()) {
      if (copies(stored(instruction.inputs[0])).size() > 0)
        segments.push_back({prepare_transfer(instruction)});
    } else if (!instruction.is_collective()) {
      if (copies(computed_over(instruction)).size() == 0) continue;  // another process has this stage
      std::optional<KernelStep> total = prepare_total(instruction);
      KernelStep step = total ? std::move(*total) : prepare_kernel(instruction);
      auto* last = segments.empty() ? nullptr : std::get_if<KernelSteps>(&segments.back().steps);
      const auto is_shared = [this](const StepCoordinates& at) { return at.count < threads_; };
      if (!last || (last->at != step.at && !(is_shared(last->at) && is_shared(step.at)))) {
        segments.push_back({KernelSteps{step.at, {}}});
        last = std::get_if<KernelSteps>(&segments.back().steps);
      }
      last->steps.push_back(std::move(step));
    } else if (crosses_processes(program_, instruction, mesh_, replicate_)) {
      segments.push_back({prepare_start(instruction)});
    } else if (copies(computed_over(instruction)).size() > 0) {
      CollectiveStep step = prepare_collective(instruction);
      if (!step.parts.empty()) segments.push_back({std::move(step)});
    }
  }
  for (PreparedSegment& segment : segments) {
    if (auto* local = std::get_if<KernelSteps>(&segment.steps); local && local->at.count < threads_)
      local->ends = concurrent_steps(program_, local->steps);
  }
  return segments;
}

PreparedStep PreparedProgram::prepare_step(const Instruction& instruction) const {
  PreparedStep step{&instruction};
  step.writes_variables = std::ranges::any_of(instruction.outputs, [&](ValueId id) {
    return program_.values[program_.root(id)].storage == Value::Storage::kVariable;
  });
  if (instruction.guard == kNoValue) return step;
  const HostedCopies& results = copies(computed_over(instruction));
  const auto add = [&](int64_t position) {
    step.guards.push_back(reinterpret_cast<const bool*>(address(instruction.guard, position)));
  };
  for (int64_t c = 0; c < results.size(); ++c) add(results.position(c));
  // All processes start a collective, or none does, also those that take no part.
  if (step.guards.empty()) add(mesh_.begin());
  return step;
}

void PreparedProgram::set_kernel(KernelStep& step, std::unique_ptr<Kernel> kernel) {
  step.kernel = std::move(kernel);
  step.tasks = step.kernel->tasks();
  scratch_bytes_ = std::max(scratch_bytes_, step.kernel->scratch_bytes());
}

KernelStep PreparedProgram::prepare_kernel(const Instruction& instruction) {
  const Copies computed = computed_over(instruction);
  const HostedCopies& results = copies(computed);
  KernelStep step{prepare_step(instruction)};
  step.at = {computed, results.size()};
  step.positions = static_cast<double>(positions_of(computed)) / static_cast<double>(step.at.count);
  step.inputs = instruction.inputs.size();
  step.outputs = instruction.outputs.size();
  step.results = instruction.outputs;
  for (int64_t c = 0; c < step.at.count; ++c) {
    const int64_t position = results.position(c);
    for (const std::vector<ValueId>* ids : {&instruction.inputs, &instruction.outputs}) {
      for (ValueId id : *ids) step.slices.push_back(slice(id, position));
    }
  }
  join_coordinates(step);
  if (!step.kernel) set_kernel(step, kernel_of(program_, instruction, backend_, seed_));
  return step;
}

void PreparedProgram::join_coordinates(KernelStep& step) {
  const Instruction& instruction = *step.instruction;
  if (step.at.count == 1 || replicate_ || !instruction.is<action::Run>() || !step.guards.empty()) return;
  const size_t operands = step.inputs + step.outputs;
  const auto slices_of = [&](int64_t copy) {
    return step.slices.data() + copy * static_cast<int64_t>(operands);
  };
  for (size_t shared = 0; shared < step.inputs; ++shared) {
    std::vector<std::vector<int64_t>> groups;  // copies that have the same slice of the input
    for (int64_t copy = 0; copy < step.at.count; ++copy) {
      const auto group = std::ranges::find_if(groups, [&](const std::vector<int64_t>& copies) {
        return slices_of(copies[0])[shared].data == slices_of(copy)[shared].data;
      });
      (group == groups.end() ? groups.emplace_back() : *group).push_back(copy);
    }
    const auto is_like_first = [&](const auto& group) { return group.size() == groups[0].size(); };
    if (groups[0].size() == 1 || !std::ranges::all_of(groups, is_like_first)) continue;
    const JointPositions positions{static_cast<int64_t>(groups[0].size()), static_cast<int>(shared)};
    std::unique_ptr<Kernel> kernel =
        backend_.prepare_joint(kernel_context(program_, instruction, seed_), positions);
    if (!kernel) continue;
    std::vector<Slice> slices;
    for (const std::vector<int64_t>& group : groups) {
      for (const auto& [first, last] :
           {std::pair(size_t{0}, step.inputs), std::pair(step.inputs, operands)}) {
        for (const int64_t copy : group)
          slices.insert(slices.end(), slices_of(copy) + first, slices_of(copy) + last);
      }
      step.at.grouped.insert(step.at.grouped.end(), group.begin(), group.end());
    }
    step.slices = std::move(slices);
    step.inputs *= groups[0].size();
    step.outputs *= groups[0].size();
    step.at.count = std::ssize(groups);
    return set_kernel(step, std::move(kernel));
  }
}

std::optional<KernelStep> PreparedProgram::prepare_total(const Instruction& instruction) {
  const auto found = instruction.outputs.empty() ? sums_.end() : sums_.find(instruction.outputs[0]);
  if (found == sums_.end()) return std::nullopt;
  const auto& [total, reduction] = found->second;
  const AxisMask axes = reduction->as<action::Communicate>()->axes;
  const Collective collective = collective_of(program_, *reduction, instruction.outputs[0]);
  const int64_t members = collective.members();
  std::unique_ptr<Kernel> kernel = backend_.prepare_joint(kernel_context(program_, instruction, seed_),
                                                          {.count = members, .summed = collective.group});
  if (!kernel) return std::nullopt;
  const Copies computed = computed_over(*reduction);
  const HostedCopies& results = copies(computed);
  KernelStep step{prepare_step(instruction)};
  step.at = {computed, results.size()};
  step.inputs = instruction.inputs.size() * static_cast<size_t>(members);
  step.outputs = 1;
  step.results = {total};
  for (int64_t c = 0; c < step.at.count; ++c) {
    const int64_t position = results.position(c);
    for (int64_t member = 0; member < members; ++member) {
      const int64_t source = group_member(program_.mesh, position, axes, member);
      for (const ValueId id : instruction.inputs) step.slices.push_back(slice(id, source));
    }
    step.slices.push_back(slice(total, position));
  }
  set_kernel(step, std::move(kernel));
  const double sharing = static_cast<double>(positions_of(computed)) / static_cast<double>(step.at.count);
  step.positions = sharing / static_cast<double>(members);
  step.bytes = mtf::bytes_received(collective)[0] * sharing / static_cast<double>(step.tasks);
  terms_[total] = instruction.outputs[0];
  return step;
}

ValueId PreparedProgram::computed_as(ValueId id) const {
  const auto term = terms_.find(id);
  return term != terms_.end() ? term->second : id;
}

/// True if `instruction` sends to all what the position has already.
bool PreparedProgram::has_at_rest(const Instruction& instruction, int64_t position) const {
  const auto* send = instruction.collective<action::Send>();
  return send != nullptr && !send->to &&
         program_.mesh.is_at(position, *program_.values[instruction.inputs[0]].layout.pin);
}

/// `member`, or where it sends to all another one, which receives what all get.
int64_t PreparedProgram::receiving_member(const Instruction& instruction, int64_t member) const {
  const auto* send = instruction.collective<action::Send>();
  if (send == nullptr || send->to) return member;
  const Pin& pin = *program_.values[instruction.inputs[0]].layout.pin;
  return (pin.coordinate + 1) % program_.mesh.size(pin.axis);
}

CollectiveStep PreparedProgram::prepare_collective(const Instruction& instruction) {
  const Mesh& mesh = program_.mesh;
  const AxisMask axes = instruction.as<action::Communicate>()->axes;
  const HostedCopies& results = copies(computed_over(instruction));
  CollectiveStep step{prepare_step(instruction)};
  step.coordinates = results.size();
  std::vector<double> positions(static_cast<size_t>(results.size()));
  for (int64_t position = mesh_.begin(); position < mesh_.begin() + mesh_.positions(); ++position) {
    const auto copy = results.find(position);
    if (copy && !has_at_rest(instruction, position)) ++positions[static_cast<size_t>(*copy)];
  }
  for (size_t i = 0; i < instruction.inputs.size(); ++i) {
    if (terms_.contains(instruction.outputs[i])) continue;  // is made already
    CollectivePart part;
    part.positions = positions;
    const Collective collective = collective_of(program_, instruction, instruction.inputs[i]);
    part.collective = backend_.prepare(collective);
    part.members = collective.members();
    part.tasks = part.collective->tasks();
    for (int64_t c = 0; c < step.coordinates; ++c) {
      const int64_t position = results.position(c);
      for (int64_t member = 0; member < part.members; ++member) {
        const int64_t source = group_member(mesh, position, axes, member);
        const bool has_input = copies(stored(instruction.inputs[i])).find(source).has_value();
        part.inputs.push_back(has_input ? address(instruction.inputs[i], source) : nullptr);
      }
      part.member.push_back(receiving_member(instruction, mesh.project(position, axes)));
      part.results.push_back(address(instruction.outputs[i], position));
    }
    step.parts.push_back(std::move(part));
  }
  return step;
}

int64_t PreparedProgram::positions_of(const Copies& copies) const {
  return copies.pin ? mesh_.size_of(program_.mesh.stored(copies, true)) : mesh_.positions();
}

double PreparedProgram::bytes_received(const Instruction& instruction) const {
  const AxisMask axes = instruction.as<action::Communicate>()->axes;
  double bytes = 0;
  for (const ValueId input : instruction.inputs) {
    const std::vector<double> by_member = mtf::bytes_received(collective_of(program_, instruction, input));
    const std::optional<Pin> pin = computed_over(instruction).pin;
    for (int64_t position = mesh_.begin(); position < mesh_.begin() + mesh_.positions(); ++position) {
      if (!pin || program_.mesh.is_at(position, *pin))
        bytes += by_member[static_cast<size_t>(program_.mesh.project(position, axes))];
    }
  }
  return bytes;
}

StartStep PreparedProgram::prepare_start(const Instruction& instruction) {
  StartStep step{prepare_step(instruction)};
  const bool is_staged = !backend_.is_host() && !communicator_.is_on_device();
  StagedSlices inputs(backend_), results(backend_);
  const auto place = [&](ValueId id, int64_t position) {
    std::byte* memory = address(id, position);
    if (!is_staged) return memory;
    const bool is_result = std::ranges::find(instruction.outputs, id) != instruction.outputs.end();
    return (is_result ? results : inputs).host(memory, program_.local_bytes(id));
  };
  std::vector<RemotePart> parts = remote_parts(program_, instruction, groups_, replicate_, place);
  const bool takes_part =
      std::ranges::any_of(parts, [](const RemotePart& part) { return !part.groups.empty(); });
  if (communicator_.is_on_device() && !step.guards.empty()) {
    for (RemotePart& part : parts) part.guard = step.guards[0];  // a guard holds at all positions or at none
  }
  std::unique_ptr<RemoteCollective> collective =
      communicator_.prepare(std::move(parts), title_of(program_, instruction));
  if (is_staged)
    collective = make_staged_collective(std::move(collective), std::move(inputs), std::move(results));
  step.pending =
      &pending_.emplace_back(PendingCollective{std::move(collective), bytes_received(instruction)});
  // Nothing here waits for what other processes do among themselves.
  if (takes_part) {
    for (ValueId id : instruction.outputs) pending_of_[id] = step.pending;
  }
  last_start_ = step;
  return step;
}

TransferStep PreparedProgram::prepare_transfer(const Instruction& instruction) {
  const ValueId from = instruction.inputs[0], to = instruction.outputs[0];
  const HostedCopies& held = copies(stored(from));
  std::vector<MemoryTransfer::Part> parts;
  for (int64_t copy = 0; copy < held.size(); ++copy) {
    const int64_t position = held.position(copy);
    parts.push_back({address(to, position), address(from, position), program_.local_bytes(from)});
  }
  const auto direction =
      instruction.as<action::Transfer>()->to_host ? TransferDirection::kToHost : TransferDirection::kToDevice;
  transfers_[to] = backend_.make_memory_transfer(std::move(parts), direction);
  return {{&instruction}, transfers_[to].get()};
}

WaitStep PreparedProgram::prepare_wait(const Instruction& instruction) const {
  WaitStep step{{&instruction}};
  for (ValueId id : instruction.inputs) {
    const auto found = pending_of_.find(id);
    if (found != pending_of_.end() && std::ranges::find(step.awaited, found->second) == step.awaited.end())
      step.awaited.push_back(found->second);
    if (const auto transfer = transfers_.find(id); transfer != transfers_.end())
      step.transfers.push_back(transfer->second.get());
  }
  return step;
}

}  // namespace mtf
