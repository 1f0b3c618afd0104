#include "engine/runtime/collective_of.h"

#include "engine/base/check.h"
#include "engine/spmd/exchange.h"

namespace mtf {
namespace {

const action::Communicate& communication(const Instruction& instruction) {
  const auto* found = instruction.as<action::Communicate>();
  MTF_CHECK(found, "not a collective");
  return *found;
}

/// Sets what depends on the kind of the collective.
struct Describe {
  Collective& result;

  void operator()(const action::AllReduce& c) const {
    result.kind = Collective::Kind::kAllReduce;
    result.reduction = c.reduction;
  }
  void operator()(const action::ReduceScatter& c) const {
    result.kind = Collective::Kind::kReduceScatter;
    result.reduction = c.reduction;
    result.dimension = c.dimension;
  }
  void operator()(const action::AllGather& c) const {
    result.kind = Collective::Kind::kAllGather;
    result.dimension = c.dimension;
  }
  void operator()(const action::AllToAll& c) const {
    result.kind = Collective::Kind::kAllToAll;
    result.dimension = c.dimension;
    result.concat_dimension = c.concat_dimension;
  }
  void operator()(const action::Exchange& c) const {
    result.kind = Collective::Kind::kExchange;
    result.dimension = c.dimension;
  }
  void operator()(const action::Send&) const {
    result.kind = Collective::Kind::kExchange;
    result.dimension = 0;
  }
};

/// What the instruction itself says of its collective; group, type, input and transfers are not set.
Collective described(const action::Communicate& communicate) {
  Collective result;
  std::visit(Describe{result}, communicate.collective);
  return result;
}

/// The transfers that each member of the group receives in a shift. Members are numbered in mesh order, the
/// parts of the dimension in the order of its splits.
std::vector<std::vector<Transfer>> exchange_transfers(const Program& program,
                                                      const action::Exchange& exchange, AxisMask axes,
                                                      ValueId input) {
  const Mesh& mesh = program.mesh;
  const int64_t members = mesh.size_of(axes);
  std::vector<int64_t> part_of, member_of(members);
  for (int64_t member = 0; member < members; ++member) {
    const std::vector<int64_t> coordinates = mesh.coordinates(mesh.first_position(member, axes));
    int64_t part = 0;
    for (int axis : program.values[input].layout.split[exchange.dimension]) {
      part = part * mesh.size(axis) + coordinates[axis];
    }
    part_of.push_back(part);
    member_of[part] = member;
  }
  const int64_t size = program.local_shape(input)[exchange.dimension].size;
  std::vector<std::vector<Transfer>> transfers;
  for (int64_t part : part_of) {
    transfers.push_back(shift_transfers(members, size, exchange.offset, exchange.wrap, part));
    for (Transfer& t : transfers.back()) t.source = member_of[t.source];
  }
  return transfers;
}

/// The whole tensor goes from the coordinate of its pin to another one, or to all.
std::vector<std::vector<Transfer>> send_transfers(const Collective& collective, const action::Send& send,
                                                  const Layout& input) {
  MTF_CHECK(input.pin, "only what one stage has is sent");
  std::vector<std::vector<Transfer>> transfers(static_cast<size_t>(collective.members()));
  for (int64_t member = 0; member < collective.members(); ++member) {
    if (!send.to || *send.to == member)
      transfers[static_cast<size_t>(member)] = {{input.pin->coordinate, 0, 0, collective.input[0]}};
  }
  return transfers;
}

}  // namespace

Collective collective_of(const Program& program, const Instruction& instruction, ValueId input) {
  const action::Communicate& communicate = communication(instruction);
  Collective collective = described(communicate);
  collective.dtype = program.values[input].dtype;
  for (int axis = 0; axis < program.mesh.rank(); ++axis) {
    if (has_axis(communicate.axes, axis)) collective.group.push_back(program.mesh.size(axis));
  }
  collective.input = program.local_shape(input).sizes();
  if (const auto* exchange = instruction.collective<action::Exchange>())
    collective.transfers = exchange_transfers(program, *exchange, communicate.axes, input);
  if (const auto* send = instruction.collective<action::Send>()) {
    if (collective.input.empty()) collective.input = {1};
    collective.transfers = send_transfers(collective, *send, program.values[input].layout);
  }
  return collective;
}

Copies stored_over(const Program& program, ValueId id, bool replicate) {
  return program.mesh.stored(program.values[program.root(id)].copies(), replicate);
}

Copies computed_over(const Program& program, const Instruction& instruction, bool replicate) {
  return instruction.outputs.empty() ? Copies(program.mesh.all_axes())
                                     : stored_over(program, instruction.outputs[0], replicate);
}

namespace {

/// The groups of input number `i`.
RemoteGroupRequest groups_of(const Program& program, const Instruction& instruction, size_t i,
                             bool replicate) {
  const action::Communicate& communicate = communication(instruction);
  return {.kind = described(communicate).kind,
          .axes = communicate.axes,
          .computed = computed_over(program, instruction, replicate),
          .stored = stored_over(program, instruction.inputs[i], replicate)};
}

}  // namespace

CollectiveRequest request_of(const Program& program, const Instruction& instruction, bool replicate) {
  const action::Communicate& communicate = communication(instruction);
  const Collective collective = described(communicate);
  const auto* exchange = instruction.collective<action::Exchange>();
  const auto* send = instruction.collective<action::Send>();
  CollectiveRequest request = {static_cast<int64_t>(collective.kind),
                               communicate.axes,
                               static_cast<int64_t>(collective.reduction),
                               collective.dimension,
                               collective.concat_dimension,
                               exchange ? exchange->offset : 0,
                               exchange && exchange->wrap,
                               instruction.guard != kNoValue,
                               send ? send->to.value_or(-1) : -2};
  const auto add = [&request](const Copies& copies) {
    request.insert(request.end(), {copies.axes, copies.pin ? copies.pin->axis : -1,
                                   copies.pin ? copies.pin->coordinate : -1});
  };
  add(computed_over(program, instruction, replicate));
  for (ValueId id : instruction.inputs) {
    const Value& value = program.values[id];
    const Shape local = program.local_shape(id);
    add(stored_over(program, id, replicate));
    request.insert(request.end(), {static_cast<int64_t>(value.dtype), local.rank()});
    for (const Dimension& d : local) request.push_back(d.size);
    // Only an exchange depends on the order of the splits.
    if (!exchange) continue;
    const std::vector<int>& axes = value.layout.split[exchange->dimension];
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
                                     RemoteGroupPlans& plans, bool replicate,
                                     const std::function<std::byte*(ValueId id, int64_t position)>& address) {
  std::vector<RemotePart> parts;
  for (size_t i = 0; i < instruction.inputs.size(); ++i) {
    const ValueId input = instruction.inputs[i], output = instruction.outputs[i];
    const RemoteGroupPlan& plan = plans.of(groups_of(program, instruction, i, replicate));
    parts.push_back({.collective = collective_of(program, instruction, input),
                     .groups = plan.groups([&](int64_t position) { return address(input, position); },
                                           [&](int64_t position) { return address(output, position); }),
                     .process_groups = plan.process_groups()});
  }
  return parts;
}

std::vector<RemotePart> planned_parts(const Program& program, const Instruction& instruction,
                                      RemoteGroupPlans& plans, bool replicate) {
  static std::byte anywhere{};
  static const bool any_guard = true;
  std::vector<RemotePart> parts =
      remote_parts(program, instruction, plans, replicate, [](ValueId, int64_t) { return &anywhere; });
  for (RemotePart& part : parts) part.guard = instruction.guard == kNoValue ? nullptr : &any_guard;
  return parts;
}

}  // namespace mtf
