#include "engine/runtime/memory_plan.h"

#include <algorithm>

#include "engine/runtime/arena_layout.h"
#include "engine/runtime/position_sums.h"
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

/// The stage at which a position's memory has the value; nothing: each position has it.
std::optional<size_t> stage_of(const Layout& layout) {
  return layout.pin ? std::optional(static_cast<size_t>(layout.pin->coordinate)) : std::nullopt;
}

/// The regions of one position of each stage.
class StageRegions {
 public:
  void add(std::optional<size_t> stage, const Region& region) {
    if (!stage) return everywhere_.push_back(region);
    if (stages_.size() <= *stage) stages_.resize(*stage + 1);
    stages_[*stage].push_back(region);
  }
  size_t stages() const { return std::max<size_t>(1, stages_.size()); }
  /// The bytes that the regions of a stage need together.
  int64_t bytes(size_t stage) const {
    std::vector<Region> all = everywhere_;
    if (stage < stages_.size()) all.insert(all.end(), stages_[stage].begin(), stages_[stage].end());
    return place(all);
  }

 private:
  std::vector<Region> everywhere_;
  std::vector<std::vector<Region>> stages_;
};

/// The bytes of a region for a value: a 1,500th more than its own, since rows of all values would fall into the same sets of
/// the caches if sizes were powers of two. Two values of at least 64 bytes never get more than one as large as both, so that
/// they fit where it lay.
int64_t staggered(int64_t bytes) {
  constexpr int64_t kQuantum = 256;  // as devices align memory
  // Bytes that are added for each block: an odd number, so that sizes that are powers of two get no power of two more.
  constexpr int64_t kBlock = 16384, kMore = 11;
  return aligned(bytes) + bytes / kBlock * kMore / kQuantum * kQuantum;
}

/// Calls `visit` with each temporary that is in use at some time, and its region.
template <class Visit>
void for_each_region(const Program& program, const std::vector<Lifetime>& lives, const Visit& visit) {
  for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
    const Value& value = program.values[id];
    if (value.alias != kNoValue || value.storage != Value::Storage::kTemporary || lives[id].begin < 0)
      continue;
    visit(value, Region{id, staggered(program.local_bytes(id)), lives[id].begin, lives[id].end});
  }
}

/// Lifetimes in a process, in which a sum over its positions may be made while its terms are computed.
std::vector<Lifetime> lifetimes_in_process(const Program& program, const HostedMesh& mesh, bool replicate) {
  std::vector<Lifetime> lives = lifetimes(program);
  for (const auto& [term, sum] : position_sums(program, mesh, replicate)) {
    Lifetime& total = lives[static_cast<size_t>(sum.total)];
    total.begin = std::min(total.begin, lives[static_cast<size_t>(term)].begin);
  }
  return lives;
}

/// Calls `visit` with each input, and the bytes of one position.
template <class Visit>
void for_each_input(const Program& program, const Visit& visit) {
  for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
    const Value& value = program.values[id];
    if (value.alias == kNoValue && value.storage == Value::Storage::kInput)
      visit(value, aligned(program.local_bytes(id)));
  }
}

}  // namespace

MemoryPlan plan_arenas(const Program& program, bool replicate, Hosting hosting) {
  const Mesh& mesh = program.mesh;
  const HostedMesh hosted(mesh, hosting);
  MemoryPlan plan;
  plan.differing = differing_axes(hosted);
  plan.offsets.assign(program.values.size(), -1);
  using Blocks = std::map<Copies, std::vector<Region>>;
  Blocks on_device, on_host;
  std::map<Copies, int64_t> counts;  ///< by stored copies: those in this process
  const auto count = [&](const Copies& stored) {
    const auto [known, is_new] = counts.try_emplace(stored);
    if (is_new) known->second = hosted.size_of(stored);
    return known->second;
  };
  const std::vector<Lifetime> lives = lifetimes_in_process(program, hosted, replicate);
  for_each_region(program, lives, [&](const Value& value, const Region& region) {
    const Copies stored = mesh.stored(value.copies(), replicate);
    if (count(stored) == 0) return;
    (value.on_host ? on_host : on_device)[plan.arena_of(stored)].push_back(region);
    MemoryPlan::Arena& arena = (value.on_host ? plan.host_arenas : plan.arenas)[plan.arena_of(stored)];
    arena.copies = std::max<int64_t>(arena.copies, count(stored));
  });
  int64_t inputs = 0;
  for_each_input(program, [&](const Value& value, int64_t bytes) {
    inputs += bytes * count(mesh.stored(value.copies(), replicate));
  });
  plan.process.inputs = whole_pages(input_block_bytes(inputs));
  const auto place_all = [&plan](Blocks& blocks, std::map<Copies, MemoryPlan::Arena>& arenas) {
    int64_t bytes = 0;
    for (auto& [copies, list] : blocks) {
      MemoryPlan::Arena& arena = arenas[copies];
      arena.bytes = place(list);
      for (const Region& block : list) plan.offsets[block.id] = block.offset;
      bytes += whole_pages(arena.bytes * arena.copies);
    }
    return bytes;
  };
  plan.process.temporaries = place_all(on_device, plan.arenas);
  plan.process.temporaries_on_host = place_all(on_host, plan.host_arenas);
  std::map<Variable::Kind, int64_t> kinds;  ///< bytes of the variables in this process
  for (const ProgramVariable& variable : program.variables) {
    if (!variable.variable.on_host)
      kinds[variable.variable.kind] += process_bytes(variable, hosted, replicate);
  }
  for (const auto& [kind, bytes] : kinds) plan.process.variables += whole_pages(bytes);
  return plan;
}

std::vector<MemoryPlan::Position> position_memory(const Program& program) {
  StageRegions alone;  // a position that shares nothing needs one arena
  for_each_region(program, lifetimes(program), [&](const Value& value, const Region& region) {
    if (!value.on_host) alone.add(stage_of(value.layout), region);
  });
  int64_t inputs = 0;
  for_each_input(program, [&](const Value& /*value*/, int64_t bytes) { inputs += bytes; });
  size_t stages = alone.stages();
  for (const ProgramVariable& variable : program.variables)
    stages = std::max(stages, stage_of(variable.layout).value_or(0) + 1);
  std::vector<MemoryPlan::Position> positions;
  for (size_t stage = 0; stage < stages; ++stage) positions.push_back({0, inputs, alone.bytes(stage)});
  for (const ProgramVariable& variable : program.variables) {
    if (variable.variable.on_host) continue;
    const Shape local = slice_shape(variable.variable.shape, variable.layout, program.mesh);
    const int64_t bytes = bytes_of(local, variable.variable.dtype);
    const std::optional<size_t> stage = stage_of(variable.layout);
    for (size_t i = 0; i < stages; ++i) positions[i].variables += !stage || *stage == i ? bytes : 0;
  }
  return positions;
}

MemoryPlan plan_memory(const Program& program, bool replicate, Hosting hosting) {
  MemoryPlan plan = plan_arenas(program, replicate, hosting);
  plan.stages = position_memory(program);
  return plan;
}

int64_t process_bytes(const ProgramVariable& variable, const HostedMesh& mesh, bool replicate) {
  const Shape local = slice_shape(variable.variable.shape, variable.layout, mesh.mesh());
  const int64_t slice = aligned(bytes_of(local, variable.variable.dtype));
  return variable_aligned(slice * mesh.size_of(mesh.mesh().stored(variable.layout.copies(), replicate)));
}

}  // namespace mtf
