#include "engine/runtime/memory_plan.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/runtime/arena_layout.h"
#include "engine/runtime/program_inputs.h"
#include "engine/spmd/lifetimes.h"

namespace mtf {
namespace {

AxisMask differing_axes(const HostedMesh& mesh) {
  AxisMask axes = 0;
  for (int axis = 0; axis < mesh.mesh().rank(); ++axis) {
    if (mesh.size_of(axis_bit(axis)) > 1) axes |= axis_bit(axis);
  }
  return axes;
}

}  // namespace

MemoryPlan plan_memory(const Program& program, bool replicate, Hosting hosting) {
  const std::vector<Lifetime> lives = lifetimes(program);
  const Mesh& mesh = program.mesh;
  const HostedMesh hosted(mesh, hosting);
  const auto mask_of = [&](const Value& value) { return replicate ? mesh.all_axes() : value.varies; };
  MemoryPlan plan;
  plan.differing = differing_axes(hosted);
  plan.offsets.assign(program.values.size(), -1);
  std::map<AxisMask, std::vector<Region>> blocks;
  int64_t inputs = 0;         ///< bytes of all copies in this process
  std::vector<Region> alone;  ///< regions of one position that shares nothing and thus needs one arena
  for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
    const Value& value = program.values[id];
    if (value.alias != kNoValue) continue;
    const int64_t bytes = aligned(program.local_bytes(id));
    if (value.storage == Value::Storage::kInput) {
      plan.input_bytes += bytes;
      inputs += bytes * hosted.size_of(mask_of(value));
    } else if (value.storage == Value::Storage::kTemporary && lives[id].begin >= 0) {
      blocks[plan.arena_of(mask_of(value))].push_back({id, bytes, lives[id].begin, lives[id].end});
    }
  }
  plan.process.inputs = whole_pages(input_block_bytes(inputs));
  for (auto& [mask, list] : blocks) {
    MemoryPlan::Arena& arena = plan.arenas[mask];
    arena = {mask, place(list), hosted.size_of(mask)};
    for (const Region& block : list) plan.offsets[block.id] = block.offset;
    alone.insert(alone.end(), list.begin(), list.end());
    plan.process.temporaries += whole_pages(arena.bytes * arena.copies);
  }
  plan.temporary_bytes = place(alone);
  std::map<Variable::Kind, int64_t> kinds;  ///< bytes of the variables in this process
  for (const ProgramVariable& variable : program.variables) {
    const Shape local = slice_shape(variable.variable.shape, variable.layout, mesh);
    plan.variable_bytes += local.size() * static_cast<int64_t>(size_of(variable.variable.dtype));
    kinds[variable.variable.kind] += process_bytes(variable, hosted, replicate);
  }
  for (const auto& [kind, bytes] : kinds) plan.process.variables += whole_pages(bytes);
  return plan;
}

int64_t process_bytes(const ProgramVariable& variable, const HostedMesh& mesh, bool replicate) {
  const Shape local = slice_shape(variable.variable.shape, variable.layout, mesh.mesh());
  const int64_t slice = aligned(local.size() * static_cast<int64_t>(size_of(variable.variable.dtype)));
  return variable_aligned(slice *
                          mesh.size_of(replicate ? mesh.mesh().all_axes() : variable.layout.varies()));
}

}  // namespace mtf
