// Messages over TCP: a header of fixed size with a checksum, then bytes that go straight between the socket
// and the memory of tensors.
//
//   FramedSocket socket = connect_framed({.address = "10.0.0.1:2222", .access = access}, timeout);
//   socket.send({.operation = 3, .id = 7}, tensor);
//   const Frame reply = socket.receive();
//   socket.receive_bytes(memory);            // reply.bytes of them
//
// Errors are Error (kPeerLost) that name the address of the other side.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "engine/comm/security/access.h"
#include "engine/comm/security/gate.h"
#include "engine/comm/sockets/socket.h"

namespace mtf {

/// What stands before the bytes of a message.
struct Frame {
  uint16_t operation = 0;
  uint32_t id = 0;       ///< of a tensor
  uint64_t version = 0;  ///< of the variables
  uint64_t bytes = 0;    ///< that follow; send() fills it in
};

/// One end of a connection. One thread at a time may send and one may receive.
class FramedSocket {
 public:
  /// Takes over a connection. `timeout`: for a whole message, beside the time that its bytes take at
  /// kSlowestRate.
  FramedSocket(Socket socket, std::chrono::milliseconds timeout);

  /// "10.0.0.2:41712", the other side.
  const std::string& peer() const { return peer_; }
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  void send(Frame frame, std::span<const std::byte> bytes = {});
  /// The next header. `first_byte`: how long to wait for it; nothing: for ever. Throws Error (kData) for
  /// bytes that are no header.
  Frame receive(std::optional<std::chrono::milliseconds> first_byte = {});
  void receive_bytes(std::span<std::byte> memory);
  /// Receives bytes that nobody wants.
  void skip_bytes(uint64_t count);
  /// The other side has closed the connection. What it has sent before is lost.
  bool has_ended();
  /// Ends the connection: a thread that sends or receives throws.
  void shut_down();
  /// A thread that waits for bytes throws; what is sent still goes.
  void stop_receiving();

 private:
  using Deadline = std::chrono::steady_clock::time_point;

  Deadline deadline(uint64_t bytes) const;
  /// Throws where nothing can be done until the deadline.
  void wait(bool readable, Deadline deadline, Deadline begun);
  void receive_bytes(std::span<std::byte> memory, Deadline deadline);

  Socket socket_;
  std::chrono::milliseconds timeout_;
  std::string peer_;
};

struct FramedConnection {
  std::string address;  ///< "host:port"
  Access access = {};
  int rank = 0;         ///< of this process
  std::string purpose;  ///< of the connection; the server's Gate has the same
};
/// Connects to a Gate, again and again until it works or `connect_timeout` is over. Throws Error (kPeerLost),
/// (kConfig) for another secret and as Access::require() does.
FramedSocket connect_framed(const FramedConnection& connection, std::chrono::milliseconds connect_timeout,
                            std::chrono::milliseconds timeout);

/// A port that others connect to, who know the run's secret.
class FramedListener {
 public:
  /// Throws as listen_for_members() does.
  FramedListener(const HostPort& address, const Access& access, const std::string& purpose)
      : gate_(listen_for_members(address, access, "parameters"), access.secret, purpose) {}

  int port() const { return gate_.port(); }
  /// The next connection; nothing: none came within `wait`.
  std::optional<FramedSocket> accept(std::chrono::milliseconds wait, std::chrono::milliseconds timeout);
  /// Who was not let in.
  const Gate& gate() const { return gate_; }

 private:
  Gate gate_;
};

}  // namespace mtf
