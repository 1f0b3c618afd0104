#include "trainer/simulate/process_classes.h"

#include <algorithm>
#include <set>

#include "engine/base/check.h"

namespace mtf {
namespace {

/// The mesh of processes: along each dimension, the blocks of positions into which the processes cut it.
Mesh process_mesh(const HostedMesh& hosted, bool are_blocks) {
  const Mesh& mesh = hosted.mesh();
  if (!are_blocks) return Mesh(Shape{{"processes", hosted.processes()}});
  std::vector<Dimension> dimensions(mesh.shape().begin(), mesh.shape().end());
  int64_t block = hosted.positions();
  for (int axis = mesh.rank() - 1; axis >= 0; --axis) {
    const int64_t inside = std::min(block, mesh.size(axis));
    dimensions[static_cast<size_t>(axis)].size = mesh.size(axis) / inside;
    block /= inside;
  }
  return Mesh(Shape(std::move(dimensions)));
}

}  // namespace

ProcessClasses::ProcessClasses(const HostedMesh& hosted, const std::vector<int64_t>& disturbed,
                               const std::optional<int>& stages)
    : are_blocks_(hosted.hosts_blocks()), stages_(stages), processes_(process_mesh(hosted, are_blocks_)) {
  MTF_CHECK(are_blocks_ || !stages_, "the positions of a process form no block of the mesh");
  std::vector<std::set<int64_t>> told_apart(static_cast<size_t>(processes_.rank()));
  for (const int64_t process : disturbed) {
    const std::vector<int64_t> at = processes_.coordinates(process);
    for (size_t axis = 0; axis < at.size(); ++axis) told_apart[axis].insert(at[axis]);
  }
  if (stages_) {
    const auto axis = static_cast<size_t>(*stages_);
    for (int64_t at = 0; at < processes_.size(*stages_); ++at) told_apart[axis].insert(at);
  }
  std::vector<Dimension> dimensions(processes_.shape().begin(), processes_.shape().end());
  for (size_t axis = 0; axis < dimensions.size(); ++axis) {
    const auto distinct = static_cast<int64_t>(told_apart[axis].size());
    dimensions[axis].size = std::min(dimensions[axis].size, distinct + 1);
    coordinates_.emplace_back(told_apart[axis].begin(), told_apart[axis].end());
  }
  classes_ = Mesh(Shape(std::move(dimensions)));
  for (int64_t index = 0; index < classes_.size(); ++index) {
    int64_t count = 1;
    const std::vector<int64_t> at = classes_.coordinates(index);
    for (size_t axis = 0; axis < at.size(); ++axis) {
      const auto distinct = static_cast<int64_t>(coordinates_[axis].size());
      if (at[axis] == distinct) count *= processes_.size(static_cast<int>(axis)) - distinct;
    }
    counts_.push_back(count);
  }
}

int64_t ProcessClasses::of(int64_t process) const {
  const std::vector<int64_t> at = processes_.coordinates(process);
  int64_t index = 0;
  for (size_t axis = 0; axis < at.size(); ++axis) {
    const auto found = std::ranges::lower_bound(coordinates_[axis], at[axis]);
    MTF_CHECK(found != coordinates_[axis].end() && *found == at[axis], "process {} is not disturbed",
              process);
    index = index * classes_.size(static_cast<int>(axis)) + (found - coordinates_[axis].begin());
  }
  return index;
}

}  // namespace mtf
