#include "engine/core/hosted_mesh.h"

#include <algorithm>
#include <map>

#include "engine/base/check.h"

namespace mtf {
namespace {

/// Counts distinct coordinates along some mesh dimensions, digit by digit: a position is a number whose digits are its
/// coordinates. `axis` is the first dimension whose digits are left in a number.
class CoordinateCount {
 public:
  CoordinateCount(const Mesh& mesh, AxisMask mask) : mesh_(mesh), mask_(mask) {
    below_.assign(static_cast<size_t>(mesh.rank()) + 1, {1, 1});
    for (int axis = mesh.rank() - 1; axis >= 0; --axis) {
      const Below& inner = below(axis + 1);
      below_[static_cast<size_t>(axis)] = {inner.positions * mesh.size(axis),
                                           inner.coordinates * (has(axis) ? mesh.size(axis) : 1)};
    }
  }

  /// The number of coordinates of the positions from `first` to `last`.
  int64_t range(int64_t first, int64_t last, int axis = 0) const {
    if (axis == mesh_.rank()) return 1;
    const int64_t size = below(axis + 1).positions, all = below(axis + 1).coordinates;
    const int64_t low = first / size, high = last / size;
    first %= size;
    last %= size;
    if (low == high) return range(first, last, axis + 1);
    if (has(axis))
      return range(first, size - 1, axis + 1) + (high - low - 1) * all + range(0, last, axis + 1);
    return high - low > 1 ? all : ends(last, first, axis + 1);
  }

  /// The number of positions before `end` whose coordinates along all other dimensions are 0.
  int64_t first_positions(int64_t end, int axis = 0) const {
    if (axis == mesh_.rank()) return end;
    const int64_t size = below(axis + 1).positions, all = below(axis + 1).coordinates, digit = end / size;
    if (has(axis))
      return digit * all + (digit < mesh_.size(axis) ? first_positions(end % size, axis + 1) : 0);
    return digit > 0 ? all : first_positions(end, axis + 1);
  }

 private:
  struct Below {
    int64_t positions, coordinates;
  };
  const Below& below(int axis) const { return below_[static_cast<size_t>(axis)]; }
  bool has(int axis) const { return has_axis(mask_, axis); }

  /// The number of coordinates of the positions up to `last` and those from `first` on.
  int64_t ends(int64_t last, int64_t first, int axis) const {
    if (first <= last + 1) return below(axis).coordinates;
    const int64_t size = below(axis + 1).positions, all = below(axis + 1).coordinates;
    const int64_t low = last / size, high = first / size;
    last %= size;
    first %= size;
    if (low == high) {
      const bool others = mesh_.size(axis) > 1;
      if (!has(axis)) return others ? all : ends(last, first, axis + 1);
      return (mesh_.size(axis) - 1) * all + ends(last, first, axis + 1);
    }
    if (has(axis)) {
      return (low + mesh_.size(axis) - 1 - high) * all + range(0, last, axis + 1) +
             range(first, size - 1, axis + 1);
    }
    return low > 0 || high < mesh_.size(axis) - 1 ? all : ends(last, first, axis + 1);
  }

  const Mesh& mesh_;
  const AxisMask mask_;
  std::vector<Below>
      below_;  ///< by dimension: positions and coordinates of a mesh of this dimension and those after it
};

}  // namespace

HostedMesh::HostedMesh(Mesh mesh, Hosting hosting) : mesh_(std::move(mesh)), hosting_(hosting) {
  MTF_CHECK(hosting.processes >= 1 && hosting.process >= 0 && hosting.process < hosting.processes &&
                mesh_.size() % hosting.processes == 0,
            "process {} of {} on a mesh of {} positions", hosting.process, hosting.processes, mesh_.size());
}

int64_t HostedMesh::size_of(const Copies& copies) const {
  if (processes() == 1) return mesh_.size_of(copies.axes);
  if (positions() == 1) return !copies.pin || mesh_.is_at(begin(), *copies.pin) ? 1 : 0;
  if (copies.pin) return this->copies(copies).size();
  return CoordinateCount(mesh_, copies.axes).range(begin(), begin() + positions() - 1);
}

int64_t HostedMesh::first_held(const Copies& copies) const {
  if (!copies.pin) {
    const CoordinateCount count(mesh_, copies.axes);
    return count.first_positions(begin() + positions()) - count.first_positions(begin());
  }
  const HostedCopies hosted = this->copies(copies);
  int64_t held = 0;
  for (int64_t copy = 0; copy < hosted.size(); ++copy) held += holds_first(hosted.position(copy), copies);
  return held;
}

bool HostedMesh::hosts_blocks() const {
  int64_t block = positions();
  for (int axis = mesh_.rank() - 1; axis >= 0; --axis) {
    const int64_t size = mesh_.size(axis);
    if (block % size != 0) return size % block == 0;
    block /= size;
  }
  return true;
}

bool HostedMesh::all_hold(const Copies& copies) const {
  const int others = hosts_blocks() && !copies.pin ? 1 : processes();
  for (int other = 0; other < others; ++other) {
    if (of(other).size_of(copies) != mesh_.size_of(copies.axes)) return false;
  }
  return true;
}

HostedCopies HostedMesh::copies(const Copies& copies) const {
  HostedCopies hosted;
  hosted.mesh_ = mesh_;
  hosted.copies_ = copies;
  hosted.whole_ = processes() == 1;
  hosted.size_ = mesh_.size_of(copies.axes);
  if (hosted.whole_) return hosted;
  std::map<int64_t, int64_t> first;  // from coordinate to position
  for (int64_t position = begin(); position < begin() + positions(); ++position) {
    if (!copies.pin || mesh_.is_at(position, *copies.pin))
      first.emplace(mesh_.project(position, copies.axes), position);
  }
  hosted.size_ = static_cast<int64_t>(first.size());
  for (const auto& [coordinate, position] : first) {
    hosted.coordinates_.push_back(coordinate);
    hosted.positions_.push_back(position);
  }
  return hosted;
}

std::optional<int64_t> HostedCopies::find(int64_t position) const {
  if (copies_.pin && !mesh_.is_at(position, *copies_.pin)) return std::nullopt;
  const int64_t coordinate = mesh_.project(position, copies_.axes);
  if (whole_) return coordinate;
  const auto found = std::lower_bound(coordinates_.begin(), coordinates_.end(), coordinate);
  if (found == coordinates_.end() || *found != coordinate) return std::nullopt;
  return found - coordinates_.begin();
}

}  // namespace mtf
