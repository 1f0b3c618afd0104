// Chooses the backend of collectives between the processes of a run (`cluster.collectives`): NCCL from GPU to
// GPU, or Gloo through host memory.
#pragma once

#include <memory>
#include <string>

#include "engine/comm/communicator.h"

namespace mtf {

struct Session;

struct CollectiveBackend {
  std::shared_ptr<Communicator> communicator;  ///< null: the communicator of the processes (Gloo)
  std::string description;                     ///< text for the log; empty: there was no choice
};

/// Chooses the backend for processes with GPUs. The call is collective. NCCL needs a separate GPU for each
/// process and the same version in all. Throws Error (kConfig) in all processes, with the reason, if NCCL
/// cannot be used but `cluster.collectives` requires it.
CollectiveBackend choose_collective_backend(const Session& session);

/// True if the collectives between processes use NCCL or, before the choice, if this process could use it.
bool expects_nccl(const Session& session);

}  // namespace mtf
