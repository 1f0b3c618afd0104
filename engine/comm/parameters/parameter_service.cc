#include "engine/comm/parameters/parameter_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/base/exception.h"
#include "engine/comm/parameters/service_errors.h"

namespace mtf {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kHelloTimeout{5'000};
/// The time for workers to receive the reason of a failure, or the end of the run.
constexpr milliseconds kFarewell{2'000};
/// The time for a worker that has died to be noticed, when it comes again.
constexpr milliseconds kDeparture = FramedSocket::kProbeTime + std::chrono::seconds(2);
/// The interval at which the service checks for signals and for missing workers.
constexpr milliseconds kLook{100};
/// The minimum time between two lines of the log about visitors that were not admitted.
constexpr milliseconds kBetweenLines{5'000};
constexpr uint64_t kMostHelloBytes = 1 << 16;
/// The number of connections that may not have sent kHello yet; further ones are closed.
constexpr int kMostStrangers = 100;

/// The message with which a worker introduces itself.
struct WorkerHello {
  int worker = -1;
  ParameterFields fields;
};

WorkerHello parse_worker_hello(const std::string& text) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    return {json.at("worker").get<int>(), json.at("fields").get<ParameterFields>()};
  } catch (const nlohmann::json::exception&) {
    refuse_request("a worker did not introduce itself in the words of this version");
  }
}

/// Describes the first field that differs; empty if none does.
std::string different_field(const ParameterFields& theirs, const ParameterFields& ours, int server) {
  for (size_t i = 0; i < std::max(theirs.size(), ours.size()); ++i) {
    static const std::pair<std::string, std::string> none;
    const auto& their = i < theirs.size() ? theirs[i] : none;
    const auto& our = i < ours.size() ? ours[i] : none;
    if (their == our) continue;
    const std::string& name = our.first.empty() ? their.first : our.first;
    return fmt::format("in {}: {}, at parameter server {} {}", name,
                       their.second.empty() ? "nothing" : their.second, server,
                       our.second.empty() ? "nothing" : our.second);
  }
  return {};
}

}  // namespace

ParameterService::ParameterService(FramedListener listener, ParameterStorage& storage,
                                   ParameterServiceOptions options)
    : listener_(std::move(listener)),
      storage_(storage),
      options_(std::move(options)),
      addresses_(static_cast<size_t>(options_.workers)),
      dealer_(options_.batch_size, options_.max_staleness) {
  parts_.resize(storage_.gradients());
  for (int worker = 0; worker < options_.workers; ++worker) {
    for (const PushedPart& part : storage_.pushed_parts(worker)) ++parts_[part.gradient];
  }
  begin_sums();
}

ParameterService::~ParameterService() {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_.emplace(ErrorKind::kPeerLost, "the parameter server ends");
    for (Peer& peer : peers_) peer.socket.shut_down();
  }
  changed_.notify_all();
  for (Peer& peer : peers_) peer.thread.join();
}

bool ParameterService::serve() {
  const Clock::time_point start = Clock::now();
  std::optional<Clock::time_point> end;
  for (;;) {
    std::optional<FramedSocket> connected = listener_.accept(kLook, options_.collective_timeout);
    tell_refused();
    Lock lock(mutex_);
    const auto strangers = std::ranges::count_if(peers_, [](const Peer& peer) { return peer.worker < 0; });
    if (connected && strangers < kMostStrangers) {
      Peer& peer = peers_.emplace_back(std::move(*connected));
      peer.thread = std::thread([this, &peer] { talk(peer); });
    }
    collect_threads();
    if (stops_unused()) return false;
    if (const std::string missing = missing_workers();
        !missing.empty() && Clock::now() - start > options_.connect_timeout && !failure_) {
      fail(Error(ErrorKind::kPeerLost, fmt::format("{} did not connect within {:.3g} s", missing,
                                                   seconds_of(options_.connect_timeout))));
    }
    if (is_over(end)) break;
  }
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
  return true;
}

void ParameterService::tell_refused() {
  const Gate& gate = listener_.gate();
  if ((gate.refused() == refused_ && gate.foreign() == foreign_) || Clock::now() < told_ + kBetweenLines)
    return;
  told_ = Clock::now();
  if (gate.refused() != refused_)
    options_.log(fmt::format("turned {} away: it has another secret", gate.refused()));
  if (gate.foreign() != foreign_)
    options_.log(fmt::format("turned {} away: it speaks another protocol", gate.foreign()));
  refused_ = gate.refused();
  foreign_ = gate.foreign();
}

/// True if the run is over, and its workers have learned that or had the time to. `end` is the end of that
/// time.
bool ParameterService::is_over(std::optional<Clock::time_point>& end) {
  if (!failure_ && !ended_) return false;
  if (!end) end = Clock::now() + kFarewell;
  // In asynchronous training, workers that connect late learn that there is nothing to do, or why.
  const bool all_came = std::ranges::none_of(addresses_, &std::string::empty);
  const bool all_left = options_.asynchronous ? all_came : failure_ || left_ == options_.workers;
  const bool alone = std::ranges::none_of(
      peers_, [&](const Peer& peer) { return peer.worker >= 0 || options_.asynchronous || failure_; });
  return (alone && all_left) || Clock::now() > *end;
}

/// True if a signal asks a server to stop that no run has begun to use. Otherwise the signal is passed on to
/// the workers, which save and leave.
bool ParameterService::stops_unused() {
  if (!options_.stop_signal || state_.stop_signal != 0 || failure_ || ended_) return false;
  const int signal = options_.stop_signal();
  if (signal == 0) return false;
  if (addresses_[0].empty()) return true;
  state_.stop_signal = signal;
  options_.log("a signal asks it to stop: the workers are told, and save first");
  return false;
}

void ParameterService::collect_threads() {
  for (auto peer = peers_.begin(); peer != peers_.end();) {
    if (!peer->is_done) {
      ++peer;
      continue;
    }
    peer->thread.join();
    peer = peers_.erase(peer);
  }
}

/// Returns the missing workers without which the run cannot begin.
std::string ParameterService::missing_workers() {
  std::vector<int> missing;
  for (int worker = 0; worker < (options_.asynchronous ? 1 : options_.workers); ++worker) {
    if (addresses_[worker].empty()) missing.push_back(worker);
  }
  return missing.empty()
             ? ""
             : fmt::format("worker{} {}", missing.size() == 1 ? "" : "s", fmt::join(missing, ", "));
}

ParameterService::Peer* ParameterService::find(int worker) {
  for (Peer& peer : peers_) {
    if (peer.worker == worker && !peer.is_done) return &peer;
  }
  return nullptr;
}

void ParameterService::fail(const Error& error) {
  if (failure_ || ended_) return;
  failure_ = error;
  changed_.notify_all();
}

/// Runs in the thread of a connection.
void ParameterService::talk(Peer& peer) {
  std::string reason;
  try {
    if (options_.prepare_thread) options_.prepare_thread();
    greet(peer);
    while (answer(peer, peer.socket.receive())) continue;
  } catch (const std::exception& thrown) {
    const Error error = as_error(thrown, "mtf-train");
    reason = error.what();
    ErrorKind kind = error.kind();
    {
      const std::lock_guard lock(mutex_);
      // What no request explains, such as a lack of memory, is a failure of the server itself.
      if (dynamic_cast<const Error*>(&thrown) == nullptr) fail(error);
      if (!peer.given_up.empty()) {
        reason = peer.given_up;
        kind = ErrorKind::kPeerLost;
      }
    }
    try {
      peer.socket.send(
          {.operation = static_cast<uint16_t>(ParameterOperation::kError), .id = static_cast<uint32_t>(kind)},
          std::as_bytes(std::span(reason)));
    } catch (const Error&) {
      // the worker is gone
    }
  }
  const std::lock_guard lock(mutex_);
  gone(peer, reason);
}

void ParameterService::gone(Peer& peer, const std::string& reason) {
  peer.is_done = true;
  changed_.notify_all();
  if (peer.worker < 0) {
    options_.log(fmt::format("turned {} away: {}", peer.socket.peer(), reason));
    return;
  }
  dealer_.lost(peer.worker);
  if (peer.has_left || failure_ || ended_) return;
  const std::string who = fmt::format("worker {} ({}){}", peer.worker, peer.socket.peer(),
                                      peer.worker == 0 ? ", the chief," : "");
  if (options_.asynchronous && peer.worker != 0) {
    if (peer.given_up.empty()) options_.log(fmt::format("{} was lost; the others go on: {}", who, reason));
  } else {
    fail(Error(ErrorKind::kPeerLost, fmt::format("{} was lost: {}", who, reason)));
  }
}

void ParameterService::greet(Peer& peer) {
  peer.socket.set_timeout(kHelloTimeout);
  const Frame frame = peer.socket.receive(kHelloTimeout);
  if (frame.operation != static_cast<uint16_t>(ParameterOperation::kHello) || frame.bytes > kMostHelloBytes)
    refuse_request("a worker must introduce itself first");
  std::string text(frame.bytes, ' ');
  peer.socket.receive_bytes(std::as_writable_bytes(std::span(text)));
  const WorkerHello hello = parse_worker_hello(text);
  if (hello.worker < 0 || hello.worker >= options_.workers)
    refuse_request(
        fmt::format("there is no worker {}: `cluster.jobs` has {}", hello.worker, options_.workers));
  if (const std::string other = different_field(hello.fields, options_.fields, options_.server);
      !other.empty()) {
    throw Error(ErrorKind::kConfig,
                fmt::format("worker {} ({}) differs {}", hello.worker, peer.socket.peer(), other),
                "start all processes of a run with the same configuration and program");
  }
  welcome(peer, hello.worker);
  peer.socket.set_timeout(options_.collective_timeout);
  answer_with(peer, ParameterOperation::kHello);
}

/// Waits until the thread of an older connection of this worker has ended, if that worker has died: from then on
/// nothing is done in its name. Throws Error (kConfig) if it lives.
void ParameterService::await_departure(Lock& lock, int worker) {
  Peer* older = find(worker);
  if (older == nullptr) return;
  if (options_.asynchronous && worker != 0) {
    const auto has_left = [&] { return failure_ || find(worker) == nullptr; };
    older->socket.probe(true);
    changed_.wait_for(lock, kDeparture, has_left);
    if (!has_left() && find(worker)->socket.is_out_of_reach(FramedSocket::kProbeTime)) {
      find(worker)->socket.shut_down();
      changed_.wait(lock, has_left);
    }
    if (failure_) throw Error(*failure_);
    older = find(worker);
    if (older == nullptr) return;
    older->socket.probe(false);
  }
  throw Error(ErrorKind::kConfig,
              fmt::format("worker {} is here already, from {}: two processes have the same task", worker,
                          older->socket.peer()),
              "give each process a `cluster.task` of its own");
}

/// Makes the connection that of this worker.
void ParameterService::welcome(Peer& peer, int worker) {
  Lock lock(mutex_);
  if (failure_) throw Error(*failure_);
  await_departure(lock, worker);
  peer.parts = storage_.pushed_parts(worker);
  for (const PushedPart& part : peer.parts) peer.pushed->emplace_back(part.bytes);
  peer.worker = worker;
  addresses_[worker] = peer.socket.peer();
  changed_.notify_all();
}

/// Answers one request. Returns false if the worker has left.
bool ParameterService::answer(Peer& peer, const Frame& frame) {
  switch (static_cast<ParameterOperation>(frame.operation)) {
    case ParameterOperation::kSet:
      set(peer, frame);
      return true;
    case ParameterOperation::kStart:
      start(peer, frame);
      return true;
    case ParameterOperation::kPull:
      pull(peer, frame);
      return true;
    case ParameterOperation::kPush:
      push(peer, frame);
      return true;
    case ParameterOperation::kSquares:
      send_squares(peer, frame);
      return true;
    case ParameterOperation::kUpdate:
      update(peer, frame);
      return true;
    case ParameterOperation::kNext:
      next(peer);
      return true;
    case ParameterOperation::kStage:
      stage(peer, frame);
      return true;
    case ParameterOperation::kCommit:
      commit(peer, frame);
      return true;
    case ParameterOperation::kApply:
      carry_out(peer, frame);
      return true;
    case ParameterOperation::kPause:
      require_chief(peer, frame);
      pause(peer);
      return true;
    case ParameterOperation::kResume:
      require_chief(peer, frame);
      resume(peer);
      return true;
    case ParameterOperation::kReport:
      report(peer);
      return true;
    case ParameterOperation::kLeave:
      leave(peer);
      return false;
    default:
      refuse_request(
          fmt::format("worker {} asks for operation {}, which there is not", peer.worker, frame.operation));
  }
}

void ParameterService::leave(Peer& peer) {
  answer_with(peer, ParameterOperation::kLeave);
  const std::lock_guard lock(mutex_);
  peer.has_left = true;
  ++left_;
  if (options_.asynchronous ? peer.worker == 0 : left_ == options_.workers) ended_ = true;
  if (options_.asynchronous && peer.worker == 0) dealer_.stop();
  changed_.notify_all();
}

}  // namespace mtf
