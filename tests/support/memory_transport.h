// A wire in memory: the processes of a test are threads.
//
//   MemoryWire wire(4);
//   std::unique_ptr<Transport> transport = wire.transport(2);   // in the thread that plays rank 2
//
// As with Gloo a message leaves when its receive is posted; until then its send waits. Sizes that differ are
// a broken invariant.
#pragma once

#include <chrono>
#include <memory>

#include "engine/comm/process/transport.h"

namespace mtf {

struct MemoryWireState;

/// Outlives its transports, and they their buffers.
class MemoryWire {
 public:
  /// Whoever waits longer than `timeout` for a peer throws.
  explicit MemoryWire(int size, std::chrono::milliseconds timeout = std::chrono::seconds(60));
  ~MemoryWire();
  std::unique_ptr<Transport> transport(int rank);
  /// As if the process had ended: whoever waits for it, or calls it later, throws.
  void lose(int rank);

 private:
  std::unique_ptr<MemoryWireState> state_;
};

}  // namespace mtf
