#include "engine/runtime/collective_of.h"

#include "engine/base/check.h"
#include "engine/spmd/exchange.h"

namespace mtf {
namespace {

Collective::Kind collective_kind(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::kAllReduce:
      return Collective::Kind::kAllReduce;
    case InstructionKind::kReduceScatter:
      return Collective::Kind::kReduceScatter;
    case InstructionKind::kAllGather:
      return Collective::Kind::kAllGather;
    case InstructionKind::kAllToAll:
      return Collective::Kind::kAllToAll;
    default:
      MTF_CHECK(kind == InstructionKind::kExchange, "not a collective");
      return Collective::Kind::kExchange;
  }
}

/// The transfers that each member of the group receives in a shift. Members are numbered in mesh order, the
/// parts of the dimension in the order of its splits.
std::vector<std::vector<Transfer>> exchange_transfers(const Program& program, const Instruction& instruction,
                                                      ValueId input) {
  const Mesh& mesh = program.mesh;
  const int64_t members = mesh.size_of(instruction.axes);
  std::vector<int64_t> part_of, member_of(members);
  for (int64_t member = 0; member < members; ++member) {
    const std::vector<int64_t> coordinates = mesh.coordinates(mesh.first_position(member, instruction.axes));
    int64_t part = 0;
    for (int axis : program.values[input].layout.split[instruction.dimension]) {
      part = part * mesh.size(axis) + coordinates[axis];
    }
    part_of.push_back(part);
    member_of[part] = member;
  }
  const int64_t size = program.local_shape(input)[instruction.dimension].size;
  std::vector<std::vector<Transfer>> transfers;
  for (int64_t part : part_of) {
    transfers.push_back(shift_transfers(members, size, instruction.offset, instruction.wrap, part));
    for (Transfer& t : transfers.back()) t.source = member_of[t.source];
  }
  return transfers;
}

}  // namespace

Collective collective_of(const Program& program, const Instruction& instruction, ValueId input) {
  Collective collective;
  collective.kind = collective_kind(instruction.kind);
  collective.reduction = instruction.reduction;
  collective.dtype = program.values[input].dtype;
  for (int axis = 0; axis < program.mesh.rank(); ++axis) {
    if (has_axis(instruction.axes, axis)) collective.group.push_back(program.mesh.size(axis));
  }
  const Shape local = program.local_shape(input);
  for (const Dimension& d : local) collective.input.push_back(d.size);
  collective.dimension = instruction.dimension;
  collective.concat_dimension = instruction.concat_dimension;
  if (instruction.kind == InstructionKind::kExchange) {
    collective.transfers = exchange_transfers(program, instruction, input);
  }
  return collective;
}

AxisMask stored_over(const Program& program, ValueId id, bool replicate) {
  return replicate ? program.mesh.all_axes() : program.values[program.root(id)].varies;
}

AxisMask computed_over(const Program& program, const Instruction& instruction, bool replicate) {
  return instruction.outputs.empty() ? program.mesh.all_axes()
                                     : stored_over(program, instruction.outputs[0], replicate);
}

namespace {

/// The groups of input number `i`; the request has no addresses.
RemoteGroupRequest groups_of(const Program& program, const Instruction& instruction, size_t i,
                             bool replicate) {
  return {.kind = collective_kind(instruction.kind),
          .axes = instruction.axes,
          .computed = computed_over(program, instruction, replicate),
          .stored = stored_over(program, instruction.inputs[i], replicate),
          .input = {},
          .result = {}};
}

}  // namespace

CollectiveRequest request_of(const Program& program, const Instruction& instruction, bool replicate) {
  CollectiveRequest request = {static_cast<int64_t>(instruction.kind),
                               instruction.axes,
                               static_cast<int64_t>(instruction.reduction),
                               instruction.dimension,
                               instruction.concat_dimension,
                               instruction.offset,
                               instruction.wrap,
                               instruction.guard != kNoValue,
                               computed_over(program, instruction, replicate)};
  for (ValueId id : instruction.inputs) {
    const Value& value = program.values[id];
    const Shape local = program.local_shape(id);
    request.insert(request.end(),
                   {static_cast<int64_t>(value.dtype), stored_over(program, id, replicate), local.rank()});
    for (const Dimension& d : local) request.push_back(d.size);
    // Only an exchange depends on the order of the splits.
    if (instruction.kind != InstructionKind::kExchange) continue;
    const std::vector<int>& axes = value.layout.split[instruction.dimension];
    request.insert(request.end(), axes.begin(), axes.end());
  }
  return request;
}

bool crosses_processes(const Program& program, const Instruction& instruction, const HostedMesh& mesh,
                       bool replicate) {
  if (mesh.processes() == 1) return false;
  for (size_t i = 0; i < instruction.inputs.size(); ++i) {
    if (crosses_processes(mesh, groups_of(program, instruction, i, replicate))) return true;
  }
  return false;
}

std::vector<RemotePart> remote_parts(const Program& program, const Instruction& instruction,
                                     const HostedMesh& mesh, bool replicate,
                                     const std::function<std::byte*(ValueId id, int64_t position)>& address) {
  std::vector<RemotePart> parts;
  for (size_t i = 0; i < instruction.inputs.size(); ++i) {
    const ValueId input = instruction.inputs[i], output = instruction.outputs[i];
    RemoteGroupRequest request = groups_of(program, instruction, i, replicate);
    request.input = [&](int64_t position) { return address(input, position); };
    request.result = [&](int64_t position) { return address(output, position); };
    parts.push_back({.collective = collective_of(program, instruction, input),
                     .groups = remote_groups(mesh, request),
                     .process_groups = even_process_groups(mesh, request)});
  }
  return parts;
}

std::vector<RemotePart> planned_parts(const Program& program, const Instruction& instruction,
                                      const HostedMesh& mesh, bool replicate) {
  static std::byte anywhere{};
  static const bool any_guard = true;
  std::vector<RemotePart> parts =
      remote_parts(program, instruction, mesh, replicate, [](ValueId, int64_t) { return &anywhere; });
  for (RemotePart& part : parts) part.guard = instruction.guard == kNoValue ? nullptr : &any_guard;
  return parts;
}

}  // namespace mtf
