// Messages between the processes of a run, on which collectives between processes are built.
//
//   std::unique_ptr<MessageBuffer> buffer = transport.buffer(memory);
//   buffer->receive(2, tag, 0, 4096);      // both ends use the same tag and number of bytes
//   buffer->wait_received();
//
// Sends to and receives from a peer may be posted in any order; a message goes to the receive with the same
// tag. A send waits for its receive. All functions are thread safe, except that only one thread at a time may
// use a buffer. A buffer may be destroyed when everything that it has begun has ended, or after an error.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace mtf {

/// A range of memory from which messages are sent and into which they are received.
class MessageBuffer {
 public:
  virtual ~MessageBuffer() = default;
  /// Begins to send bytes [offset, offset + bytes), which must not change until wait_sent() returns.
  virtual void send(int peer, uint64_t tag, size_t offset, size_t bytes) = 0;
  virtual void receive(int peer, uint64_t tag, size_t offset, size_t bytes) = 0;
  /// Wait until one more of the sends (or receives) has ended. They throw Error (kPeerLost) that names the
  /// peer if it is lost or has not answered within the time of the transport.
  virtual void wait_sent() = 0;
  virtual void wait_received() = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::unique_ptr<MessageBuffer> buffer(std::span<std::byte> memory) = 0;
  /// Throws Error (kPeerLost) that names a peer that is known to be lost, or with the reason of abort(); does
  /// not wait.
  virtual void check() = 0;
  /// Makes all calls that wait, and all later ones, throw Error (kPeerLost) with `reason`.
  virtual void abort(const std::string& reason) = 0;
};

}  // namespace mtf
