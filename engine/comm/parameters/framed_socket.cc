#include "engine/comm/parameters/framed_socket.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <thread>
#include <utility>

#include "engine/comm/launch/cluster_options.h"
#include "engine/core/crc32c.h"
#include "engine/core/error.h"

namespace mtf {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

static_assert(std::endian::native == std::endian::little, "numbers of a header are little-endian");

constexpr uint32_t kMagic = 0x5046544d;  // "MTFP"

struct WireHeader {
  uint32_t magic = kMagic;
  uint16_t operation = 0;
  uint16_t zero = 0;
  uint32_t id = 0;
  uint32_t checksum = 0;  ///< CRC-32C of the header with 0 in this place
  uint64_t version = 0;
  uint64_t bytes = 0;
};
static_assert(sizeof(WireHeader) == 32);

uint32_t checksum_of(WireHeader header) {
  header.checksum = 0;
  return crc32c({reinterpret_cast<const char*>(&header), sizeof(header)});
}

/// A peer whose machine is gone is noticed after about a minute, also while nothing is sent.
void keep_alive(const Socket& socket) {
  const auto set = [&](int level, int option, int value) {
    setsockopt(socket.get(), level, option, &value, sizeof(value));
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, 30);
  set(IPPROTO_TCP, TCP_KEEPINTVL, 10);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

[[noreturn]] void lost(const std::string& peer, const std::string& what) {
  throw Error(ErrorKind::kPeerLost, fmt::format("the connection with {} {}", peer, what));
}

}  // namespace

FramedSocket::FramedSocket(Socket socket, milliseconds timeout)
    : socket_(std::move(socket)), timeout_(timeout), peer_(peer_address(socket_)) {
  keep_alive(socket_);
}

void FramedSocket::shut_down() { ::shutdown(socket_.get(), SHUT_RDWR); }
void FramedSocket::stop_receiving() { ::shutdown(socket_.get(), SHUT_RD); }

void FramedSocket::wait(bool readable, std::optional<milliseconds> timeout) {
  const Clock::time_point deadline = Clock::now() + timeout.value_or(std::chrono::hours(24 * 365));
  if (readable ? wait_readable(socket_, deadline) : wait_writable(socket_, deadline)) return;
  lost(peer_, fmt::format("{} nothing for {:.3g} s", readable ? "has brought" : "has taken",
                          std::chrono::duration<double>(timeout.value_or(milliseconds(0))).count()));
}

void FramedSocket::send(Frame frame, std::span<const std::byte> bytes) {
  WireHeader header{
      .operation = frame.operation, .id = frame.id, .version = frame.version, .bytes = bytes.size()};
  header.checksum = checksum_of(header);
  std::array<iovec, 2> parts{
      {{&header, sizeof(header)}, {const_cast<std::byte*>(bytes.data()), bytes.size()}}};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  size_t left = sizeof(header) + bytes.size();
  while (left > 0) {
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR)
        lost(peer_, fmt::format("was closed: {}", system_message(errno)));
      wait(false, timeout_);
      continue;
    }
    left -= static_cast<size_t>(sent);
    auto done = static_cast<size_t>(sent);
    for (iovec& part : parts) {
      const size_t of_part = std::min(done, part.iov_len);
      part.iov_base = static_cast<std::byte*>(part.iov_base) + of_part;
      part.iov_len -= of_part;
      done -= of_part;
    }
  }
}

Frame FramedSocket::receive(std::optional<milliseconds> first_byte) {
  WireHeader header;
  receive_bytes({reinterpret_cast<std::byte*>(&header), sizeof(header)}, first_byte);
  if (header.magic != kMagic || header.checksum != checksum_of(header))
    throw Error(ErrorKind::kData,
                fmt::format("what {} sends is no message between parameter servers and workers", peer_));
  return {header.operation, header.id, header.version, header.bytes};
}

void FramedSocket::receive_bytes(std::span<std::byte> memory) { receive_bytes(memory, timeout_); }

void FramedSocket::receive_bytes(std::span<std::byte> memory, std::optional<milliseconds> first_byte) {
  std::optional<milliseconds> timeout = first_byte;
  while (!memory.empty()) {
    const ssize_t count = recv(socket_.get(), memory.data(), memory.size(), 0);
    if (count > 0) {
      memory = memory.subspan(static_cast<size_t>(count));
      timeout = timeout_;
    } else if (count == 0) {
      lost(peer_, "was closed by the other side");
    } else if (errno == EAGAIN || errno == EINTR) {
      wait(true, timeout);
    } else {
      lost(peer_, fmt::format("was closed: {}", system_message(errno)));
    }
  }
}

void FramedSocket::skip_bytes(uint64_t count) {
  std::array<std::byte, 4096> buffer;
  while (count > 0) {
    const auto part = static_cast<size_t>(std::min<uint64_t>(count, buffer.size()));
    receive_bytes(std::span(buffer).first(part));
    count -= part;
  }
}

bool FramedSocket::has_ended() {
  std::array<std::byte, 4096> buffer;
  for (;;) {
    const ssize_t count = recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count == 0) return true;
    if (count < 0 && errno != EINTR) return errno != EAGAIN;
  }
}

FramedSocket connect_framed(const std::string& address, milliseconds connect_timeout, milliseconds timeout) {
  const Clock::time_point end = Clock::now() + connect_timeout;
  const std::optional<HostPort> parsed = parse_host_port(address);
  if (!parsed) throw Error(ErrorKind::kSystem, fmt::format("`{}` is no address", address), "HOST:PORT");
  for (;;) {
    Opened opened = connect_to(parsed->host, parsed->port, end);
    if (opened.socket.open()) return {std::move(opened.socket), timeout};
    if (Clock::now() >= end) {
      throw Error(ErrorKind::kPeerLost,
                  fmt::format("nothing answers at {} within {:.3g} s ({})", address,
                              std::chrono::duration<double>(connect_timeout).count(), opened.error));
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
}

FramedListener::FramedListener(int port, bool only_this_machine) {
  Opened opened = listen_at(port, only_this_machine);
  if (!opened.socket.open())
    throw Error(ErrorKind::kSystem, fmt::format("cannot serve port {}: {}", port, opened.error));
  socket_ = std::move(opened.socket);
}

std::optional<FramedSocket> FramedListener::accept(milliseconds wait, milliseconds timeout) {
  if (!wait_readable(socket_, Clock::now() + wait)) return std::nullopt;
  Opened opened = accept_at(socket_);
  if (!opened.socket.open()) return std::nullopt;
  return FramedSocket(std::move(opened.socket), timeout);
}

}  // namespace mtf
