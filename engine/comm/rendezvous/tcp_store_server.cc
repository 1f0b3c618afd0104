#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <list>
#include <set>
#include <thread>
#include <unordered_map>

#include "engine/comm/rendezvous/socket.h"
#include "engine/comm/rendezvous/tcp_store.h"
#include "engine/comm/rendezvous/tcp_store_protocol.h"
#include "engine/core/error.h"

namespace mtf {

namespace {

using ServerClock = std::chrono::steady_clock;

/// A request must be whole, and a client must have shown that it is one, within this time.
constexpr auto kRequestTime = std::chrono::seconds(5);
/// Further requests of a client wait while this much of its answers is not read yet.
constexpr size_t kMostUnread = size_t{1} << 20;

std::vector<std::string_view> take_keys(StoreReader& reader) {
  std::vector<std::string_view> keys;
  const auto count = reader.number<uint64_t>();
  if (count > kMostStoreKeys) reader.refuse();
  for (uint64_t i = 0; i < count && reader.good() && reader.complete(); ++i) {
    keys.push_back(reader.text(kLongestStoreKey));
  }
  return keys;
}

std::optional<int64_t> parse_sum(const std::string& text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

}  // namespace

class TcpStoreServer::Loop {
 public:
  explicit Loop(Socket listener)
      : port_(port_of(listener)), listener_(std::move(listener)), wake_(::eventfd(0, EFD_CLOEXEC)) {
    if (!wake_.open()) throw Error(ErrorKind::kSystem, "cannot serve the store: " + system_message(errno));
    thread_ = std::thread([this] { run(); });
  }
  ~Loop() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
    thread_.join();
  }
  int port() const { return port_; }

 private:
  struct Client {
    Socket socket;
    std::string in;   ///< of a request that is not whole
    std::string out;  ///< answers
    size_t sent = 0;  ///< of `out`
    bool is_valid = false;
    std::set<std::string, std::less<>> awaited;  ///< keys of a kWait that is not answered
    ServerClock::time_point heard = ServerClock::now();

    bool owes_a_request() const { return !is_valid || !in.empty(); }
  };
  enum class Outcome { kDone, kIncomplete, kBad };

  void run();
  void accept_all();
  /// False: the connection has ended or is no client's.
  bool serve(Client& client, int16_t events);
  bool read(Client& client);
  bool answer_all(Client& client);
  static bool send(Client& client);
  Outcome answer(Client& client, StoreReader& reader);
  void set(std::string_view key, std::string value);
  bool has_all(const std::vector<std::string_view>& keys) const;
  Outcome wait(Client& client, StoreReader& reader);
  Outcome add(Client& client, StoreReader& reader);

  const int port_;
  Socket listener_;
  Socket wake_;  ///< readable: stop
  std::list<Client> clients_;
  bool can_accept_ = true;  ///< false: no descriptor is free
  std::unordered_map<std::string, std::string> values_;
  std::thread thread_;
};

void TcpStoreServer::Loop::run() {
  std::vector<pollfd> polled;
  while (true) {
    polled = {{wake_.get(), POLLIN, 0}, {can_accept_ ? listener_.get() : -1, POLLIN, 0}};
    bool has_deadline = !can_accept_;
    for (const Client& client : clients_) {
      const bool may_ask = client.out.size() < kMostUnread;
      polled.push_back({client.socket.get(),
                        static_cast<int16_t>((may_ask ? POLLIN : 0) | (client.out.empty() ? 0 : POLLOUT)),
                        0});
      has_deadline = has_deadline || client.owes_a_request();
    }
    if (::poll(polled.data(), polled.size(), has_deadline ? 500 : -1) < 0) continue;  // EINTR
    if (polled[0].revents != 0) return;
    can_accept_ = true;
    const auto now = ServerClock::now();
    size_t index = 2;
    for (auto client = clients_.begin(); client != clients_.end(); ++index) {
      const int16_t events = polled[index].revents;
      const bool is_late = client->owes_a_request() && now - client->heard > kRequestTime;
      const bool goes_on = events != 0 ? serve(*client, events) : !is_late;
      client = goes_on ? std::next(client) : clients_.erase(client);
    }
    if (polled[1].revents != 0) accept_all();
  }
}

void TcpStoreServer::Loop::accept_all() {
  while (true) {
    Opened opened = accept_at(listener_);
    can_accept_ = opened.error.empty();
    if (!opened.socket.open()) return;
    clients_.emplace_back().socket = std::move(opened.socket);
  }
}

bool TcpStoreServer::Loop::serve(Client& client, int16_t events) {
  if (events & (POLLERR | POLLNVAL)) return false;
  if ((events & POLLOUT) && !send(client)) return false;
  if ((events & (POLLIN | POLLHUP)) && !read(client)) return false;
  return answer_all(client) && send(client);
}

bool TcpStoreServer::Loop::read(Client& client) {
  char bytes[size_t{64} << 10];
  const ssize_t got = ::recv(client.socket.get(), bytes, sizeof bytes, 0);
  if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
  if (got == 0) return false;
  // One that is no client may send as much as it likes: its first byte already ends the connection.
  if (client.is_valid || client.in.empty()) client.heard = ServerClock::now();
  client.in.append(bytes, static_cast<size_t>(got));
  return true;
}

bool TcpStoreServer::Loop::answer_all(Client& client) {
  size_t done = 0;
  Outcome outcome = Outcome::kDone;
  while (done < client.in.size() && client.out.size() < kMostUnread) {
    StoreReader reader(std::string_view(client.in).substr(done));
    outcome = answer(client, reader);
    if (outcome != Outcome::kDone) break;
    done += reader.size();
  }
  client.in.erase(0, done);
  if (client.in.empty()) client.in.shrink_to_fit();
  return outcome != Outcome::kBad;
}

bool TcpStoreServer::Loop::send(Client& client) {
  while (client.sent < client.out.size()) {
    const ssize_t sent = ::send(client.socket.get(), client.out.data() + client.sent,
                                client.out.size() - client.sent, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    client.sent += static_cast<size_t>(sent);
  }
  client.out = {};
  client.sent = 0;
  return true;
}

auto TcpStoreServer::Loop::answer(Client& client, StoreReader& reader) -> Outcome {
  const auto request = reader.number<StoreRequest>();
  if (!client.is_valid && request != StoreRequest::kValidate) return Outcome::kBad;
  const auto outcome = [&reader] {
    return !reader.good() ? Outcome::kBad : reader.complete() ? Outcome::kDone : Outcome::kIncomplete;
  };
  StoreWriter writer(client.out);
  switch (request) {
    case StoreRequest::kValidate: {
      const auto magic = reader.number<uint32_t>();
      if (reader.complete() && magic != kStoreMagic) return Outcome::kBad;
      client.is_valid = reader.complete();
      return outcome();
    }
    case StoreRequest::kPing: {
      const auto number = reader.number<uint32_t>();
      if (reader.complete()) writer.number(number);
      return outcome();
    }
    case StoreRequest::kSet: {
      const std::string_view key = reader.text(kLongestStoreKey);
      const std::string_view value = reader.text(kLongestStoreValue);
      if (outcome() == Outcome::kDone) set(key, std::string(value));
      return outcome();
    }
    case StoreRequest::kGet: {
      const auto found = values_.find(std::string(reader.text(kLongestStoreKey)));
      if (outcome() == Outcome::kDone) writer.text(found == values_.end() ? "" : found->second);
      return outcome();
    }
    case StoreRequest::kDelete: {
      const std::string key(reader.text(kLongestStoreKey));
      if (outcome() == Outcome::kDone) writer.number<int64_t>(static_cast<int64_t>(values_.erase(key)));
      return outcome();
    }
    case StoreRequest::kAdd:
      return add(client, reader);
    case StoreRequest::kCheck: {
      const std::vector<std::string_view> keys = take_keys(reader);
      if (outcome() == Outcome::kDone) writer.number(has_all(keys) ? kReady : kNotReady);
      return outcome();
    }
    case StoreRequest::kWait:
      return wait(client, reader);
    case StoreRequest::kCancelWait:
      client.awaited.clear();
      writer.number(kWaitCancelled);
      return Outcome::kDone;
  }
  return Outcome::kBad;
}

void TcpStoreServer::Loop::set(std::string_view key, std::string value) {
  values_[std::string(key)] = std::move(value);
  for (Client& client : clients_) {
    const auto found = client.awaited.find(key);
    if (found == client.awaited.end()) continue;
    client.awaited.erase(found);
    if (!client.awaited.empty()) continue;
    StoreWriter(client.out).number(kStopWaiting);
  }
}

bool TcpStoreServer::Loop::has_all(const std::vector<std::string_view>& keys) const {
  return std::ranges::all_of(keys,
                             [this](std::string_view key) { return values_.contains(std::string(key)); });
}

auto TcpStoreServer::Loop::wait(Client& client, StoreReader& reader) -> Outcome {
  const std::vector<std::string_view> keys = take_keys(reader);
  if (!reader.good()) return Outcome::kBad;
  if (!reader.complete()) return Outcome::kIncomplete;
  client.awaited.clear();
  for (const std::string_view key : keys) {
    if (!values_.contains(std::string(key))) client.awaited.emplace(key);
  }
  if (client.awaited.empty()) StoreWriter(client.out).number(kStopWaiting);
  return Outcome::kDone;
}

auto TcpStoreServer::Loop::add(Client& client, StoreReader& reader) -> Outcome {
  const std::string key(reader.text(kLongestStoreKey));
  const auto amount = reader.number<int64_t>();
  if (!reader.good()) return Outcome::kBad;
  if (!reader.complete()) return Outcome::kIncomplete;
  const auto found = values_.find(key);
  const std::optional<int64_t> before = found == values_.end() ? 0 : parse_sum(found->second);
  int64_t sum = 0;
  if (!before || __builtin_add_overflow(*before, amount, &sum)) return Outcome::kBad;
  set(key, std::to_string(sum));
  StoreWriter(client.out).number(sum);
  return Outcome::kDone;
}

TcpStoreServer::TcpStoreServer(int port, bool only_this_machine) {
  Opened listener = listen_at(port, only_this_machine);
  if (!listener.socket.open()) {
    throw Error(ErrorKind::kSystem,
                fmt::format("cannot serve the store at port {}: {}", port, listener.error));
  }
  loop_ = std::make_unique<Loop>(std::move(listener.socket));
}

TcpStoreServer::~TcpStoreServer() = default;

int TcpStoreServer::port() const { return loop_->port(); }

}  // namespace mtf
