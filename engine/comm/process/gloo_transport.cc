#include "engine/comm/process/gloo_transport.h"

#include <fmt/format.h>
#include <gloo/common/error.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <netdb.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <regex>
#include <thread>

#include "engine/base/check.h"
#include "engine/base/error.h"
#include "engine/base/periodic_thread.h"
#include "engine/comm/process/diagnosis.h"
#include "engine/comm/process/gloo_context.h"
#include "engine/comm/process/local_messages.h"
#include "engine/comm/process/peer_sockets.h"

namespace mtf {

namespace {

using TransportClock = std::chrono::steady_clock;

/// The interval at which a wait checks whether its peers still exist.
constexpr std::chrono::milliseconds kTick{100};
/// Longer than any wait, because Gloo closes all connections if a wait times out.
constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);
/// The tag of receives to which nothing is ever sent.
constexpr uint64_t kProbeTag = uint64_t{0x41} << 56;
/// The tags of messages by which processes find out who is on the same machine.
constexpr uint64_t kCardTag = uint64_t{0x42} << 56, kOpenedTag = kCardTag + 1;

/// Gloo's call to write to a socket raises SIGPIPE if the peer is gone.
void block_broken_pipe_signal() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGPIPE);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

/// Returns Gloo's message without "[file:line] " and without the peer's "[address]:port".
std::string reason_of(const std::exception& error) {
  static const std::regex places(R"(^\[[^\]]*\] | \[[^\]]*\](:\d+)?)");
  return std::regex_replace(error.what(), places, "");
}

/// Returns " in all_reduce x over data (collective 12)"; empty between collectives.
std::string in_collective(const FlightRecord& record) {
  const std::optional<FlightRecord::Current> current = record.current();
  return current ? fmt::format(" in {} (collective {})", current->name, current->sequence) : "";
}

/// The record of the last transport that was created, for exceptions in Gloo's threads.
std::atomic<const FlightRecord*> record_at_terminate = nullptr;
std::terminate_handler terminate_before = nullptr;

[[noreturn]] void terminate_with_record() {
  try {
    if (const std::exception_ptr error = std::current_exception()) std::rethrow_exception(error);
  } catch (const gloo::EnforceNotMet& error) {
    const FlightRecord* record = record_at_terminate;
    const std::string text = fmt::format("the connection between the processes failed{}: {}\n",
                                         record ? in_collective(*record) : "", error.what());
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text.data(), text.size());
    _exit(75);
  } catch (...) {
  }
  terminate_before();
  std::abort();
}

void handle_terminate(const FlightRecord& record) {
  static std::once_flag once;
  std::call_once(once, [] { terminate_before = std::set_terminate(terminate_with_record); });
  record_at_terminate = &record;
}

class GlooBuffer;

class GlooTransport final : public Transport {
 public:
  explicit GlooTransport(const GlooOptions& options);
  ~GlooTransport() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::unique_ptr<MessageBuffer> buffer(std::span<std::byte> memory) override;
  void check() override;
  void abort(const std::string& reason) override;

 private:
  friend class GlooBuffer;

  void connect(const GlooOptions& options);
  /// Finds out which peers are on the same machine; none, if this process or the peer does not want it.
  void open_local(const GlooOptions& options);
  /// Says which process of this machine cannot be reached so.
  void report_closed(const GlooOptions& options) const;
  /// Sends element `peer` of `out` to each peer, and receives that of `in` from it.
  template <class T>
  void exchange(uint64_t tag, std::vector<T>& out, std::vector<T>& in);
  /// Returns why the connection to a peer was closed, if that is known.
  std::optional<std::string> loss(int peer);
  void wake_all();
  void add(GlooBuffer* buffer);
  void remove(GlooBuffer* buffer);

  void throw_if_aborted() const;
  void throw_if_lost(const std::vector<int>& peers);
  /// Called after an operation with one of `peers` has failed.
  [[noreturn]] void throw_lost(const std::vector<int>& peers, const std::exception& error);
  [[noreturn]] void throw_timeout(const std::vector<int>& peers, bool sends);

  const int rank_, size_;
  const Milliseconds timeout_;
  FlightRecord& record_;
  const std::vector<std::string> peers_;
  std::shared_ptr<gloo::transport::Device> device_;
  std::shared_ptr<gloo::transport::Context> context_;

  std::unique_ptr<LocalMessages> local_;  ///< null: none of the peers can be reached so
  std::vector<bool> is_local_;            ///< for each peer

  /// For each peer, a receive that only ends when the connection does.
  std::mutex probes_mutex_;
  std::vector<std::byte> probed_;
  std::vector<std::unique_ptr<gloo::transport::UnboundBuffer>> probes_;
  std::vector<std::string> losses_;  ///< why each connection was lost; empty: it was not

  std::mutex buffers_mutex_;
  std::vector<GlooBuffer*> buffers_;

  mutable std::mutex abort_mutex_;
  std::atomic<bool> aborted_ = false;
  std::string abort_reason_;

  std::optional<PeriodicThread> watch_;  ///< runs once all are connected
};

/// The sends, or the receives, of a buffer that have not ended. Gloo reports how many have ended, but if
/// several end at once it names only one of their peers: `peers` are those that may be missing.
struct Outstanding {
  int64_t count = 0;
  std::vector<int> peers;

  Outstanding() { peers.reserve(64); }
  void add(int peer) {
    ++count;
    peers.push_back(peer);
  }
  void end(int peer) {
    if (--count == 0)
      peers.clear();
    else if (const auto found = std::ranges::find(peers, peer); found != peers.end())
      peers.erase(found);
  }
};

class GlooBuffer final : public MessageBuffer {
 public:
  GlooBuffer(GlooTransport& transport, std::span<std::byte> memory)
      : transport_(transport),
        memory_(memory),
        gloo_(transport.context_->createUnboundBuffer(memory.data(), memory.size())) {
    transport_.add(this);
  }
  ~GlooBuffer() override {
    if (local_sends_.count + local_receives_.count > 0) transport_.local_->forget(ends_);
    transport_.remove(this);
  }

  void send(int peer, uint64_t tag, size_t offset, size_t bytes) override {
    if (is_local(peer))
      post(local_sends_, peer,
           [&] { transport_.local_->send(ends_, peer, tag, memory_.data() + offset, bytes); });
    else
      post(sends_, peer, [&] { gloo_->send(peer, tag, offset, bytes); });
  }
  void receive(int peer, uint64_t tag, size_t offset, size_t bytes) override {
    if (is_local(peer))
      post(local_receives_, peer,
           [&] { transport_.local_->receive(ends_, peer, tag, memory_.data() + offset, bytes); });
    else
      post(receives_, peer, [&] { gloo_->recv(peer, tag, offset, bytes); });
  }
  void wait_sent() override {
    if (local_sends_.count > 0)
      wait(local_sends_, true, [&](int* peer) { return wait_local(LocalMessages::Way::kSent, peer); });
    else
      wait(sends_, true, [&](int* peer) { return gloo_->waitSend(peer, kForever); });
  }
  void wait_received() override {
    if (local_receives_.count > 0)
      wait(local_receives_, false,
           [&](int* peer) { return wait_local(LocalMessages::Way::kReceived, peer); });
    else
      wait(receives_, false, [&](int* peer) { return gloo_->waitRecv(peer, kForever); });
  }

  /// Lets waits check their peers. If no wait is active, the next one checks once more than necessary.
  void wake() {
    gloo_->abortWaitSend();
    gloo_->abortWaitRecv();
  }

 private:
  bool is_local(int peer) const {
    return transport_.local_ && transport_.is_local_[static_cast<size_t>(peer)];
  }

  bool wait_local(LocalMessages::Way way, int* peer) {
    *peer = transport_.local_->wait(ends_, way);
    return *peer >= 0;
  }

  template <class Operation>
  void post(Outstanding& outstanding, int peer, const Operation& operation) {
    thread_local const bool blocked = (block_broken_pipe_signal(), true);
    MTF_CHECK(blocked && peer >= 0 && peer < transport_.size_ && peer != transport_.rank_, "peer {}", peer);
    transport_.throw_if_aborted();
    try {
      operation();
    } catch (const std::exception& error) {
      transport_.throw_lost({peer}, error);
    }
    outstanding.add(peer);
  }

  template <class WaitOnce>
  void wait(Outstanding& outstanding, bool sends, const WaitOnce& wait_once) {
    MTF_CHECK(outstanding.count > 0, "a wait for a message that is not posted");
    const TransportClock::time_point begun = TransportClock::now();
    bool recorded = false;
    for (;;) {
      transport_.throw_if_aborted();
      int peer = -1;
      try {
        if (wait_once(&peer)) {
          outstanding.end(peer);
          break;
        }
      } catch (const std::exception& error) {
        transport_.throw_lost(outstanding.peers, error);
      }
      transport_.throw_if_lost(outstanding.peers);
      if (!recorded) transport_.record_.waits(outstanding.peers.front());
      recorded = true;
      if (TransportClock::now() - begun > transport_.timeout_)
        transport_.throw_timeout(outstanding.peers, sends);
    }
    if (recorded) transport_.record_.waits(-1);
  }

  GlooTransport& transport_;
  const std::span<std::byte> memory_;
  std::unique_ptr<gloo::transport::UnboundBuffer> gloo_;
  LocalMessages::Ends ends_;
  Outstanding sends_, receives_, local_sends_, local_receives_;
};

GlooTransport::GlooTransport(const GlooOptions& options)
    : rank_(options.rank),
      size_(options.size),
      timeout_(options.collective_timeout),
      record_(options.record),
      peers_(options.peers),
      is_local_(static_cast<size_t>(options.size)),
      probed_(static_cast<size_t>(options.size)),
      probes_(static_cast<size_t>(options.size)),
      losses_(static_cast<size_t>(options.size)) {
  MTF_CHECK(peers_.size() == static_cast<size_t>(size_), "{} names of {} ranks", peers_.size(), size_);
  sigset_t signals;
  pthread_sigmask(SIG_BLOCK, nullptr, &signals);
  block_broken_pipe_signal();  // for Gloo's thread, which inherits it
  try {
    // Pairs listen at this address until they get their sockets: it must not be reachable from the network.
    device_ = gloo::transport::tcp::CreateDevice(gloo::transport::tcp::attr("127.0.0.1"));
  } catch (const std::exception& error) {
    pthread_sigmask(SIG_SETMASK, &signals, nullptr);
    throw Error(ErrorKind::kSystem,
                fmt::format("Gloo cannot use the loopback address 127.0.0.1: {}", reason_of(error)));
  }
  pthread_sigmask(SIG_SETMASK, &signals, nullptr);
  connect(options);
  handle_terminate(record_);
  watch_.emplace(kTick, [this] {
    for (int peer = 0; peer < size_; ++peer) loss(peer);
    wake_all();
    return true;
  });
  open_local(options);
}

GlooTransport::~GlooTransport() {
  watch_.reset();
  const FlightRecord* own = &record_;
  record_at_terminate.compare_exchange_strong(own, nullptr);
}

void GlooTransport::connect(const GlooOptions& options) {
  context_ = context_of_sockets(device_, rank_, connect_peers(options), options.connect_timeout);
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    probes_[static_cast<size_t>(peer)] =
        context_->createUnboundBuffer(&probed_[static_cast<size_t>(peer)], 1);
    try {
      context_->getPair(peer)->recv(probes_[static_cast<size_t>(peer)].get(), kProbeTag, 0, 1);
    } catch (const std::exception& error) {  // the connection has already ended
      throw_lost({peer}, error);
    }
  }
}

template <class T>
void GlooTransport::exchange(uint64_t tag, std::vector<T>& out, std::vector<T>& in) {
  const std::unique_ptr<MessageBuffer> sent = buffer(std::as_writable_bytes(std::span(out))),
                                       received = buffer(std::as_writable_bytes(std::span(in)));
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const size_t offset = static_cast<size_t>(peer) * sizeof(T);
    received->receive(peer, tag, offset, sizeof(T));
    sent->send(peer, tag, offset, sizeof(T));
  }
  for (int peer = 1; peer < size_; ++peer) received->wait_received();
  for (int peer = 1; peer < size_; ++peer) sent->wait_sent();
}

void GlooTransport::open_local(const GlooOptions& options) {
  std::unique_ptr<LocalMessages> local = make_local_messages(rank_, size_);
  const auto size = static_cast<size_t>(size_);
  std::vector<LocalMessages::Card> own(size), cards(size);
  if (options.local) std::ranges::fill(own, local->card());
  exchange(kCardTag, own, cards);
  std::vector<uint8_t> opened(size), opened_there(size);
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_ && options.local)
      opened[static_cast<size_t>(peer)] = local->open(peer, cards[static_cast<size_t>(peer)]);
  exchange(kOpenedTag, opened, opened_there);
  for (size_t peer = 0; peer < size; ++peer) is_local_[peer] = opened[peer] != 0 && opened_there[peer] != 0;
  if (options.local && options.log) report_closed(options);
  const auto peers = std::ranges::count(is_local_, true);
  if (peers == 0) return;
  if (peers < size_ - 1) local->move_in_background();
  const std::lock_guard lock(buffers_mutex_);
  local_ = std::move(local);
}

void GlooTransport::report_closed(const GlooOptions& options) const {
  const std::vector<std::string>& machines = options.machines;
  const auto rank = static_cast<size_t>(rank_);
  for (size_t peer = 0; peer < machines.size(); ++peer) {
    if (machines[peer].empty() || machines[peer] != machines[rank] || is_local_[peer]) continue;
    if (peer < rank) return;  // it has said so
    if (peer == rank) continue;
    options.log(
        fmt::format("{} and {} are on one machine, but may not read each other's memory (another user, a "
                    "container, or the security module Yama): their messages go through sockets",
                    peers_[rank], peers_[peer]));
    return;
  }
}

std::optional<std::string> GlooTransport::loss(int peer) {
  const auto at = static_cast<size_t>(peer);
  const std::lock_guard lock(probes_mutex_);
  if (losses_[at].empty() && probes_[at]) {
    probes_[at]->abortWaitRecv();  // makes the wait return at once
    try {
      probes_[at]->waitRecv(nullptr, kForever);
    } catch (const std::exception& error) {
      losses_[at] = reason_of(error);
    }
  }
  return losses_[at].empty() ? std::nullopt : std::optional(losses_[at]);
}

void GlooTransport::wake_all() {
  const std::lock_guard lock(buffers_mutex_);
  for (GlooBuffer* buffer : buffers_) buffer->wake();
  if (local_) local_->wake();
}

void GlooTransport::add(GlooBuffer* buffer) {
  const std::lock_guard lock(buffers_mutex_);
  buffers_.push_back(buffer);
}

void GlooTransport::remove(GlooBuffer* buffer) {
  const std::lock_guard lock(buffers_mutex_);
  std::erase(buffers_, buffer);
}

std::unique_ptr<MessageBuffer> GlooTransport::buffer(std::span<std::byte> memory) {
  return std::make_unique<GlooBuffer>(*this, memory);
}

void GlooTransport::abort(const std::string& reason) {
  {
    const std::lock_guard lock(abort_mutex_);
    if (!aborted_) abort_reason_ = reason;
    aborted_ = true;
  }
  wake_all();
}

void GlooTransport::check() {
  throw_if_aborted();
  std::vector<int> others;
  for (int peer = 0; peer < size_; ++peer)
    if (peer != rank_) others.push_back(peer);
  throw_if_lost(others);
}

void GlooTransport::throw_if_aborted() const {
  if (!aborted_) return;
  const std::lock_guard lock(abort_mutex_);
  throw Error(ErrorKind::kPeerLost, abort_reason_);
}

void GlooTransport::throw_if_lost(const std::vector<int>& peers) {
  for (const int peer : peers)
    if (const std::optional<std::string> reason = loss(peer))
      throw Error(ErrorKind::kPeerLost,
                  lost_connection_text(peers_[static_cast<size_t>(peer)], in_collective(record_), *reason));
}

void GlooTransport::throw_lost(const std::vector<int>& peers, const std::exception& error) {
  // When a connection is lost, Gloo ends its operations one after the other; the probe may be the last one.
  for (int attempt = 0; attempt < 100; ++attempt) {
    throw_if_lost(peers);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  throw Error(ErrorKind::kPeerLost, lost_connection_text(peers_[static_cast<size_t>(peers.front())],
                                                         in_collective(record_), reason_of(error)));
}

void GlooTransport::throw_timeout(const std::vector<int>& peers, bool sends) {
  std::vector<std::string> names;
  for (const int peer : peers)
    if (const std::string& name = peers_[static_cast<size_t>(peer)];
        std::ranges::find(names, name) == names.end())
      names.push_back(name);
  throw Error(ErrorKind::kPeerLost, no_answer_text(fmt::format("{}", fmt::join(names, " or ")), sends,
                                                   timeout_, in_collective(record_)));
}

void require_ip_address(const std::string& address) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST;
  addrinfo* found = nullptr;
  if (getaddrinfo(address.c_str(), nullptr, &hints, &found) != 0)
    throw Error(ErrorKind::kSystem, fmt::format("`{}` is no IP address", address));
  freeaddrinfo(found);
}

}  // namespace

std::unique_ptr<Transport> connect_gloo(const GlooOptions& options) {
  require_ip_address(options.address);
  return std::make_unique<GlooTransport>(options);
}

}  // namespace mtf

#ifdef __SANITIZE_THREAD__
// Gloo is not instrumented, so that ThreadSanitizer does not see the order that its atomic operations
// establish.
extern "C" const char* __tsan_default_suppressions();
extern "C" const char* __tsan_default_suppressions() { return "race:libgloo.so"; }
#endif
