// Which positions of a mesh this process hosts, and which slices it therefore holds.
//
// The processes of a run host equal, contiguous runs of positions in mesh order: process r of p has positions
// [r * n / p, (r + 1) * n / p).
//
//   const HostedMesh hosted(mesh, {4, 1});             // process 1 of 4
//   const HostedCopies copies = hosted.copies(mask);   // distinct slices of a value that varies over `mask`
//   for (int64_t c = 0; c < copies.size(); ++c) use(copies.position(c));
#pragma once

#include <optional>
#include <vector>

#include "engine/core/mesh.h"

namespace mtf {

/// The coordinates along some mesh dimensions that the hosted positions have: a process stores and computes
/// one copy for each of them.
class HostedCopies {
 public:
  int64_t size() const { return size_; }
  /// The first hosted position with the coordinate of copy `copy`.
  int64_t position(int64_t copy) const {
    return whole_ ? mesh_.first_position(copy, mask_) : positions_[copy];
  }
  /// The copy that has the coordinate of `position`, any position of the mesh; nothing: not in this process.
  std::optional<int64_t> find(int64_t position) const;

 private:
  friend class HostedMesh;
  Mesh mesh_;
  AxisMask mask_ = 0;
  bool whole_ = true;  ///< all positions: the copies are the coordinates in their order
  int64_t size_ = 1;
  std::vector<int64_t> coordinates_;  ///< ascending, by copy
  std::vector<int64_t> positions_;    ///< by copy
};

/// How many processes a run has, and which of them this is.
struct Hosting {
  int processes = 1;
  int process = 0;
};

class HostedMesh {
 public:
  /// The processes must divide the positions. A mesh alone: one process hosts them all.
  HostedMesh(Mesh mesh = {}, Hosting hosting = {});

  const Mesh& mesh() const { return mesh_; }
  int processes() const { return hosting_.processes; }
  int process() const { return hosting_.process; }
  /// Hosted positions: [begin, begin + positions).
  int64_t begin() const { return hosting_.process * positions(); }
  int64_t positions() const { return mesh_.size() / hosting_.processes; }
  bool hosts(int64_t position) const { return host(position) == hosting_.process; }
  /// The process that hosts a position.
  int host(int64_t position) const { return static_cast<int>(position / positions()); }
  /// The same mesh, seen by another process.
  HostedMesh of(int process) const { return {mesh_, {hosting_.processes, process}}; }
  HostedCopies copies(AxisMask mask) const;
  /// Every process holds all slices of a value that varies over `mask`.
  bool all_hold(AxisMask mask) const;
  /// No process before this one holds the slice that `position` holds of a value that varies over `mask`.
  bool holds_first(int64_t position, AxisMask mask) const {
    return hosts(mesh_.first_position(mesh_.project(position, mask), mask));
  }
  /// copies(mask).size().
  int64_t size_of(AxisMask mask) const { return copies(mask).size(); }

 private:
  Mesh mesh_;
  Hosting hosting_;
};

}  // namespace mtf
