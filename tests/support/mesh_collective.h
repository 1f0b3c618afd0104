// Collectives on a mesh that is spread over processes, with generated data. Each process runs its side of a
// collective, whose results are compared with those computed in one process.
//
//   MeshCollective c = random_collective("a:2;b:3", random);
//   CollectiveSide side(c, communicator, backend);          // in every process
//   side.start(0);
//   side.wait_and_check(0);
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "engine/backend/backend.h"
#include "engine/comm/communicator.h"
#include "engine/core/hosted_mesh.h"

namespace mtf::testing {

/// One collective instruction.
struct MeshCollective {
  Mesh mesh;
  AxisMask axes = 0;        ///< mesh dimensions of the groups
  AxisMask varies = 0;      ///< mesh dimensions over which the inputs vary
  bool replicated = false;  ///< every position has a copy
  std::vector<Collective> parts;
  uint32_t seed = 0;

  AxisMask stored() const { return replicated ? mesh.all_axes() : varies; }
  AxisMask computed() const;
};

std::ostream& operator<<(std::ostream& out, const MeshCollective& c);

/// A part for the mesh and axes of `c`. An exchange is a shift by `offset`, wrapped if the offset is even.
Collective make_part(const MeshCollective& c, Collective::Kind kind, DType dtype, Reduction reduction,
                     std::vector<int64_t> input, int dimension, int concat_dimension, int64_t offset);

/// A collective of any kind on a mesh of the given shape.
MeshCollective random_collective(const std::string& mesh, std::mt19937& random);

/// The bytes sent by all processes if each has one position, by the formulas of program.h.
double predicted_bytes(const MeshCollective& c);

struct CollectiveSideOptions {
  std::optional<bool> guard{};  ///< value of a guard in device memory; nothing: no guard
  /// Tolerance for sums of float32 and float64, relative to the largest element; 0 requires the same bits.
  double tolerance = 0;
};

/// One process's copies of inputs and results, in the memory of `backend`.
class CollectiveSide {
 public:
  CollectiveSide(const MeshCollective& c, Communicator& communicator, Backend& backend,
                 const CollectiveSideOptions& options = {});

  /// Sets the inputs, which differ from round to round.
  void fill(int round);
  /// Checks the results.
  void check(int round);
  void start(int round) {
    fill(round);
    remote_->start();
  }
  void wait_and_check(int round) {
    remote_->wait();
    check(round);
  }
  RemoteCollective& remote() { return *remote_; }
  /// sent_bytes() of the same parts.
  int64_t planned_bytes() const { return planned_bytes_; }

 private:
  using Memory = std::unique_ptr<DeviceMemory>;
  std::vector<std::byte> expected(size_t part, int round, int64_t position) const;

  const MeshCollective& c_;
  HostedMesh hosted_;
  Backend& backend_;
  CollectiveSideOptions options_;
  std::vector<std::vector<Memory>> inputs_, results_;  ///< by part and copy
  Memory guard_;
  int64_t planned_bytes_ = 0;
  std::unique_ptr<RemoteCollective> remote_;
};

}  // namespace mtf::testing
