// Which processes carry out a collective between GPUs together, where each process hosts one position of the
// mesh: NCCL's communicators and ranks.
#pragma once

#include <span>
#include <vector>

#include "engine/comm/communicator.h"

namespace mtf::cuda {

/// The processes of the positions of one group. Ranks count as the members do, in mesh order, which is the
/// order of the processes.
struct NcclGroup {
  std::vector<int> processes;  ///< by rank
  int rank = 0;                ///< of the process that asks

  int size() const { return static_cast<int>(processes.size()); }
  /// Tells the groups of one collective apart, and is the same for all processes of a group.
  int color() const { return processes.front(); }
};

/// That of `process` in a collective with these parts, which have it in common. A group says along which mesh
/// dimensions the collective goes: processes that ask for the same collectives in the same order meet the
/// same sets of groups for the first time at the same collective.
NcclGroup nccl_group(std::span<const RemotePart> parts, int process);

/// What of `elements` elements rank `rank` of `size` owns: shares begin at multiples of 256 bytes.
struct OwnedShare {
  int64_t begin = 0, count = 0;  ///< elements

  static OwnedShare of(int64_t elements, int64_t element_bytes, int size, int rank);
};

}  // namespace mtf::cuda
