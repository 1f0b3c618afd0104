#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <list>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>

#include "engine/base/error.h"
#include "engine/base/parse_number.h"
#include "engine/comm/rendezvous/tcp_store.h"
#include "engine/comm/rendezvous/tcp_store_protocol.h"
#include "engine/comm/security/gate.h"

namespace mtf {

namespace {

using ServerClock = std::chrono::steady_clock;

/// A request must be complete within this time plus the time for its bytes at kSlowestRate.
constexpr auto kRequestTime = std::chrono::seconds(5);
/// The interval at which deadlines are checked, if there are any.
constexpr int kDeadlineLook = 500;  // milliseconds
/// If this much of a client's answers is not read yet, its further requests wait.
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

}  // namespace

class TcpStoreServer::Loop {
 public:
  Loop(Listening listening, const Secret& secret, size_t most_bytes)
      : gate_(std::move(listening), secret, kStorePurpose),
        most_bytes_(most_bytes),
        wake_(::eventfd(0, EFD_CLOEXEC)) {
    if (!wake_.open()) throw Error(ErrorKind::kSystem, "cannot serve the store: " + system_message(errno));
    thread_ = std::thread([this] { run(); });
  }
  ~Loop() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_.get(), &one, sizeof one);
    thread_.join();
  }
  int port() const { return gate_.port(); }
  std::string refused() {
    const std::lock_guard lock(refused_mutex_);
    return refused_;
  }

 private:
  struct Client {
    Socket socket;
    std::string in;                              ///< bytes of a request that is not complete
    std::string out;                             ///< answers
    size_t sent = 0;                             ///< number of bytes of `out` that were sent
    std::set<std::string, std::less<>> awaited;  ///< keys of a kWait that has no answer yet
    ServerClock::time_point begun{};             ///< when the first byte of `in` arrived

    bool is_late(ServerClock::time_point now) const {
      return !in.empty() && out.size() < kMostUnread &&
             now - begun > kRequestTime + std::chrono::seconds(in.size() / kSlowestRate);
    }
  };
  enum class Outcome { kDone, kIncomplete, kBad };

  void run();
  void admit_all();
  /// Returns the number of bytes of all values and messages.
  size_t held() const;
  /// Returns false if the connection has ended or the client has sent an invalid request.
  bool serve(Client& client, int16_t events);
  bool read(Client& client);
  bool answer_all(Client& client);
  static bool send(Client& client);
  Outcome answer(Client& client, StoreReader& reader);
  void set(std::string_view key, std::string value);
  bool has_all(const std::vector<std::string_view>& keys) const;
  Outcome wait(Client& client, StoreReader& reader);
  Outcome add(Client& client, StoreReader& reader);

  Gate gate_;
  const size_t most_bytes_;
  Socket wake_;  ///< readable: the thread must stop
  std::list<Client> clients_;
  std::unordered_map<std::string, std::string> values_;
  size_t value_bytes_ = 0;  ///< size of values_, including their keys
  std::mutex refused_mutex_;
  std::string refused_;
  std::thread thread_;
};

void TcpStoreServer::Loop::run() {
  std::vector<pollfd> polled;
  while (true) {
    polled = {{wake_.get(), POLLIN, 0}};
    bool has_deadline = gate_.is_busy();
    for (const Client& client : clients_) {
      const bool may_ask = client.out.size() < kMostUnread;
      polled.push_back({client.socket.get(),
                        static_cast<int16_t>((may_ask ? POLLIN : 0) | (client.out.empty() ? 0 : POLLOUT)),
                        0});
      has_deadline = has_deadline || !client.in.empty();
    }
    gate_.add_to(polled);
    if (::poll(polled.data(), polled.size(), has_deadline ? kDeadlineLook : -1) < 0) continue;  // EINTR
    if (polled[0].revents != 0) return;
    const auto now = ServerClock::now();
    size_t index = 1;
    for (auto client = clients_.begin(); client != clients_.end(); ++index) {
      const int16_t events = polled[index].revents;
      const bool goes_on = !client->is_late(now) && (events == 0 || serve(*client, events));
      client = goes_on ? std::next(client) : clients_.erase(client);
    }
    admit_all();
  }
}

void TcpStoreServer::Loop::admit_all() {
  for (Admitted& member : gate_.turn())
    if (clients_.size() < kMostStoreClients) clients_.emplace_back().socket = std::move(member.socket);
  const std::lock_guard lock(refused_mutex_);
  refused_ = gate_.refused();
}

size_t TcpStoreServer::Loop::held() const {
  size_t bytes = value_bytes_;
  for (const Client& client : clients_) bytes += client.in.size() + client.out.size();
  return bytes;
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
  if (client.in.empty()) client.begun = ServerClock::now();
  client.in.append(bytes, static_cast<size_t>(got));
  return client.in.size() <= sizeof bytes || held() <= most_bytes_;
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
  if (done > 0) client.begun = ServerClock::now();  // the rest belongs to another request
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
  const auto outcome = [&reader] {
    return !reader.good() ? Outcome::kBad : reader.complete() ? Outcome::kDone : Outcome::kIncomplete;
  };
  StoreWriter writer(client.out);
  switch (request) {
    case StoreRequest::kSet: {
      const std::string_view key = reader.text(kLongestStoreKey);
      const std::string_view value = reader.text(kLongestStoreValue);
      if (outcome() != Outcome::kDone) return outcome();
      if (held() > most_bytes_) return Outcome::kBad;
      set(key, std::string(value));
      return Outcome::kDone;
    }
    case StoreRequest::kGet: {
      const auto found = values_.find(std::string(reader.text(kLongestStoreKey)));
      if (outcome() == Outcome::kDone) writer.text(found == values_.end() ? "" : found->second);
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
    case StoreRequest::kValidate:
    case StoreRequest::kPing:
      break;
  }
  return Outcome::kBad;
}

void TcpStoreServer::Loop::set(std::string_view key, std::string value) {
  const auto [kept, is_new] = values_.try_emplace(std::string(key));
  value_bytes_ += (is_new ? key.size() : 0) + value.size() - kept->second.size();
  kept->second = std::move(value);
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
  const std::optional<int64_t> before = found == values_.end() ? 0 : parse_number<int64_t>(found->second);
  int64_t sum = 0;
  if (!before || __builtin_add_overflow(*before, amount, &sum)) return Outcome::kBad;
  set(key, std::to_string(sum));
  StoreWriter(client.out).number(sum);
  return Outcome::kDone;
}

TcpStoreServer::TcpStoreServer(TcpStoreServerOptions options)
    : loop_(std::make_unique<Loop>(
          listen_for_members(options.address, options.access, "the store", options.patience),
          options.access.secret, options.most_bytes)) {}

TcpStoreServer::~TcpStoreServer() = default;

int TcpStoreServer::port() const { return loop_->port(); }

std::string TcpStoreServer::refused() const { return loop_->refused(); }

}  // namespace mtf
