// Runs a collective between GPUs of several processes by its plan (engine/comm/device/device_plan.h).
#pragma once

#include <memory>

#include "engine/backend/cuda/collectives/device_collectives.h"
#include "engine/backend/cuda/collectives/peer_watch.h"
#include "engine/backend/cuda/collectives/scratch_blocks.h"
#include "engine/comm/device/device_plan.h"

namespace mtf::cuda {

struct PlannedCollectiveContext {
  Device& device;
  /// The library's group of the process group if the plan is by the library, else of all processes.
  DeviceCollectives& library;
  Stream stream;  ///< stream for messages
  ScratchBlocks& scratch;
  PeerWatch& watch;
  const bool* guard;  ///< null if results are always wanted
};

/// The compute stream packs; the stream for messages waits for it and sends. After wait() the compute stream
/// waits for the messages.
std::unique_ptr<RemoteCollective> make_planned_collective(const PlannedCollectiveContext& context,
                                                          DevicePlan plan);

}  // namespace mtf::cuda
