// Messages over TCP: a header of fixed size with a checksum, followed by bytes that are sent from and
// received into the memory of tensors without a copy.
//
//   FramedSocket socket = connect_framed({.address = "10.0.0.1:2222", .access = access}, timeout, timeout);
//   socket.send({.operation = 3, .id = 7}, tensor);
//   const Frame reply = socket.receive();
//   socket.receive_bytes(memory);            // memory has reply.bytes bytes
//
// Errors are Error (kPeerLost) with the address of the other end.
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

/// The header of a message.
struct Frame {
  uint16_t operation = 0;
  uint32_t id = 0;       ///< id of a tensor
  uint64_t version = 0;  ///< version of the variables
  uint64_t bytes = 0;    ///< number of bytes that follow; set by send()
};

/// One end of a connection. One thread may send while another one receives.
class FramedSocket {
 public:
  /// Takes over a connection. `timeout` is the time for a whole message, to which the time for its bytes at
  /// kSlowestRate is added.
  FramedSocket(Socket socket, std::chrono::milliseconds timeout);

  /// Returns the address of the other end, such as "10.0.0.2:41712".
  const std::string& peer() const { return peer_; }
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  void send(Frame frame, std::span<const std::byte> bytes = {});
  /// Receives the next header. `first_byte` is the time to wait for its first byte; nothing: without limit.
  /// Throws Error (kData) if the bytes are not a header.
  Frame receive(std::optional<std::chrono::milliseconds> first_byte = {});
  void receive_bytes(std::span<std::byte> memory);
  /// Receives bytes and discards them.
  void skip_bytes(uint64_t count);
  /// True if the other end has closed the connection, or its machine has been gone for about a minute. Bytes that have
  /// come can still be received.
  bool has_ended() const;
  /// Throws if has_ended().
  void require_open() const;
  /// An idle connection ends within kProbeTime, instead of about a minute, after the machine of the other end is gone;
  /// until probe(false).
  static constexpr std::chrono::seconds kProbeTime{4};
  void probe(bool on);
  /// True if the machine of the other end has acknowledged nothing for so long, though it was sent something.
  bool is_out_of_reach(std::chrono::milliseconds time) const;
  /// Ends the connection: threads that send or receive throw.
  void shut_down();
  /// Makes a thread that waits for bytes throw; sending is still possible.
  void stop_receiving();

 private:
  using Deadline = std::chrono::steady_clock::time_point;

  Deadline deadline(uint64_t bytes) const;
  bool is_closed() const;
  bool is_cut_off() const;
  /// Waits until the socket is readable or writable; throws at the deadline.
  void wait(bool readable, Deadline deadline, Deadline begun);
  void receive_bytes(std::span<std::byte> memory, Deadline deadline);

  Socket socket_;
  std::chrono::milliseconds timeout_;
  std::string peer_;
};

struct FramedConnection {
  std::string address;  ///< "host:port" of the server
  Access access = {};
  int rank = 0;         ///< rank of this process
  std::string purpose;  ///< purpose of the connection, which the server's Gate must also have
};
/// Connects to a Gate; tries again until it succeeds or `connect_timeout` has passed. Throws Error
/// (kPeerLost), Error (kConfig) if the server has another secret, and as Access::require() does.
FramedSocket connect_framed(const FramedConnection& connection, std::chrono::milliseconds connect_timeout,
                            std::chrono::milliseconds timeout);

/// A port that accepts connections of processes that know the run's secret.
class FramedListener {
 public:
  /// Throws as listen_for_members() does.
  FramedListener(const HostPort& address, const Access& access, const std::string& purpose,
                 std::chrono::milliseconds patience = {})
      : gate_(listen_for_members(address, access, "parameters", patience), access.secret, purpose) {}

  int port() const { return gate_.port(); }
  /// Returns the next connection, or nothing if none came within `wait`.
  std::optional<FramedSocket> accept(std::chrono::milliseconds wait, std::chrono::milliseconds timeout);
  /// Returns the gate, which knows the addresses that were not admitted.
  const Gate& gate() const { return gate_; }

 private:
  Gate gate_;
};

}  // namespace mtf
