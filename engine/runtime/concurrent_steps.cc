#include "engine/runtime/concurrent_steps.h"

#include <algorithm>
#include <iterator>

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
  std::vector<Touched> touched(static_cast<size_t>(step.coordinates));
  auto slice = step.slices.begin();
  for (size_t coordinate = 0; coordinate < touched.size(); ++coordinate) {
    Touched& at = touched[coordinate];
    const auto extent = [&](ValueId id) {
      const std::byte* data = slice++->data;
      return MemoryExtent{data, data + program.local_bytes(id)};
    };
    std::ranges::transform(step.instruction->inputs, std::back_inserter(at.read), extent);
    std::ranges::transform(step.instruction->outputs, std::back_inserter(at.written), extent);
    if (step.guards.empty()) continue;
    const auto* guard = reinterpret_cast<const std::byte*>(step.guards[coordinate]);
    at.read.push_back({guard, guard + sizeof(bool)});
  }
  return touched;
}

/// Coordinates are copies of the same arenas, so what overlaps does so at the same coordinate.
bool depends(const std::vector<Touched>& step, const std::vector<Touched>& other) {
  for (size_t coordinate = 0; coordinate < step.size(); ++coordinate) {
    if (step[coordinate].depends_on(other[coordinate])) return true;
  }
  return false;
}

}  // namespace

std::vector<size_t> concurrent_steps(const Program& program, const std::vector<KernelStep>& steps) {
  std::vector<size_t> ends;
  std::vector<std::vector<Touched>> group;
  for (size_t i = 0; i < steps.size(); ++i) {
    std::vector<Touched> next = touched_by(program, steps[i]);
    const auto needs = [&](const std::vector<Touched>& other) { return depends(next, other); };
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
