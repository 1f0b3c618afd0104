#include "engine/comm/process/peer_sockets.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>

#include "engine/base/error.h"
#include "engine/comm/security/gate.h"

namespace mtf {

namespace {

using PeerClock = std::chrono::steady_clock;

/// The interval at which a wait checks whether the run has failed meanwhile.
constexpr Milliseconds kPeerLook(200);
/// The time for one attempt to be admitted: a gate that is crowded by strangers may drop a visitor.
constexpr Milliseconds kTry(5000);
constexpr Milliseconds kBetweenPeerTries(20);

std::string address_key(int rank) { return fmt::format("gloo/{}", rank); }

/// Returns the purpose of the connections from other processes to `server`.
std::string purpose(const GlooOptions& options, int server) {
  return fmt::format("data, rank {}, {}", server, options.session);
}

/// Admits the processes of higher rank, from its creation on.
class PeerGate {
 public:
  explicit PeerGate(const GlooOptions& options)
      : rank_(options.rank),
        gate_(listen_for_members({options.address, 0}, options.access, "the other processes"),
              options.access.secret, purpose(options, options.rank)),
        sockets_(static_cast<size_t>(options.size)),
        thread_([this](const std::stop_token& stop) {
          while (!stop.stop_requested())
            if (std::optional<Admitted> peer = gate_.next(PeerClock::now() + kPeerLook)) take(*peer);
        }) {}

  int port() const { return gate_.port(); }
  /// Returns the socket of a peer of higher rank; a closed socket if the peer has not connected within
  /// `wait`.
  Socket wait_for(int peer, Milliseconds wait) {
    std::unique_lock lock(mutex_);
    Socket& socket = sockets_[static_cast<size_t>(peer)];
    changed_.wait_for(lock, wait, [&] { return socket.open(); });
    return std::move(socket);
  }

 private:
  void take(Admitted& peer) {
    if (peer.rank <= rank_ || peer.rank >= static_cast<int>(sockets_.size())) return;
    const std::lock_guard lock(mutex_);
    sockets_[static_cast<size_t>(peer.rank)] = std::move(peer.socket);  // replaces earlier attempts
    changed_.notify_all();
  }

  const int rank_;
  Gate gate_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Socket> sockets_;
  std::jthread thread_;
};

class PeerConnector {
 public:
  explicit PeerConnector(const GlooOptions& options)
      : options_(options), deadline_(PeerClock::now() + options.connect_timeout) {}

  std::vector<Socket> run() {
    PeerGate gate(options_);
    options_.store.set(address_key(options_.rank), to_string(HostPort{options_.address, gate.port()}));
    std::vector<Socket> sockets(static_cast<size_t>(options_.size));
    for (int peer = 0; peer < options_.size; ++peer) {
      if (peer == options_.rank) continue;
      const std::string address = options_.await(address_key(peer), peer);
      sockets[static_cast<size_t>(peer)] = peer < options_.rank ? connect(peer, address) : accept(gate, peer);
    }
    return sockets;
  }

 private:
  [[noreturn]] void fail(int peer, const std::string& reason) const {
    throw Error(ErrorKind::kPeerLost,
                fmt::format("{} cannot connect to {}: {}", name(options_.rank), name(peer), reason));
  }
  const std::string& name(int rank) const { return options_.peers[static_cast<size_t>(rank)]; }

  Socket accept(PeerGate& gate, int peer) const {
    while (PeerClock::now() < deadline_) {
      Socket socket = gate.wait_for(peer, kPeerLook);
      if (socket.open()) return socket;
      options_.check();
    }
    throw Error(ErrorKind::kPeerLost,
                fmt::format("{} has not connected to {} within {:g} s", name(peer), name(options_.rank),
                            std::chrono::duration<double>(options_.connect_timeout).count()));
  }

  Socket connect(int peer, const std::string& address) const {
    using Outcome = Authentication::Outcome;
    const std::optional<HostPort> there = parse_host_port(address);
    if (!there) fail(peer, fmt::format("`{}` is no address", address));
    options_.access.require(there->host, *there);
    while (true) {
      Opened opened = connect_to(there->host, there->port, deadline_);
      if (!opened.socket.open()) fail(peer, fmt::format("{}: {}", address, opened.error));
      const Authentication result =
          authenticate(opened.socket, options_.access.secret, purpose(options_, peer),
                       static_cast<uint32_t>(options_.rank), std::min(deadline_, PeerClock::now() + kTry));
      if (result.outcome == Outcome::kDone) return std::move(opened.socket);
      if (result.outcome != Outcome::kLost || PeerClock::now() >= deadline_)
        fail(peer, fmt::format("{}: {}", address, result.reason));
      options_.check();
      std::this_thread::sleep_for(kBetweenPeerTries);
    }
  }

  const GlooOptions& options_;
  const PeerClock::time_point deadline_;
};

}  // namespace

std::vector<Socket> connect_peers(const GlooOptions& options) { return PeerConnector(options).run(); }

}  // namespace mtf
