#include "engine/comm/parameters/framed_socket.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <thread>
#include <utility>

#include "engine/base/crc32c.h"
#include "engine/base/error.h"
#include "engine/base/seconds_since.h"
#include "engine/comm/security/authentication.h"

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
  uint32_t checksum = 0;  ///< CRC-32C of the header with 0 in this field
  uint64_t version = 0;
  uint64_t bytes = 0;
};
static_assert(sizeof(WireHeader) == 32);

uint32_t checksum_of(WireHeader header) {
  header.checksum = 0;
  return crc32c({reinterpret_cast<const char*>(&header), sizeof(header)});
}

/// The first keep-alive packet is sent after `idle` seconds without traffic, the next ones every `interval`.
struct KeepAlive {
  int idle, interval;
  int count = 3;  ///< unanswered packets that end the connection
  constexpr int seconds() const { return idle + count * interval; }
};
constexpr KeepAlive kKeepAlive{.idle = 30, .interval = 10};
constexpr KeepAlive kProbe{.idle = 1, .interval = 1};
static_assert(kProbe.seconds() == FramedSocket::kProbeTime.count());

void keep_alive(const Socket& socket, const KeepAlive& times) {
  const auto set = [&](int level, int option, int value) {
    setsockopt(socket.get(), level, option, &value, sizeof(value));
  };
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, times.idle);
  set(IPPROTO_TCP, TCP_KEEPINTVL, times.interval);
  set(IPPROTO_TCP, TCP_KEEPCNT, times.count);
}

/// While sent bytes are not acknowledged there are no keep-alive packets, and the kernel sends the bytes again for a
/// quarter of an hour: this is how often a waiting thread looks whether it is in vain.
constexpr std::chrono::seconds kLookAtReach{5};

constexpr const char* kClosed = "was closed by the other side";

[[noreturn]] void lost(const std::string& peer, const std::string& what) {
  throw Error(ErrorKind::kPeerLost, fmt::format("the connection with {} {}", peer, what));
}

}  // namespace

FramedSocket::FramedSocket(Socket socket, milliseconds timeout)
    : socket_(std::move(socket)), timeout_(timeout), peer_(peer_address(socket_)) {
  keep_alive(socket_, kKeepAlive);
}

void FramedSocket::shut_down() { ::shutdown(socket_.get(), SHUT_RDWR); }
void FramedSocket::stop_receiving() { ::shutdown(socket_.get(), SHUT_RD); }

FramedSocket::Deadline FramedSocket::deadline(uint64_t bytes) const {
  return Clock::now() + timeout_ + std::chrono::seconds(bytes / kSlowestRate);
}

void FramedSocket::wait(bool readable, Deadline deadline, Deadline begun) {
  if (readable ? wait_readable(socket_, deadline) : wait_writable(socket_, deadline)) return;
  lost(peer_, fmt::format("has not {} a whole message in {:.3g} s", readable ? "brought" : "taken",
                          seconds_since(begun)));
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
  const Deadline begun = Clock::now(), end = deadline(left);
  while (left > 0) {
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR)
        lost(peer_, fmt::format("was closed: {}", system_message(errno)));
      wait(false, end, begun);
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
  const std::span<std::byte> bytes(reinterpret_cast<std::byte*>(&header), sizeof(header));
  const Deadline begun = Clock::now(), end = begun + first_byte.value_or(std::chrono::hours(24 * 365));
  while (!wait_readable(socket_, std::min(end, Clock::now() + kLookAtReach))) {
    require_open();
    if (Clock::now() >= end)
      lost(peer_, fmt::format("has brought nothing for {:.3g} s", seconds_since(begun)));
  }
  receive_bytes(bytes, deadline(bytes.size()));
  if (header.magic != kMagic || header.checksum != checksum_of(header))
    throw Error(ErrorKind::kData,
                fmt::format("what {} sends is no message between parameter servers and workers", peer_));
  return {header.operation, header.id, header.version, header.bytes};
}

void FramedSocket::receive_bytes(std::span<std::byte> memory) {
  receive_bytes(memory, deadline(memory.size()));
}

void FramedSocket::receive_bytes(std::span<std::byte> memory, Deadline deadline) {
  const Deadline begun = Clock::now();
  while (!memory.empty()) {
    const ssize_t count = recv(socket_.get(), memory.data(), memory.size(), 0);
    if (count > 0) {
      memory = memory.subspan(static_cast<size_t>(count));
    } else if (count == 0) {
      lost(peer_, kClosed);
    } else if (errno == EAGAIN || errno == EINTR) {
      wait(true, deadline, begun);
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

bool FramedSocket::is_closed() const {
  pollfd end{.fd = socket_.get(), .events = POLLRDHUP, .revents = 0};
  return ::poll(&end, 1, 0) > 0;
}

bool FramedSocket::is_cut_off() const { return is_out_of_reach(std::chrono::seconds(kKeepAlive.seconds())); }

bool FramedSocket::has_ended() const { return is_closed() || is_cut_off(); }

void FramedSocket::require_open() const {
  if (is_closed()) lost(peer_, kClosed);
  if (is_cut_off()) lost(peer_, "is cut off: nothing that was sent has arrived for a minute");
}

void FramedSocket::probe(bool on) { keep_alive(socket_, on ? kProbe : kKeepAlive); }

/// The kernel of a process that is stopped or busy acknowledges what comes, and answers probes of a full window.
bool FramedSocket::is_out_of_reach(milliseconds time) const {
  constexpr int kUnanswered = 2;  // one may be on its way
  tcp_info info{};
  socklen_t size = sizeof(info);
  if (getsockopt(socket_.get(), IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return false;
  const bool is_silent = info.tcpi_retransmits >= kUnanswered || info.tcpi_probes >= kUnanswered;
  return is_silent && milliseconds(info.tcpi_last_ack_recv) >= time;
}

FramedSocket connect_framed(const FramedConnection& connection, milliseconds connect_timeout,
                            milliseconds timeout) {
  using Outcome = Authentication::Outcome;
  const Clock::time_point end = Clock::now() + connect_timeout;
  const std::optional<HostPort> parsed = parse_host_port(connection.address);
  if (!parsed)
    throw Error(ErrorKind::kSystem, fmt::format("`{}` is no address", connection.address), "HOST:PORT");
  connection.access.require(*parsed);
  for (;;) {
    Opened opened = connect_to(parsed->host, parsed->port, end);
    std::string reason = opened.error;
    if (opened.socket.open()) {
      connection.access.require(opened.host, *parsed);
      const Authentication result = authenticate(opened.socket, connection.access.secret, connection.purpose,
                                                 static_cast<uint32_t>(connection.rank), end);
      if (result.outcome == Outcome::kDone) return {std::move(opened.socket), timeout};
      if (result.outcome == Outcome::kOtherSecret)
        throw Error(
            ErrorKind::kConfig,
            fmt::format("{} has another secret than this process ({})", connection.address, result.reason),
            kSameSecretHint);
      reason = result.reason;
    }
    if (Clock::now() >= end) {
      throw Error(ErrorKind::kPeerLost,
                  fmt::format("nothing answers at {} within {:.3g} s ({})", connection.address,
                              std::chrono::duration<double>(connect_timeout).count(), reason));
    }
    std::this_thread::sleep_for(milliseconds(50));
  }
}

std::optional<FramedSocket> FramedListener::accept(milliseconds wait, milliseconds timeout) {
  std::optional<Admitted> member = gate_.next(Clock::now() + wait);
  if (!member) return std::nullopt;
  return FramedSocket(std::move(member->socket), timeout);
}

}  // namespace mtf
