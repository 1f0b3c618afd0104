#include "engine/comm/security/gate.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "engine/base/check.h"

namespace mtf {
namespace {

using Clock = std::chrono::steady_clock;

/// The time from the connection to the complete proof.
constexpr auto kPatience = std::chrono::seconds(5);
/// The number of visitors; further ones displace others.
constexpr size_t kMostVisitors = 256;
/// The number of connections that one turn accepts, so that the other clients of the loop get their turn.
constexpr int kMostAccepted = 64;
constexpr auto kVisitorLook = std::chrono::milliseconds(500);

}  // namespace

Gate::Gate(Listening listening, Secret secret, std::string purpose)
    : listeners_(std::move(listening.sockets)), secret_(std::move(secret)), purpose_(std::move(purpose)) {
  MTF_CHECK(!listeners_.empty(), "a gate without a socket that listens: {}", listening.error);
}

void Gate::add_to(std::vector<pollfd>& polled) const {
  for (const Socket& listener : listeners_) polled.push_back({can_accept_ ? listener.get() : -1, POLLIN, 0});
  for (const Visitor& visitor : visitors_) polled.push_back({visitor.socket.get(), POLLIN, 0});
}

std::vector<Admitted> Gate::turn() {
  std::vector<Admitted> admitted;
  for (auto visitor = visitors_.begin(); visitor != visitors_.end();)
    visitor = hear(*visitor, admitted) ? std::next(visitor) : visitors_.erase(visitor);
  accept_all();
  return admitted;
}

std::optional<Admitted> Gate::next(Clock::time_point deadline) {
  std::vector<pollfd> polled;
  while (waiting_.empty()) {
    waiting_ = turn();
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    if (!waiting_.empty()) break;
    if (left.count() <= 0) return {};
    polled.clear();
    add_to(polled);
    ::poll(polled.data(), polled.size(), static_cast<int>(std::min(left, kVisitorLook).count()));
  }
  Admitted first = std::move(waiting_.front());
  waiting_.erase(waiting_.begin());
  return first;
}

void Gate::accept_all() {
  can_accept_ = true;
  for (const Socket& listener : listeners_) {
    for (int accepted = 0; accepted < kMostAccepted; ++accepted) {
      Opened opened = accept_at(listener);
      if (!opened.error.empty()) {
        can_accept_ = false;
        make_room();
      }
      if (!opened.socket.open()) break;
      const Challenge challenge = Challenge::make();
      // The send buffer of a new connection has room for it.
      if (::send(opened.socket.get(), &challenge, sizeof challenge, MSG_NOSIGNAL) != sizeof challenge)
        continue;
      if (visitors_.size() >= kMostVisitors) make_room();
      visitors_.push_back({.socket = std::move(opened.socket),
                           .host = std::move(opened.host),
                           .address = std::move(opened.address),
                           .challenge = challenge,
                           .since = Clock::now()});
    }
  }
}

/// Removes the oldest visitor of the host that has the most visitors, so that a host that opens many
/// connections displaces its own.
void Gate::make_room() {
  std::map<std::string, int> counts;
  for (const Visitor& visitor : visitors_) ++counts[visitor.host];
  const auto most = std::ranges::max_element(counts, {}, [](const auto& count) { return count.second; });
  if (most == counts.end()) return;
  visitors_.erase(std::ranges::find(visitors_, most->first, &Visitor::host));
}

bool Gate::hear(Visitor& visitor, std::vector<Admitted>& admitted) {
  char bytes[sizeof(Response)];
  const size_t missing = sizeof(Response) - visitor.received.size();
  const ssize_t got = ::recv(visitor.socket.get(), bytes, missing, 0);
  if (got == 0) return false;
  if (got < 0) {
    const bool is_silent = errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR;
    return is_silent && Clock::now() - visitor.since < kPatience;
  }
  visitor.received.append(bytes, static_cast<size_t>(got));
  if (!may_be_response(visitor.received)) {
    foreign_ = visitor.address;
    return false;
  }
  if (visitor.received.size() < sizeof(Response)) return Clock::now() - visitor.since < kPatience;
  Response response;
  std::memcpy(&response, visitor.received.data(), sizeof response);
  const Verdict verdict = judge(secret_, purpose_, visitor.challenge, response);
  const ssize_t sent = ::send(visitor.socket.get(), &verdict, sizeof verdict, MSG_NOSIGNAL);
  if (!is_admitted(verdict)) refused_ = visitor.address;
  if (is_admitted(verdict) && sent == sizeof verdict)
    admitted.push_back({std::move(visitor.socket), static_cast<int>(response.rank)});
  return false;
}

}  // namespace mtf
