// NcclCommunicator is a communicator between processes that each drive a GPU of their own: data goes from GPU
// to GPU. start() and wait() enqueue and can be recorded.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/backend/cuda/collectives/device_collectives.h"
#include "engine/backend/cuda/collectives/peer_watch.h"
#include "engine/backend/cuda/collectives/scratch_blocks.h"
#include "engine/backend/cuda/cuda_backend.h"

namespace mtf::cuda {

/// Messages run in a separate stream, in program order, so computation continues between start() and wait().
/// During its lifetime, waits of the backend end in an Error (kPeerLost) if another process is lost.
class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(CudaBackend& backend, Communicator& host, const CommunicatorTimeouts& timeouts);
  ~NcclCommunicator() override;

  int process() const override { return host_.process(); }
  int processes() const override { return host_.processes(); }
  bool is_on_device() const override { return true; }
  std::unique_ptr<RemoteCollective> prepare(std::vector<RemotePart> parts, const std::string& name) override;
  std::unique_ptr<PendingGather> start_gather(std::string bytes, const std::string& name) override {
    return host_.start_gather(std::move(bytes), name);
  }
  void check() override { host_.check(); }

 private:
  /// The collectives of this process's group. They are created at the first collective of the process groups,
  /// by all processes.
  DeviceCollectives& collectives_of(const ProcessGroups& process_groups);
  std::vector<DeviceCollectives*> all_collectives();
  void look();
  void abort();

  CudaBackend& backend_;
  Device& device_;
  Communicator& host_;
  const Stream stream_;
  ScratchBlocks scratch_;
  std::unique_ptr<DeviceCollectives> world_;
  std::mutex mutex_;                                                    ///< guards groups_
  std::map<ProcessGroups, std::unique_ptr<DeviceCollectives>> groups_;  ///< by process groups
  PeerWatch watch_;
};

}  // namespace mtf::cuda
