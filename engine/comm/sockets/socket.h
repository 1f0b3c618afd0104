// TCP sockets: descriptors that close themselves, do not block, and are closed on exec. No call raises
// SIGPIPE.
//
//   Opened opened = connect_to("node-a", 29500, Clock::now() + 2s);
//   if (!opened.socket.open()) log(opened.error);   // "Connection refused"
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

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
  /// Returns the descriptor, which the caller must close.
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

/// A socket, or the reason why there is none.
struct Opened {
  Socket socket;
  std::string error;
  bool is_unknown_host = false;
  std::string host = {}, address = {};  ///< the IP address of the other end, the latter with its port
};

/// The IP addresses of a host.
struct Resolved {
  std::vector<std::string> numbers;
  bool is_number = false;  ///< true if the host is given by its address
  std::string error;       ///< why there are no addresses
};
Resolved addresses_of(const std::string& host);

/// Sockets that listen at one port of several addresses.
struct Listening {
  std::vector<Socket> sockets;
  int error = 0;  ///< error number if there are no sockets
};
/// Listens at a port (0: any free one) of those of the IP addresses that this machine has.
Listening listen_at(const std::vector<std::string>& numbers, int port);
/// Listens at all IPv4 addresses of this machine, and at all IPv6 addresses if it has any.
Listening listen_everywhere(int port);
/// Accepts the next connection that waits at `listener`; returns no socket and no error if there is none.
Opened accept_at(const Socket& listener);
/// Connects to the first address of `host` that works.
Opened connect_to(const std::string& host, int port, std::chrono::steady_clock::time_point deadline);

/// Wait until the socket can be read (or written). Return false if the deadline comes first.
bool wait_readable(const Socket& socket, std::chrono::steady_clock::time_point deadline);
bool wait_writable(const Socket& socket, std::chrono::steady_clock::time_point deadline);

/// A rate in bytes per second: the time to wait for a whole message includes the time for its bytes at it.
inline constexpr uint64_t kSlowestRate = uint64_t{64} << 10;

int port_of(const Socket& socket);
/// Returns the IP address of this end of a connection.
std::string local_address(const Socket& socket);
/// Returns the IP address and port of the other end: "10.0.0.2:41712".
std::string peer_address(const Socket& socket);

}  // namespace mtf
