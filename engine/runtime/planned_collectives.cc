#include "engine/runtime/planned_collectives.h"

namespace mtf {
namespace {

/// The mesh dimensions along which processes take part in a collective, or have none of it because of a pin.
AxisMask joined_axes(const Program& program, const Instruction& instruction) {
  AxisMask axes = instruction.as<action::Communicate>()->axes;
  for (const std::vector<ValueId>* ids : {&instruction.inputs, &instruction.outputs}) {
    for (const ValueId id : *ids) {
      if (const std::optional<Pin>& pin = program.values[program.root(id)].layout.pin)
        axes |= axis_bit(pin->axis);
    }
  }
  return axes;
}

}  // namespace

std::optional<PlannedCollectives::Planned> PlannedCollectives::of(const Program& program,
                                                                  const Instruction& instruction) {
  const bool is_alone = mesh_.positions() == 1;
  RemoteGroupPlans& plans =
      plans_along(is_alone ? joined_axes(program, instruction) : mesh_.mesh().all_axes());
  const HostedMesh& joined = plans.hosted();
  if (!crosses_processes(program, instruction, joined, replicate_)) return std::nullopt;
  return Planned{planned_parts(program, instruction, plans, replicate_), joined.process(),
                 joined.processes()};
}

RemoteGroupPlans& PlannedCollectives::plans_along(AxisMask axes) {
  const auto known = plans_.find(axes);
  if (known != plans_.end()) return known->second;
  const Mesh& mesh = mesh_.mesh();
  if (axes == mesh.all_axes()) return plans_.emplace(axes, mesh_).first->second;
  std::vector<Dimension> sizes;
  for (int axis = 0; axis < mesh.rank(); ++axis)
    sizes.push_back({mesh.name(axis), has_axis(axes, axis) ? mesh.size(axis) : 1});
  const Hosting hosting{static_cast<int>(mesh.size_of(axes)),
                        static_cast<int>(mesh.project(mesh_.process(), axes))};
  return plans_.emplace(axes, HostedMesh(Mesh(Shape(std::move(sizes))), hosting)).first->second;
}

}  // namespace mtf
