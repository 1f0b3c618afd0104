#include "engine/comm/sockets/socket.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "engine/base/error.h"

namespace mtf {

namespace {

void set_socket_option(const Socket& socket, int level, int option, int value) {
  ::setsockopt(socket.get(), level, option, &value, sizeof value);
}

Opened stream_socket(int family) {
  Opened opened{Socket(::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)), {}, false};
  if (!opened.socket.open()) opened.error = system_message(errno);
  return opened;
}

using AddressList = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

/// Resolves a host. `error` is set to that of getaddrinfo(), 0 for none.
AddressList resolve(const std::string& host, int port, int flags, int& error) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo* found = nullptr;
  error = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  return {error == 0 ? found : nullptr, ::freeaddrinfo};
}

/// Adds a socket that listens at `address`; if that fails, sets the error.
void add_listener(Listening& listening, const addrinfo& address, bool only_ipv6) {
  Socket socket = stream_socket(address.ai_family).socket;
  int error = errno;
  if (socket.open()) {
    set_socket_option(socket, SOL_SOCKET, SO_REUSEADDR, 1);
    if (address.ai_family == AF_INET6) set_socket_option(socket, IPPROTO_IPV6, IPV6_V6ONLY, only_ipv6);
    if (::bind(socket.get(), address.ai_addr, address.ai_addrlen) == 0 &&
        ::listen(socket.get(), SOMAXCONN) == 0) {
      listening.sockets.push_back(std::move(socket));
      return;
    }
    error = errno;
  }
  // The error that the port is in use tells more than that another address does not exist.
  if (listening.error != EADDRINUSE) listening.error = error;
}

bool wait_for_events(const Socket& socket, int16_t events, std::chrono::steady_clock::time_point deadline) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd waiting{socket.get(), events, 0};
    const int timeout = static_cast<int>(std::clamp<int64_t>(left.count(), 0, 1'000'000));
    const int ready = ::poll(&waiting, 1, timeout);
    if (ready > 0) return true;
    if (ready == 0 && left.count() <= 1'000'000) return false;
    if (ready < 0 && errno != EINTR) return true;  // the following call reports the error
  }
}

Opened connect_to_address(const addrinfo& address, std::chrono::steady_clock::time_point deadline) {
  Opened opened = stream_socket(address.ai_family);
  if (!opened.socket.open()) return opened;
  int error = 0;
  if (::connect(opened.socket.get(), address.ai_addr, address.ai_addrlen) != 0) error = errno;
  if (error == EINPROGRESS || error == EINTR) {
    if (!wait_writable(opened.socket, deadline)) return {{}, system_message(ETIMEDOUT), false};
    socklen_t size = sizeof error;
    ::getsockopt(opened.socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
  }
  if (error != 0) return {{}, system_message(error), false};
  set_socket_option(opened.socket, IPPROTO_TCP, TCP_NODELAY, 1);
  return opened;
}

/// True if a connection leads back to the same socket: the ephemeral port of this end can be the very port to
/// which it connects, if nobody listens there.
bool is_connected_to_itself(const Socket& socket) {
  sockaddr_storage here{}, there{};
  socklen_t here_size = sizeof here, there_size = sizeof there;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&here), &here_size) != 0) return false;
  if (::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&there), &there_size) != 0) return false;
  const auto* here_bytes = reinterpret_cast<const char*>(&here);
  return here_size == there_size &&
         std::equal(here_bytes, here_bytes + here_size, reinterpret_cast<const char*>(&there));
}

struct NumericAddress {
  std::string host, port;
};

NumericAddress in_numbers(const sockaddr* address, socklen_t size) {
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
  ::getnameinfo(address, size, host, sizeof host, port, sizeof port, NI_NUMERICHOST | NI_NUMERICSERV);
  const std::string name = host;
  const std::string mapped = "::ffff:";  // prefix of an IPv4 address in an IPv6 socket
  return {name.starts_with(mapped) ? name.substr(mapped.size()) : name, port};
}

NumericAddress in_numbers(const sockaddr_storage& address, socklen_t size) {
  return in_numbers(reinterpret_cast<const sockaddr*>(&address), size);
}

NumericAddress in_numbers(const addrinfo& address) { return in_numbers(address.ai_addr, address.ai_addrlen); }

/// Returns the address of the other end, or nothing if the connection is lost.
std::optional<NumericAddress> other_end(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return in_numbers(address, size);
}

Opened opened(Socket socket, const NumericAddress& other_end) {
  return {std::move(socket), {}, false, other_end.host, other_end.host + ":" + other_end.port};
}

}  // namespace

Socket::~Socket() {
  if (open()) ::close(descriptor_);
}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Resolved addresses_of(const std::string& host) {
  int error = 0;
  AddressList found = resolve(host, 0, AI_NUMERICHOST, error);
  Resolved resolved{.numbers = {}, .is_number = found != nullptr, .error = {}};
  if (!found) found = resolve(host, 0, 0, error);
  if (!found) resolved.error = ::gai_strerror(error);
  for (const addrinfo* address = found.get(); address; address = address->ai_next) {
    std::string numbers = in_numbers(*address).host;
    if (std::ranges::find(resolved.numbers, numbers) == resolved.numbers.end())
      resolved.numbers.push_back(std::move(numbers));
  }
  return resolved;
}

Listening listen_at(const std::vector<std::string>& numbers, int port) {
  Listening listening;
  for (const std::string& host : numbers) {
    int error = 0;
    const AddressList found = resolve(host, port, AI_NUMERICHOST, error);
    if (!found) continue;
    add_listener(listening, *found, true);
    if (port == 0 && !listening.sockets.empty()) port = port_of(listening.sockets.front());
  }
  if (listening.error == EADDRINUSE)
    listening.sockets.clear();  // otherwise clients might connect to the other program
  return listening;
}

Listening listen_everywhere(int port) {
  Listening listening;
  for (const char* any : {"::", "0.0.0.0"}) {
    int error = 0;
    if (const AddressList found = resolve(any, port, AI_NUMERICHOST, error))
      add_listener(listening, *found, false);
    if (!listening.sockets.empty() || listening.error == EADDRINUSE) break;
  }
  return listening;
}

Opened accept_at(const Socket& listener) {
  sockaddr_storage peer{};
  socklen_t size = sizeof peer;
  Socket socket(
      ::accept4(listener.get(), reinterpret_cast<sockaddr*>(&peer), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket.open()) {
    const bool none = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED;
    return {{}, none ? "" : system_message(errno), false};
  }
  set_socket_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  return opened(std::move(socket), in_numbers(peer, size));
}

Opened connect_to(const std::string& host, int port, std::chrono::steady_clock::time_point deadline) {
  int unknown = 0;
  const AddressList addresses = resolve(host, port, 0, unknown);
  if (!addresses) return {{}, ::gai_strerror(unknown), true};
  std::string error;
  for (const addrinfo* address = addresses.get(); address; address = address->ai_next) {
    Opened result = connect_to_address(*address, deadline);
    if (result.socket.open() && !is_connected_to_itself(result.socket)) {
      // The socket of a connection that is closed already does not know its other end.
      const NumericAddress there = other_end(result.socket).value_or(in_numbers(*address));
      return opened(std::move(result.socket), there);
    }
    error = result.socket.open() ? system_message(ECONNREFUSED) : result.error;
  }
  return {{}, error, false};
}

bool wait_readable(const Socket& socket, std::chrono::steady_clock::time_point deadline) {
  return wait_for_events(socket, POLLIN, deadline);
}

bool wait_writable(const Socket& socket, std::chrono::steady_clock::time_point deadline) {
  return wait_for_events(socket, POLLOUT, deadline);
}

int port_of(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<sockaddr_in&>(address).sin_port);
}

std::string local_address(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  const bool known = ::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) == 0;
  return known ? in_numbers(address, size).host : "";
}

std::string peer_address(const Socket& socket) {
  const std::optional<NumericAddress> peer = other_end(socket);
  return peer ? peer->host + ":" + peer->port : "somebody who is gone";
}

}  // namespace mtf
