// DeviceCollectives are collectives among the GPUs of several processes, one GPU each, with the primitives of
// NCCL. There are two implementations: NCCL itself (nvidia/), and one over host memory for tests
// (tests/emulated_gpu).
//
//   auto world = open_collectives(device, host, timeouts);
//   auto rows = world->split(color, key);
//   rows->run(stream, [&] {                                     // all calls as one
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

/// A group of processes. All of them must make the same calls in the same order, from one thread; only
/// check() and abort() may be called at any time.
class DeviceCollectives {
 public:
  virtual ~DeviceCollectives() = default;
  /// Splits the group: processes with the same color form a new group, with ranks in the order of `key`.
  virtual std::unique_ptr<DeviceCollectives> split(int color, int key) = 0;
  /// Enqueues the calls that `calls` makes.
  virtual void run(Stream stream, const std::function<void()>& calls) = 0;

  /// Only within run(). Sums elements of a type for which library_sums() holds, in an order chosen by the
  /// library.
  virtual void all_reduce(const std::byte* in, std::byte* out, int64_t count, DType dtype) = 0;
  /// `count` elements is the size of the result; rank r gets the r-th `count` elements.
  virtual void reduce_scatter(const std::byte* in, std::byte* out, int64_t count, DType dtype) = 0;
  /// `bytes` is the size of each input.
  virtual void all_gather(const std::byte* in, std::byte* out, int64_t bytes) = 0;
  virtual void send(const std::byte* data, int64_t bytes, int peer) = 0;
  virtual void receive(std::byte* data, int64_t bytes, int peer) = 0;

  /// Throws Error if enqueued work has failed; does not wait. May be called from any thread.
  virtual void check() = 0;
  /// Ends the enqueued work, whose results are then undefined; all later calls throw. May be called from any
  /// thread. May wait until no recording holds calls of this group.
  virtual void abort() noexcept = 0;
};

/// The library's name and version, such as "NCCL 2.28.9". Throws Error (kSystem) saying what is missing.
std::string collectives_version();
/// Opens the group of all processes of `host`, with the same ranks; all of them must call it. Device and host
/// must outlive it. Throws Error: kPeerLost if another process is lost or does not come in time.
std::unique_ptr<DeviceCollectives> open_collectives(Device& device, Communicator& host,
                                                    const CommunicatorTimeouts& timeouts);

}  // namespace mtf::cuda
