// What carries collectives between the processes of a run (`cluster.collectives`): NCCL from GPU to GPU, or
// Gloo through the host.
#pragma once

#include <memory>
#include <string>

#include "engine/comm/communicator.h"

namespace mtf {

struct Session;

struct CollectiveBackend {
  std::shared_ptr<Communicator> communicator;  ///< null: that of the processes, Gloo
  std::string description;                     ///< for the log; empty: nothing was chosen
};

/// Of processes with GPUs; they call it together, once they are connected. NCCL needs a GPU for each process,
/// and the same version in all. Throws Error (kConfig), in all of them, that says why it cannot be where
/// `cluster.collectives` insists.
CollectiveBackend choose_collective_backend(const Session& session);

/// Whether NCCL is to carry the collectives of several processes, as far as this process alone can tell.
bool expects_nccl(const Session& session);

}  // namespace mtf
