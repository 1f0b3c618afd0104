#include "engine/runtime/concurrent_steps.h"

#include <algorithm>

#include "engine/base/memory_extent.h"
#include "engine/runtime/prepared_program.h"

namespace mtf {
namespace {

/// The memory that a step reads and that it writes, at one coordinate.
struct Touched {
  std::vector<MemoryExtent> read, written;

  bool depends_on(const Touched& other) const {
    return overlap(read, other.written) || overlap(written, other.written) || overlap(written, other.read);
  }

 private:
  static bool overlap(const std::vector<MemoryExtent>& a, const std::vector<MemoryExtent>& b) {
    return std::ranges::any_of(a, [&](const MemoryExtent& x) {
      return std::ranges::any_of(b, [&](const MemoryExtent& y) { return x.overlaps(y); });
    });
  }
};

/// Returns what a step touches, by coordinate.
std::vector<Touched> touched_by(const Program& program, const KernelStep& step) {
  std::vector<Touched> touched(static_cast<size_t>(step.at.count));
  auto slice = step.slices.begin();
  for (size_t coordinate = 0; coordinate < touched.size(); ++coordinate) {
    Touched& at = touched[coordinate];
    // A call may have the operands of several positions.
    const auto add = [&](std::vector<MemoryExtent>& extents, const std::vector<ValueId>& ids, size_t count) {
      for (size_t i = 0; i < count; ++i, ++slice)
        extents.push_back({slice->data, slice->data + program.local_bytes(ids[i % ids.size()])});
    };
    add(at.read, step.instruction->inputs, step.inputs);
    add(at.written, step.results, step.outputs);
    if (step.guards.empty()) continue;
    const auto* guard = reinterpret_cast<const std::byte*>(step.guards[coordinate]);
    at.read.push_back({guard, guard + sizeof(bool)});
  }
  return touched;
}

/// What a step touches, by coordinate.
struct TouchedAt {
  const StepCoordinates& at;
  std::vector<Touched> touched;
};

/// Coordinates are copies of the same arenas, so what overlaps does so at the same coordinate, where both steps have the same
/// ones.
bool depends(const TouchedAt& step, const TouchedAt& other) {
  const bool same = step.at == other.at;
  for (size_t i = 0; i < step.touched.size(); ++i) {
    for (size_t j = same ? i : 0; j < (same ? i + 1 : other.touched.size()); ++j) {
      if (step.touched[i].depends_on(other.touched[j])) return true;
    }
  }
  return false;
}

}  // namespace

std::vector<size_t> concurrent_steps(const Program& program, const std::vector<KernelStep>& steps) {
  std::vector<size_t> ends;
  std::vector<TouchedAt> group;
  for (size_t i = 0; i < steps.size(); ++i) {
    TouchedAt next{steps[i].at, touched_by(program, steps[i])};
    const auto needs = [&](const TouchedAt& other) { return depends(next, other); };
    if (group.size() == kMostConcurrentSteps || std::ranges::any_of(group, needs)) {
      ends.push_back(i);
      group.clear();
    }
    group.push_back(std::move(next));
  }
  if (!steps.empty()) ends.push_back(steps.size());
  return ends;
}

}  // namespace mtf
