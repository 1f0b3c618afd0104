// Messages over TCP: a header of fixed size with a checksum, then bytes that go straight between the socket
// and the memory of tensors.
//
//   FramedSocket socket = connect_framed("10.0.0.1:2222", timeout);
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

#include "engine/comm/rendezvous/socket.h"

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
  /// Takes over a connection. `timeout`: without a byte more of a message that has begun.
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
  void wait(bool readable, std::optional<std::chrono::milliseconds> timeout);
  void receive_bytes(std::span<std::byte> memory, std::optional<std::chrono::milliseconds> first_byte);

  Socket socket_;
  std::chrono::milliseconds timeout_;
  std::string peer_;
};

/// Connects to "host:port", again and again until it works or `timeout` is over.
FramedSocket connect_framed(const std::string& address, std::chrono::milliseconds connect_timeout,
                            std::chrono::milliseconds timeout);

/// A port that others connect to.
class FramedListener {
 public:
  /// Port 0: any that is free. Throws Error (kSystem).
  FramedListener(int port, bool only_this_machine);

  int port() const { return port_of(socket_); }
  /// The next connection; nothing: none came within `wait`.
  std::optional<FramedSocket> accept(std::chrono::milliseconds wait, std::chrono::milliseconds timeout);

 private:
  Socket socket_;
};

}  // namespace mtf
