// TCP sockets: descriptors that close themselves, do not block, and are closed on exec. No call raises
// SIGPIPE.
//
//   Opened opened = connect_to("node-a", 29500, Clock::now() + 2s);
//   if (!opened.socket.open()) log(opened.error);   // "Connection refused"
#pragma once

#include <chrono>
#include <string>

namespace mtf {

class Socket {
 public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket();
  Socket(Socket&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  Socket& operator=(Socket&& other) noexcept;

  bool open() const { return descriptor_ >= 0; }
  int get() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

/// A socket, or why there is none.
struct Opened {
  Socket socket;
  std::string error;
  bool is_unknown_host = false;
};

/// Listens at a port (0: any that is free), on IPv4 and on IPv6 where the machine has it, or on the loopback
/// address alone.
Opened listen_at(int port, bool only_this_machine);
/// The next connection that waits at `listener`; no socket and no error: none does.
Opened accept_at(const Socket& listener);
/// Tries the addresses of `host` in turn.
Opened connect_to(const std::string& host, int port, std::chrono::steady_clock::time_point deadline);

/// Waits until the socket can be read (written), but no longer than to the deadline.
bool wait_readable(const Socket& socket, std::chrono::steady_clock::time_point deadline);
bool wait_writable(const Socket& socket, std::chrono::steady_clock::time_point deadline);

int port_of(const Socket& socket);
/// The address of this end of a connection, in numbers.
std::string local_address(const Socket& socket);
/// The address of the other end, in numbers; empty: it is gone.
std::string peer_host(const Socket& socket);
/// The address and port of the other end, in numbers: "10.0.0.2:41712".
std::string peer_address(const Socket& socket);

}  // namespace mtf
