// The positions of a mesh that this process hosts, and the slices that it therefore holds.
//
// The processes of a run host equal, contiguous ranges of positions in mesh order: process r of p hosts
// positions [r * n / p, (r + 1) * n / p) of n.
//
//   const HostedMesh hosted(mesh, {4, 1});             // process 1 of 4
//   const HostedCopies copies = hosted.copies(value.copies());   // the distinct slices of a value
//   for (int64_t c = 0; c < copies.size(); ++c) use(copies.position(c));
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core/mesh.h"

namespace mtf {

/// The distinct coordinates of the hosted positions along some mesh dimensions, of all positions or of those at a pin. A
/// process stores and computes one copy of a value for each of them.
class HostedCopies {
 public:
  int64_t size() const { return size_; }
  /// Returns the first hosted position with the coordinate of copy `copy`.
  int64_t position(int64_t copy) const {
    return whole_ ? mesh_.first_position(copy, copies_) : positions_[copy];
  }
  /// Returns the copy with the coordinate of `position`, which may be any position of the mesh, or nothing if
  /// this process does not have it.
  std::optional<int64_t> find(int64_t position) const;

 private:
  friend class HostedMesh;
  Mesh mesh_;
  Copies copies_;
  bool whole_ = true;  ///< the process hosts all positions: copy i has coordinate i
  int64_t size_ = 1;
  std::vector<int64_t> coordinates_;  ///< coordinate of each copy, ascending
  std::vector<int64_t> positions_;    ///< position(copy) of each copy
};

/// The number of processes of a run, and the index of this process.
struct Hosting {
  int processes = 1;
  int process = 0;
};

class HostedMesh {
 public:
  /// The number of processes must divide the number of positions. By default one process hosts all positions.
  HostedMesh(Mesh mesh = {}, Hosting hosting = {});

  const Mesh& mesh() const { return mesh_; }
  int processes() const { return hosting_.processes; }
  int process() const { return hosting_.process; }
  /// The hosted positions are [begin, begin + positions).
  int64_t begin() const { return hosting_.process * positions(); }
  int64_t positions() const { return mesh_.size() / hosting_.processes; }
  bool hosts(int64_t position) const { return host(position) == hosting_.process; }
  /// Returns the process that hosts a position.
  int host(int64_t position) const { return static_cast<int>(position / positions()); }
  /// Returns the same mesh as another process sees it.
  HostedMesh of(int process) const { return {mesh_, {hosting_.processes, process}}; }
  /// Returns it as the first process sees it that has one of these copies.
  HostedMesh of_first(const Copies& copies) const { return of(host(mesh_.first_position(0, copies))); }
  HostedCopies copies(const Copies& copies) const;
  /// Returns copies(copies).size(), and lists them only if there is a pin and a process hosts several of many positions.
  int64_t size_of(const Copies& copies) const;
  /// Returns how many of the copies holds_first() is true for.
  int64_t first_held(const Copies& copies) const;
  /// True if the processes host equal blocks of the mesh: what holds for the coordinates in one of them then holds in
  /// all, shifted.
  bool hosts_blocks() const;
  /// True if every process holds all slices of a value that has these copies.
  bool all_hold(const Copies& copies) const;
  /// True if this process holds the slice of `position`, which has one, and no process before it does.
  bool holds_first(int64_t position, const Copies& copies) const {
    return hosts(mesh_.first_position(mesh_.project(position, copies.axes), copies));
  }

 private:
  Mesh mesh_;
  Hosting hosting_;
};

}  // namespace mtf
