// Messages between the processes of a run: the layer on which collectives between processes are built.
//
//   std::unique_ptr<MessageBuffer> buffer = transport.buffer(memory);
//   buffer->receive(2, tag, 0, 4096);      // both sides name the same tag and number of bytes
//   buffer->wait_received();
//
// Sends to and receives from one peer may be posted in any order; a message goes to the receive of the same
// tag. Thread safe, but for a buffer, which one thread uses at a time. Sends wait for their receives. A
// buffer is given back when all that it has begun has ended, or after an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace mtf {

/// A segment of memory that messages are sent from or received into.
class MessageBuffer {
 public:
  virtual ~MessageBuffer() = default;
  /// Begins to send bytes [offset, offset + bytes), which keep their values until wait_sent().
  virtual void send(int peer, uint64_t tag, size_t offset, size_t bytes) = 0;
  virtual void receive(int peer, uint64_t tag, size_t offset, size_t bytes) = 0;
  /// Waits until one more of the sends (receives) has ended. Throw Error (kPeerLost) that names the peer when
  /// it is lost, or has not answered within the time that the transport gives it.
  virtual void wait_sent() = 0;
  virtual void wait_received() = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::unique_ptr<MessageBuffer> buffer(std::span<std::byte> memory) = 0;
  /// Throws Error (kPeerLost) that names a peer that is known to be lost, or the reason of abort(); does not
  /// wait.
  virtual void check() = 0;
  /// All calls that wait, and all later ones, throw Error (kPeerLost) with `reason`.
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace mtf
