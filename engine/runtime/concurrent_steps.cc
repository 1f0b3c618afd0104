#include "engine/runtime/concurrent_steps.h"

#include <algorithm>
#include <functional>

#include "engine/runtime/prepared_program.h"

namespace mtf {
namespace {

struct Extent {
  const std::byte *begin, *end;
};

/// The memory that a step reads and that it writes, for all coordinates.
struct Touched {
  std::vector<Extent> read, written;

  Touched(const Program& program, const KernelStep& step) {
    for (const bool* guard : step.guards) {
      const auto* byte = reinterpret_cast<const std::byte*>(guard);
      read.push_back({byte, byte + sizeof(bool)});
    }
    const Instruction& instruction = *step.instruction;
    auto slice = step.slices.begin();
    for (int64_t coordinate = 0; coordinate < step.coordinates; ++coordinate) {
      for (const ValueId id : instruction.inputs) add(read, *slice++, program.local_bytes(id));
      for (const ValueId id : instruction.outputs) add(written, *slice++, program.local_bytes(id));
    }
  }

 private:
  static void add(std::vector<Extent>& extents, const Slice& slice, int64_t bytes) {
    const Extent extent{slice.data, slice.data + bytes};
    const bool is_known =
        !extents.empty() && extents.back().begin == extent.begin;  // all coordinates share it
    if (!is_known) extents.push_back(extent);
  }
};

bool overlap(const std::vector<Extent>& a, const std::vector<Extent>& b) {
  const std::less<> before;
  return std::ranges::any_of(a, [&](const Extent& x) {
    return std::ranges::any_of(
        b, [&](const Extent& y) { return before(x.begin, y.end) && before(y.begin, x.end); });
  });
}

}  // namespace

std::vector<size_t> concurrent_steps(const Program& program, const std::vector<KernelStep>& steps) {
  std::vector<size_t> ends;
  std::vector<Touched> group;
  for (size_t i = 0; i < steps.size(); ++i) {
    Touched next(program, steps[i]);
    const bool depends = std::ranges::any_of(group, [&](const Touched& other) {
      return overlap(next.read, other.written) || overlap(next.written, other.written) ||
             overlap(next.written, other.read);
    });
    if (depends || group.size() == kMostConcurrentSteps) {
      ends.push_back(i);
      group.clear();
    }
    group.push_back(std::move(next));
  }
  if (!steps.empty()) ends.push_back(steps.size());
  return ends;
}

}  // namespace mtf
