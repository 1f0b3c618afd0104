// Classes of processes that behave alike in a step, where a few are disturbed. Along each mesh dimension the coordinates
// of disturbed processes are told apart, and all others stand for each other; those with different stages of a pipeline
// never do. A class is a combination of these. The
// classes form a mesh, too, and the members of a collective's process group are classes that differ along its
// dimensions: 16,384 processes on a mesh of 128 x 128 with one straggler make 4 classes.
//
//   const ProcessClasses classes(hosted, {17});   // process 17 is disturbed
//   classes.count(c);                             // processes in class c
//   classes.group(c, axes);                       // the classes c communicates with over `axes`, by a number
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/core/hosted_mesh.h"

namespace mtf {

class ProcessClasses {
 public:
  /// Where the positions of a process form no block of the mesh, every collective counts as one of all processes.
  /// `stages`: the mesh dimension of a pipeline's stages; the positions of a process then form a block.
  ProcessClasses(const HostedMesh& hosted, const std::vector<int64_t>& disturbed,
                 const std::optional<int>& stages = {});

  int64_t size() const { return classes_.size(); }
  int64_t count(int64_t index) const { return counts_[static_cast<size_t>(index)]; }
  /// The class of a process that is disturbed; it has no other members.
  int64_t of(int64_t process) const;
  /// The place of its processes along the stages: a lane of the schedule (Lanes).
  int lane(int64_t index) const {
    return stages_ ? static_cast<int>(classes_.coordinates(index)[static_cast<size_t>(*stages_)]) : 0;
  }
  /// Classes with equal numbers meet in the collectives over the mesh dimensions `axes`.
  int64_t group(int64_t index, AxisMask axes) const {
    return classes_.project(index, are_blocks_ ? classes_.all_axes() & ~axes : 0);
  }
  int64_t groups(AxisMask axes) const {
    return classes_.size_of(are_blocks_ ? classes_.all_axes() & ~axes : 0);
  }

 private:
  bool are_blocks_;
  std::optional<int> stages_;
  Mesh
      processes_;  ///< process coordinates along the dimensions of the mesh, of which the processes share some
  Mesh classes_;
  std::vector<std::vector<int64_t>>
      coordinates_;  ///< coordinates of disturbed processes along each dimension, ascending
  std::vector<int64_t> counts_;
};

}  // namespace mtf
