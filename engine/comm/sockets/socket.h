// TCP sockets: descriptors that close themselves, do not block, and are closed on exec. No call raises
// SIGPIPE.
//
//   Opened opened = connect_to("node-a", 29500, Clock::now() + 2s);
//   if (!opened.socket.open()) log(opened.error);   // "Connection refused"
#pragma once

#include <chrono>
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
  /// The descriptor, which the caller closes.
  int release() { return std::exchange(descriptor_, -1); }

 private:
  int descriptor_ = -1;
};

/// A socket, or why there is none.
struct Opened {
  Socket socket;
  std::string error;
  bool is_unknown_host = false;
  std::string host = {},
              address = {};  ///< of accept_at(): the other end, in numbers, the latter with its port
};

/// The IP addresses of a host, in numbers.
struct Resolved {
  std::vector<std::string> numbers;
  bool is_number = false;  ///< the host is given by its address
  std::string error;       ///< why there are none
};
Resolved addresses_of(const std::string& host);

/// Sockets that listen at one port of several addresses.
struct Listening {
  std::vector<Socket> sockets;
  int error = 0;  ///< why there are none
};
/// Listens at a port (0: any that is free) of those of the addresses, in numbers, that this machine has.
Listening listen_at(const std::vector<std::string>& numbers, int port);
/// Listens at all addresses of this machine, on IPv4 and on IPv6 where it has it.
Listening listen_everywhere(int port);
/// The next connection that waits at `listener`; no socket and no error: none does.
Opened accept_at(const Socket& listener);
/// Tries the addresses of `host` in turn.
Opened connect_to(const std::string& host, int port, std::chrono::steady_clock::time_point deadline);

/// Waits until the socket can be read (written), but no longer than to the deadline.
bool wait_readable(const Socket& socket, std::chrono::steady_clock::time_point deadline);
bool wait_writable(const Socket& socket, std::chrono::steady_clock::time_point deadline);

/// Bytes a second. Who waits for a whole message gives it this much more time for its bytes.
inline constexpr uint64_t kSlowestRate = uint64_t{64} << 10;

int port_of(const Socket& socket);
/// The address of this end of a connection, in numbers.
std::string local_address(const Socket& socket);
/// The address of the other end, in numbers; empty: it is gone.
std::string peer_host(const Socket& socket);
/// The address and port of the other end, in numbers: "10.0.0.2:41712".
std::string peer_address(const Socket& socket);

}  // namespace mtf
