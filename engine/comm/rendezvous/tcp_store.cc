#include "engine/comm/rendezvous/tcp_store.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <thread>

#include "engine/base/error.h"
#include "engine/comm/launch/cluster_options.h"
#include "engine/comm/rendezvous/tcp_store_protocol.h"
#include "engine/comm/security/authentication.h"
#include "engine/comm/sockets/socket.h"

namespace mtf {

namespace {

using StoreClock = std::chrono::steady_clock;

constexpr auto kBetweenTries = std::chrono::milliseconds(20);

/// Thrown if a connection cannot be used any more.
struct ConnectionLost {
  std::string reason;
  bool answers = false;     ///< the connection was accepted
  bool is_foreign = false;  ///< the other end speaks another protocol
  bool is_unknown_host = false;
  bool has_other_secret = false;

  /// True if another attempt would fail in the same way.
  bool is_final() const { return is_foreign || has_other_secret; }
};

}  // namespace

/// One connection, used by one thread at a time. Its functions throw ConnectionLost.
class TcpStore::Connection {
 public:
  /// `reply_timeout` is in milliseconds.
  Connection(const TcpStoreOptions& options, StoreClock::time_point deadline,
             const std::atomic<int64_t>& reply_timeout)
      : reply_timeout_(reply_timeout) {
    Opened opened = connect_to(options.host, options.port, deadline);
    if (!opened.socket.open())
      throw ConnectionLost{.reason = opened.error, .is_unknown_host = opened.is_unknown_host};
    socket_ = std::move(opened.socket);
    server_address_ = std::move(opened.host);
    options.access.require(server_address_, {options.host, options.port});
    try {
      options.authenticates ? prove(options, deadline) : greet(deadline);
    } catch (ConnectionLost& lost) {
      lost.answers = true;
      throw;
    }
  }

  const Socket& socket() const { return socket_; }
  const std::string& server_address() const { return server_address_; }

  void set(const std::string& key, const std::string& value) {
    start(StoreRequest::kSet).text(key).text(value);
    StoreWriter(request_).number(StoreRequest::kCheck).number<uint64_t>(1).text(key);
    send();
    expect(receive<uint8_t>(), kReady);
  }

  int64_t add(const std::string& key, int64_t amount) {
    start(StoreRequest::kAdd).text(key).number(amount);
    send();
    return receive<int64_t>();
  }

  bool has(const std::string& key) {
    start(StoreRequest::kCheck).number<uint64_t>(1).text(key);
    send();
    const auto answer = receive<uint8_t>();
    if (answer != kReady) expect(answer, kNotReady);
    return answer == kReady;
  }

  /// Returns true if the key is set before `deadline`.
  bool wait(const std::string& key, StoreClock::time_point deadline) {
    start(StoreRequest::kWait).number<uint64_t>(1).text(key);
    send();
    if (wait_readable(socket_, deadline)) {
      expect(receive<uint8_t>(), kStopWaiting);
      return true;
    }
    start(StoreRequest::kCancelWait);
    send();
    const auto answer = receive<uint8_t>();
    if (answer == kWaitCancelled) return false;
    expect(answer, kStopWaiting);  // the key was set at the last moment
    expect(receive<uint8_t>(), kWaitCancelled);
    return true;
  }

  std::string get(const std::string& key) {
    start(StoreRequest::kGet).text(key);
    send();
    const auto size = receive<uint64_t>();
    if (size > kLongestStoreValue) throw foreign("its answer is damaged");
    std::string value(size, '\0');
    receive(value.data(), value.size());
    return value;
  }

 private:
  void prove(const TcpStoreOptions& options, StoreClock::time_point deadline) {
    using Outcome = Authentication::Outcome;
    const Authentication result = authenticate(socket_, options.access.secret, kStorePurpose,
                                               static_cast<uint32_t>(options.rank), deadline);
    if (result.outcome == Outcome::kDone) return;
    throw ConnectionLost{.reason = result.reason,
                         .is_foreign = result.outcome == Outcome::kForeign,
                         .has_other_secret = result.outcome == Outcome::kOtherSecret};
  }
  void greet(StoreClock::time_point deadline) {
    const auto number = static_cast<uint32_t>(::getpid());
    start(StoreRequest::kValidate).number(kStoreMagic).number(StoreRequest::kPing).number(number);
    send();
    if (receive<uint32_t>(deadline) != number) throw foreign("it speaks another protocol");
  }
  static ConnectionLost lost(std::string reason) { return {.reason = std::move(reason)}; }
  static ConnectionLost foreign(std::string reason) {
    return {.reason = std::move(reason), .answers = true, .is_foreign = true};
  }

  StoreWriter start(StoreRequest request) {
    request_.clear();
    return StoreWriter(request_).number(request);
  }
  static void expect(uint8_t answer, uint8_t right) {
    if (answer != right) throw foreign(fmt::format("it answered {}", answer));
  }

  template <class T>
  T receive(StoreClock::time_point deadline = StoreClock::time_point::max()) {
    T value{};
    receive(&value, sizeof value, deadline);
    return value;
  }
  void send();
  /// Waits until the deadline, or until the server has been silent for the reply timeout.
  void receive(void* bytes, size_t size, StoreClock::time_point deadline = StoreClock::time_point::max());
  /// Waits in short intervals, because the reply timeout may change meanwhile.
  template <class Wait>
  void wait_for(const Wait& wait, StoreClock::time_point deadline) const;

  Socket socket_;
  std::string server_address_;
  const std::atomic<int64_t>& reply_timeout_;
  std::string request_;
};

template <class Wait>
void TcpStore::Connection::wait_for(const Wait& wait, StoreClock::time_point deadline) const {
  constexpr auto kSlice = std::chrono::milliseconds(100);
  const auto begin = StoreClock::now();
  while (true) {
    const auto now = StoreClock::now();
    const auto end = std::min(deadline, begin + std::chrono::milliseconds(reply_timeout_));
    if (wait(socket_, std::min(end, now + kSlice))) return;
    if (StoreClock::now() < end) continue;
    throw lost(fmt::format("it does not answer for {:.3g} s",
                           std::chrono::duration<double>(StoreClock::now() - begin).count()));
  }
}

void TcpStore::Connection::send() {
  size_t sent = 0;
  while (sent < request_.size()) {
    const ssize_t more = ::send(socket_.get(), request_.data() + sent, request_.size() - sent, MSG_NOSIGNAL);
    if (more >= 0) {
      sent += static_cast<size_t>(more);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      wait_for(wait_writable, StoreClock::time_point::max());
    } else if (errno != EINTR) {
      throw lost(system_message(errno));
    }
  }
}

void TcpStore::Connection::receive(void* bytes, size_t size, StoreClock::time_point deadline) {
  size_t done = 0;
  while (done < size) {
    wait_for(wait_readable, deadline);
    const ssize_t more = ::recv(socket_.get(), static_cast<char*>(bytes) + done, size - done, 0);
    if (more > 0) {
      done += static_cast<size_t>(more);
    } else if (more == 0) {
      throw lost("it closed the connection");
    } else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR) {
      throw lost(system_message(errno));
    }
  }
}

namespace {

/// Runs `action`; throws an Error in place of ConnectionLost.
template <class Action>
auto with_store(const TcpStoreOptions& options, const Action& action) {
  try {
    return action();
  } catch (const ConnectionLost& lost) {
    throw Error(ErrorKind::kPeerLost,
                fmt::format("the rendezvous store at {} is lost: {}",
                            to_string(HostPort{options.host, options.port}), lost.reason));
  }
}

[[noreturn]] void throw_no_store(const TcpStoreOptions& options, const ConnectionLost& lost) {
  const std::string endpoint = to_string(HostPort{options.host, options.port});
  const double seconds = std::chrono::duration<double>(options.connect_timeout).count();
  if (lost.has_other_secret) {
    throw Error(ErrorKind::kConfig,
                fmt::format("the rendezvous store at {} has another secret than this process ({})", endpoint,
                            lost.reason),
                kSameSecretHint);
  }
  if (lost.answers) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{} answers, but is not a rendezvous store ({})", endpoint, lost.reason),
                "does another program use this port?");
  }
  if (lost.is_unknown_host) {
    throw Error(
        ErrorKind::kSystem,
        fmt::format("the host `{}`, where the processes meet, is unknown ({})", options.host, lost.reason),
        "the name or address of the machine of process 0");
  }
  throw Error(ErrorKind::kPeerLost,
              fmt::format("nothing answers at {} within {:g} s ({})", endpoint, seconds, lost.reason),
              "is process 0 running, and is the address right?");
}

}  // namespace

TcpStore::TcpStore(TcpStoreOptions options)
    : options_(std::move(options)), reply_timeout_(options_.reply_timeout.count()) {
  options_.access.require({options_.host, options_.port});
  std::unique_ptr<Connection> connection = first_connection();
  local_address_ = mtf::local_address(connection->socket());
  server_address_ = connection->server_address();
  give_back(std::move(connection));
}

TcpStore::~TcpStore() = default;

std::unique_ptr<TcpStore::Connection> TcpStore::first_connection() const {
  const auto deadline = StoreClock::now() + options_.connect_timeout;
  auto pause = std::chrono::milliseconds(10);
  while (true) {
    try {
      return std::make_unique<Connection>(options_, deadline, reply_timeout_);
    } catch (const ConnectionLost& lost) {
      if (lost.is_final() || StoreClock::now() + pause > deadline) throw_no_store(options_, lost);
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::milliseconds(100));
  }
}

std::unique_ptr<TcpStore::Connection> TcpStore::take() {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      std::unique_ptr<Connection> connection = std::move(idle_.back());
      idle_.pop_back();
      return connection;
    }
  }
  const auto deadline = StoreClock::now() + Milliseconds(reply_timeout_);
  while (true) {
    try {
      return std::make_unique<Connection>(options_, deadline, reply_timeout_);
    } catch (const ConnectionLost& lost) {
      // Try again: a gate that is crowded by strangers may drop a visitor. A server that is gone accepts no
      // connection.
      if (!lost.answers || lost.is_final() || StoreClock::now() > deadline) throw;
    }
    std::this_thread::sleep_for(kBetweenTries);
  }
}

void TcpStore::give_back(std::unique_ptr<Connection> connection) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(connection));
}

void TcpStore::set(const std::string& key, const std::string& value) {
  if (value.size() > kLongestStoreValue) {
    throw Error(ErrorKind::kSystem, fmt::format("{} has {} bytes, more than the rendezvous store takes ({})",
                                                key, value.size(), kLongestStoreValue));
  }
  with_store(options_, [&] {
    std::unique_ptr<Connection> connection = take();
    connection->set(key, value);
    give_back(std::move(connection));
  });
}

std::optional<std::string> TcpStore::get(const std::string& key, Milliseconds timeout) {
  return with_store(options_, [&]() -> std::optional<std::string> {
    const auto deadline = StoreClock::now() + timeout;
    std::unique_ptr<Connection> connection = take();
    std::optional<std::string> value;
    if (timeout <= Milliseconds(0) ? connection->has(key) : connection->wait(key, deadline)) {
      value = connection->get(key);
    }
    give_back(std::move(connection));
    return value;
  });
}

int64_t TcpStore::add(const std::string& key, int64_t amount) {
  return with_store(options_, [&] {
    std::unique_ptr<Connection> connection = take();
    const int64_t sum = connection->add(key, amount);
    give_back(std::move(connection));
    return sum;
  });
}

}  // namespace mtf
