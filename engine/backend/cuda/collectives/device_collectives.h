// Collectives among GPUs of several processes, one GPU each: the primitives of NCCL. Two implementations:
// nvidia/ (NCCL itself) and emulator/ (over the memory of the host, for tests).
//
//   auto world = open_collectives(device, host, timeouts);
//   auto rows = world->split(color, key);
//   rows->run(stream, [&] {                                     // all of them as one
//     rows->all_reduce(gradient, sum, count, DType::kFloat32);
//     rows->send(data, bytes, 1);
//   });
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/backend/cuda/device/device.h"
#include "engine/backend/device_plugin.h"
#include "engine/comm/communicator.h"

namespace mtf::cuda {

/// A group of processes. All of them make the same calls in the same order, from one thread; but for check()
/// and abort().
class DeviceCollectives {
 public:
  virtual ~DeviceCollectives() = default;
  /// Processes that name the same colour form a group, with ranks in the order of `key`.
  virtual std::unique_ptr<DeviceCollectives> split(int color, int key) = 0;
  /// Enqueues what `calls` calls.
  virtual void run(Stream stream, const std::function<void()>& calls) = 0;

  /// Within run(). Sums of one of the types of library_sums(), in an order of its own.
  virtual void all_reduce(const std::byte* in, std::byte* out, int64_t count, DType dtype) = 0;
  /// `count`: of the result; rank r gets the r-th `count` elements.
  virtual void reduce_scatter(const std::byte* in, std::byte* out, int64_t count, DType dtype) = 0;
  /// `bytes`: of each input.
  virtual void all_gather(const std::byte* in, std::byte* out, int64_t bytes) = 0;
  virtual void send(const std::byte* data, int64_t bytes, int peer) = 0;
  virtual void receive(std::byte* data, int64_t bytes, int peer) = 0;

  /// Throws Error when what was enqueued has failed; does not wait. From any thread.
  virtual void check() = 0;
  /// Ends what was enqueued, with results that mean nothing; all later calls throw. From any thread. May wait
  /// until no recording holds calls of this group.
  virtual void abort() noexcept = 0;
};

/// "NCCL 2.28.9". Throws Error (kSystem) that says what is missing.
std::string collectives_version();
/// Of all processes of `host`, with their ranks; they call it together. Device and host outlive it. Throws
/// Error: kPeerLost where another process is lost or does not come in time.
std::unique_ptr<DeviceCollectives> open_collectives(Device& device, Communicator& host,
                                                    const CommunicatorTimeouts& timeouts);

}  // namespace mtf::cuda
