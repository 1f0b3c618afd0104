#include "engine/core/hosted_mesh.h"

#include <algorithm>
#include <map>

#include "engine/base/check.h"

namespace mtf {

HostedMesh::HostedMesh(Mesh mesh, Hosting hosting) : mesh_(std::move(mesh)), hosting_(hosting) {
  MTF_CHECK(hosting.processes >= 1 && hosting.process >= 0 && hosting.process < hosting.processes &&
                mesh_.size() % hosting.processes == 0,
            "process {} of {} on a mesh of {} positions", hosting.process, hosting.processes, mesh_.size());
}

bool HostedMesh::all_hold(AxisMask mask) const {
  for (int other = 0; other < processes(); ++other) {
    if (of(other).size_of(mask) != mesh_.size_of(mask)) return false;
  }
  return true;
}

HostedCopies HostedMesh::copies(AxisMask mask) const {
  HostedCopies copies;
  copies.mesh_ = mesh_;
  copies.mask_ = mask;
  copies.whole_ = processes() == 1;
  copies.size_ = mesh_.size_of(mask);
  if (copies.whole_) return copies;
  std::map<int64_t, int64_t> first;  // from coordinate to position
  for (int64_t position = begin(); position < begin() + positions(); ++position)
    first.emplace(mesh_.project(position, mask), position);
  copies.size_ = static_cast<int64_t>(first.size());
  for (const auto& [coordinate, position] : first) {
    copies.coordinates_.push_back(coordinate);
    copies.positions_.push_back(position);
  }
  return copies;
}

std::optional<int64_t> HostedCopies::find(int64_t position) const {
  const int64_t coordinate = mesh_.project(position, mask_);
  if (whole_) return coordinate;
  const auto found = std::lower_bound(coordinates_.begin(), coordinates_.end(), coordinate);
  if (found == coordinates_.end() || *found != coordinate) return std::nullopt;
  return found - coordinates_.begin();
}

}  // namespace mtf
