#include "engine/runtime/memory_plan.h"

#include <algorithm>
#include <set>

#include "engine/core/check.h"
#include "engine/spmd/passes.h"

namespace mtf {
namespace {

struct Lifetime {
  int64_t begin = -1;
  int64_t end = -1;

  void touch(int64_t time) {
    if (begin < 0) begin = time;
    end = std::max(end, time);
  }
  bool overlaps(const Lifetime& other) const { return begin <= other.end && other.begin <= end; }
};

/// When each value's memory is in use, in instructions of the flattened program.
class Lifetimes {
 public:
  explicit Lifetimes(const Program& program) : program_(program), lifetimes_(program.values.size()) {
    block(program.instructions);
    for (const auto& [name, id] : program.outputs) touch(id, time_);
  }
  const Lifetime& of(ValueId root) const { return lifetimes_[root]; }

 private:
  void touch(ValueId id, int64_t time) {
    if (id != kNoValue) lifetimes_[program_.root(id)].touch(time);
  }

  void block(const std::vector<Instruction>& instructions) {
    for (const Instruction& instruction : instructions) {
      ++time_;
      if (instruction.kind == InstructionKind::kRepeat) {
        loop(instruction);
        continue;
      }
      for (ValueId id : reads(instruction)) touch(id, time_);
      for (ValueId id : writes(instruction)) touch(id, time_);
    }
  }

  /// Values that live beyond one iteration keep their memory during the whole loop.
  void loop(const Instruction& repeat) {
    const int64_t begin = time_;
    block(repeat.body);
    const int64_t end = ++time_;
    std::set<ValueId> lasting;
    std::set<ValueId> written;
    for (const Instruction& instruction : repeat.body) {
      for (ValueId id : reads(instruction)) {
        if (!written.contains(program_.root(id))) lasting.insert(program_.root(id));
      }
      for (ValueId id : writes(instruction)) {
        written.insert(program_.root(id));
        const bool repeated = instruction.kind == InstructionKind::kCopy ||
                              instruction.kind == InstructionKind::kAccumulate ||
                              instruction.kind == InstructionKind::kPlace;
        if (repeated) lasting.insert(program_.root(id));
      }
    }
    for (ValueId id : lasting) {
      touch(id, begin);
      lifetimes_[id].begin = std::min(lifetimes_[id].begin, begin);
      touch(id, end);
    }
  }

  const Program& program_;
  std::vector<Lifetime> lifetimes_;
  int64_t time_ = 0;
};

struct Region {
  ValueId value;
  int64_t bytes;
  Lifetime lifetime;
  int64_t offset = 0;
};

/// Offsets by size, largest first, each at the lowest place that is free during its lifetime. Returns the
/// arena's size.
int64_t place(std::vector<Region>& blocks) {
  std::sort(blocks.begin(), blocks.end(), [](const Region& a, const Region& b) {
    return a.bytes != b.bytes ? a.bytes > b.bytes : a.value < b.value;
  });
  int64_t total = 0;
  std::vector<const Region*> by_offset;
  for (Region& block : blocks) {
    int64_t offset = 0;
    for (const Region* other : by_offset) {
      if (!other->lifetime.overlaps(block.lifetime)) continue;
      if (offset + block.bytes <= other->offset) break;
      offset = std::max(offset, other->offset + other->bytes);
    }
    block.offset = offset;
    total = std::max(total, offset + block.bytes);
    by_offset.insert(std::upper_bound(by_offset.begin(), by_offset.end(), &block,
                                      [](const Region* a, const Region* b) { return a->offset < b->offset; }),
                     &block);
  }
  return total;
}

}  // namespace

MemoryPlan plan_memory(const Program& program, bool replicate, Hosting hosting) {
  const Lifetimes lifetimes(program);
  const Mesh& mesh = program.mesh;
  const HostedMesh hosted(mesh, hosting);
  const auto mask_of = [&](const Value& value) { return replicate ? mesh.all_axes() : value.varies; };
  MemoryPlan plan;
  plan.offsets.assign(program.values.size(), -1);
  std::map<AxisMask, std::vector<Region>> blocks;
  std::vector<Region> alone;  ///< of a position that shares nothing, and so needs one arena only
  for (ValueId id = 0; id < static_cast<ValueId>(program.values.size()); ++id) {
    const Value& value = program.values[id];
    if (value.alias != kNoValue) continue;
    const int64_t bytes = aligned(program.local_bytes(id));
    if (value.storage == Value::Storage::kInput) {
      plan.input_bytes += bytes;
      plan.process.inputs += whole_pages(bytes * hosted.size_of(mask_of(value)));
    } else if (value.storage == Value::Storage::kTemporary && lifetimes.of(id).begin >= 0) {
      blocks[mask_of(value)].push_back({id, bytes, lifetimes.of(id)});
    }
  }
  for (auto& [mask, list] : blocks) {
    MemoryPlan::Arena& arena = plan.arenas[mask];
    arena = {mask, place(list), hosted.size_of(mask)};
    for (const Region& block : list) plan.offsets[block.value] = block.offset;
    alone.insert(alone.end(), list.begin(), list.end());
    plan.process.temporaries += whole_pages(arena.bytes * arena.copies);
  }
  plan.temporary_bytes = place(alone);
  for (const ProgramVariable& variable : program.variables) {
    const Shape local = slice_shape(variable.variable.shape, variable.layout, mesh);
    plan.variable_bytes += local.size() * static_cast<int64_t>(size_of(variable.variable.dtype));
    plan.process.variables += process_bytes(variable, hosted, replicate);
  }
  return plan;
}

int64_t process_bytes(const ProgramVariable& variable, const HostedMesh& mesh, bool replicate) {
  const Shape local = slice_shape(variable.variable.shape, variable.layout, mesh.mesh());
  const int64_t slice = aligned(local.size() * static_cast<int64_t>(size_of(variable.variable.dtype)));
  return whole_pages(slice * mesh.size_of(replicate ? mesh.mesh().all_axes() : variable.layout.varies()));
}

}  // namespace mtf
