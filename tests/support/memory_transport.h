// MemoryNetwork is a network in memory, for tests whose processes are threads.
//
//   MemoryNetwork network(4);
//   std::unique_ptr<Transport> transport = network.transport(2);   // in the thread that plays rank 2
//
// As with Gloo, a message is transferred when its receive is posted; until then its send waits. Sizes that
// differ are a broken invariant.
#pragma once

#include <chrono>
#include <memory>

#include "engine/comm/process/transport.h"

namespace mtf {

struct MemoryNetworkState;

/// The network must outlive its transports, and they must outlive their buffers.
class MemoryNetwork {
 public:
  /// A thread that waits longer than `timeout` for a peer throws.
  explicit MemoryNetwork(int size, std::chrono::milliseconds timeout = std::chrono::seconds(60));
  ~MemoryNetwork();
  std::unique_ptr<Transport> transport(int rank);
  /// Simulates the end of the process: whoever waits for it, or calls it later, throws.
  void lose(int rank);

 private:
  std::unique_ptr<MemoryNetworkState> state_;
};

}  // namespace mtf
