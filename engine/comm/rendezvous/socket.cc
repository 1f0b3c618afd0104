#include "engine/comm/rendezvous/socket.h"

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

#include "engine/core/error.h"

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

Opened listen_on_family(int family, int port, bool only_this_machine) {
  Opened opened = stream_socket(family);
  if (!opened.socket.open()) return opened;
  set_socket_option(opened.socket, SOL_SOCKET, SO_REUSEADDR, 1);
  sockaddr_storage address{};
  socklen_t size = 0;
  if (family == AF_INET6) {
    set_socket_option(opened.socket, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    auto* ipv6 = reinterpret_cast<sockaddr_in6*>(&address);
    *ipv6 = {};
    ipv6->sin6_family = AF_INET6;
    ipv6->sin6_port = htons(static_cast<uint16_t>(port));
    ipv6->sin6_addr = in6addr_any;
    size = sizeof *ipv6;
  } else {
    auto* ipv4 = reinterpret_cast<sockaddr_in*>(&address);
    ipv4->sin_family = AF_INET;
    ipv4->sin_port = htons(static_cast<uint16_t>(port));
    ipv4->sin_addr.s_addr = htonl(only_this_machine ? INADDR_LOOPBACK : INADDR_ANY);
    size = sizeof *ipv4;
  }
  if (::bind(opened.socket.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      ::listen(opened.socket.get(), SOMAXCONN) != 0) {
    return {{}, system_message(errno), false};
  }
  return opened;
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
    if (ready < 0 && errno != EINTR) return true;  // the call that follows says what is wrong
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

/// The ephemeral port of this end can be the very port that nobody listens at: such a connection is one with
/// itself.
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

NumericAddress in_numbers(const sockaddr_storage& address, socklen_t size) {
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
  ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
  const std::string name = host;
  const std::string mapped = "::ffff:";  // an IPv4 address in an IPv6 socket
  return {name.starts_with(mapped) ? name.substr(mapped.size()) : name, port};
}

/// Nothing: it is gone.
std::optional<NumericAddress> other_end(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0) return {};
  return in_numbers(address, size);
}

}  // namespace

Socket::~Socket() {
  if (open()) ::close(descriptor_);
}

Socket& Socket::operator=(Socket&& other) noexcept {
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

Opened listen_at(int port, bool only_this_machine) {
  if (only_this_machine) return listen_on_family(AF_INET, port, true);
  if (const Opened any = stream_socket(AF_INET6); any.socket.open()) {
    Opened both = listen_on_family(AF_INET6, port, false);
    if (both.socket.open() || both.error == system_message(EADDRINUSE)) return both;
  }
  return listen_on_family(AF_INET, port, false);
}

Opened accept_at(const Socket& listener) {
  Socket socket(::accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (!socket.open()) {
    const bool none = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR || errno == ECONNABORTED;
    return {{}, none ? "" : system_message(errno), false};
  }
  set_socket_option(socket, IPPROTO_TCP, TCP_NODELAY, 1);
  return {std::move(socket), {}, false};
}

Opened connect_to(const std::string& host, int port, std::chrono::steady_clock::time_point deadline) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int unknown = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (unknown != 0) return {{}, ::gai_strerror(unknown), true};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, ::freeaddrinfo);
  std::string error;
  for (const addrinfo* address = addresses.get(); address; address = address->ai_next) {
    Opened opened = connect_to_address(*address, deadline);
    if (opened.socket.open() && !is_connected_to_itself(opened.socket)) return opened;
    error = opened.socket.open() ? system_message(ECONNREFUSED) : opened.error;
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

std::string peer_host(const Socket& socket) {
  const std::optional<NumericAddress> peer = other_end(socket);
  return peer ? peer->host : "";
}

std::string peer_address(const Socket& socket) {
  const std::optional<NumericAddress> peer = other_end(socket);
  return peer ? peer->host + ":" + peer->port : "somebody who is gone";
}

}  // namespace mtf
