#include "engine/comm/parameters/parameter_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "engine/core/error.h"

namespace mtf {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kHelloTimeout{5'000};
/// For workers to hear why the run failed, or that it has ended.
constexpr milliseconds kFarewell{2'000};
constexpr milliseconds kSlice{100};
constexpr uint64_t kMostHelloBytes = 1 << 16;
/// Connections at a time that have not said hello; more are closed.
constexpr int kMostStrangers = 100;

double seconds(milliseconds time) { return std::chrono::duration<double>(time).count(); }

[[noreturn]] void refuse(const std::string& what) { throw Error(ErrorKind::kData, what); }

/// What a worker says of itself.
struct WorkerHello {
  int worker = -1;
  ParameterFields fields;
};

WorkerHello parse_worker_hello(const std::string& text) {
  try {
    const nlohmann::json json = nlohmann::json::parse(text);
    return {json.at("worker").get<int>(), json.at("fields").get<ParameterFields>()};
  } catch (const nlohmann::json::exception&) {
    refuse("a worker did not introduce itself in the words of this version");
  }
}

/// The first field that differs; empty: none does.
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
      dealer_(options_.batch_size, options_.max_staleness) {}

ParameterService::~ParameterService() {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = "the parameter server ends";
    for (Peer& peer : peers_) peer.socket.shut_down();
  }
  changed_.notify_all();
  for (Peer& peer : peers_) peer.thread.join();
}

bool ParameterService::serve() {
  const Clock::time_point start = Clock::now();
  std::optional<Clock::time_point> end;
  for (;;) {
    std::optional<FramedSocket> connected = listener_.accept(kSlice, options_.collective_timeout);
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
      fail(fmt::format("{} did not connect within {:.3g} s", missing, seconds(options_.connect_timeout)));
    }
    const bool over = failure_ || ended_;
    if (over && !end) end = Clock::now() + kFarewell;
    // Asynchronous: workers that come late learn that there is nothing to do.
    const bool all_came = std::ranges::none_of(addresses_, &std::string::empty);
    const bool all_left = failure_ || (options_.asynchronous ? all_came : left_ == options_.workers);
    const bool alone = std::ranges::none_of(
        peers_, [&](const Peer& peer) { return peer.worker >= 0 || (options_.asynchronous && !failure_); });
    if (over && ((alone && all_left) || Clock::now() > *end)) break;
  }
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(ErrorKind::kPeerLost, *failure_);
  return true;
}

/// A signal ends a server that no run has begun to use; else the workers are to save and leave.
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

/// Of those that the run cannot begin without.
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
    if (peer.worker == worker && !peer.is_replaced && !peer.is_done) return &peer;
  }
  return nullptr;
}

void ParameterService::fail(const std::string& what) {
  if (failure_ || ended_) return;
  failure_ = what;
  options_.log(what);
  changed_.notify_all();
}

/// The thread of a connection.
void ParameterService::talk(Peer& peer) {
  if (options_.prepare_thread) options_.prepare_thread();
  std::string reason;
  try {
    greet(peer);
    while (answer(peer, peer.socket.receive())) continue;
  } catch (const Error& error) {
    reason = error.what();
    try {
      peer.socket.send({.operation = static_cast<uint16_t>(ParameterOperation::kError),
                        .id = static_cast<uint32_t>(error.kind())},
                       std::as_bytes(std::span(reason)));
    } catch (const Error&) {
      // it is gone
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
  if (peer.is_replaced) return;
  dealer_.lost(peer.worker);
  if (peer.has_left || failure_ || ended_) return;
  const std::string who = fmt::format("worker {} ({}){}", peer.worker, peer.socket.peer(),
                                      peer.worker == 0 ? ", the chief," : "");
  if (options_.asynchronous && peer.worker != 0) {
    options_.log(fmt::format("{} was lost; the others go on: {}", who, reason));
  } else {
    fail(fmt::format("{} was lost: {}", who, reason));
  }
}

void ParameterService::greet(Peer& peer) {
  peer.socket.set_timeout(kHelloTimeout);
  const Frame frame = peer.socket.receive(kHelloTimeout);
  if (frame.operation != static_cast<uint16_t>(ParameterOperation::kHello) || frame.bytes > kMostHelloBytes)
    refuse("a worker must introduce itself first");
  std::string text(frame.bytes, ' ');
  peer.socket.receive_bytes(std::as_writable_bytes(std::span(text)));
  const WorkerHello hello = parse_worker_hello(text);
  if (hello.worker < 0 || hello.worker >= options_.workers)
    refuse(fmt::format("there is no worker {}: `cluster.jobs` has {}", hello.worker, options_.workers));
  if (const std::string other = different_field(hello.fields, options_.fields, options_.server);
      !other.empty()) {
    throw Error(ErrorKind::kConfig,
                fmt::format("worker {} ({}) differs {}", hello.worker, peer.socket.peer(), other),
                "start all processes of a run with the same configuration and program");
  }
  {
    const std::lock_guard lock(mutex_);
    if (failure_) throw Error(ErrorKind::kPeerLost, *failure_);
    if (Peer* older = find(hello.worker)) {
      if (!options_.asynchronous || hello.worker == 0) {
        refuse(fmt::format("worker {} is here already, from {}: two processes have the same task",
                           hello.worker, older->socket.peer()));
      }
      older->is_replaced = true;
      older->socket.shut_down();
      dealer_.lost(hello.worker);
    }
    for (const size_t bytes : storage_.pushed_bytes(hello.worker)) peer.pushed.emplace_back(bytes);
    peer.worker = hello.worker;
    addresses_[hello.worker] = peer.socket.peer();
    changed_.notify_all();
  }
  peer.socket.set_timeout(options_.collective_timeout);
  answer_with(peer, ParameterOperation::kHello, nullptr, 0);
}

/// False: the worker has left.
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
    case ParameterOperation::kCommit:
      commit(peer, frame);
      return true;
    case ParameterOperation::kDone: {
      const std::lock_guard lock(mutex_);
      dealer_.finish(peer.worker);
      changed_.notify_all();
      return true;
    }
    case ParameterOperation::kPause:
      require_chief(peer, frame);
      pause(peer);
      return true;
    case ParameterOperation::kResume: {
      require_chief(peer, frame);
      {
        const std::lock_guard lock(mutex_);
        dealer_.resume();
        changed_.notify_all();
      }
      answer_with(peer, ParameterOperation::kResume, nullptr, 0);
      return true;
    }
    case ParameterOperation::kReport:
      report(peer);
      return true;
    case ParameterOperation::kLeave: {
      answer_with(peer, ParameterOperation::kLeave, nullptr, 0);
      const std::lock_guard lock(mutex_);
      peer.has_left = true;
      ++left_;
      if (options_.asynchronous ? peer.worker == 0 : left_ == options_.workers) ended_ = true;
      if (options_.asynchronous && peer.worker == 0) dealer_.stop();
      changed_.notify_all();
      return false;
    }
    default:
      refuse(
          fmt::format("worker {} asks for operation {}, which there is not", peer.worker, frame.operation));
  }
}

template <class Ready, class Missing>
void ParameterService::wait(Lock& lock, const Ready& ready, const Missing& missing) {
  const milliseconds timeout =
      started_ ? options_.collective_timeout : options_.connect_timeout + options_.collective_timeout;
  const bool done = changed_.wait_for(lock, timeout, [&] { return failure_ || ready(); });
  if (!done) fail(missing());
  if (failure_) throw Error(ErrorKind::kPeerLost, *failure_);
}

void ParameterService::answer_with(Peer& peer, ParameterOperation operation, const void* data, size_t bytes) {
  peer.socket.send({.operation = static_cast<uint16_t>(operation)},
                   {static_cast<const std::byte*>(data), bytes});
}

void ParameterService::require_chief(const Peer& peer, const Frame& frame) const {
  if (peer.worker != 0)
    refuse(fmt::format("worker {} asks for operation {} of the chief", peer.worker, frame.operation));
}

/// The bytes of a message: a T, and after it numbers if they are asked for.
template <class T>
T ParameterService::read(Peer& peer, const Frame& frame, std::vector<double>* squares) {
  T value;
  const size_t more = squares != nullptr ? options_.squares * sizeof(double) : 0;
  if (frame.bytes != sizeof(T) + more)
    refuse(
        fmt::format("worker {} sends {} bytes where {} are due", peer.worker, frame.bytes, sizeof(T) + more));
  peer.socket.receive_bytes({reinterpret_cast<std::byte*>(&value), sizeof(T)});
  if (squares != nullptr) {
    squares->resize(options_.squares);
    peer.socket.receive_bytes(std::as_writable_bytes(std::span(*squares)));
  }
  return value;
}

void ParameterService::set(Peer& peer, const Frame& frame) {
  require_chief(peer, frame);
  const std::span<std::byte> memory = storage_.variable(frame.id);
  if (memory.size() != frame.bytes || memory.empty())
    refuse(fmt::format("variable {} has {} bytes here, not {}", frame.id, memory.size(), frame.bytes));
  {
    const std::lock_guard lock(mutex_);
    if (started_) refuse("the variables are set already");
  }
  peer.socket.receive_bytes(memory);
}

void ParameterService::start(Peer& peer, const Frame& frame) {
  require_chief(peer, frame);
  const auto start = read<ParameterStart>(peer, frame);
  {
    const std::lock_guard lock(mutex_);
    started_ = true;
    rate_scale_ = start.rate_scale;
    state_.step = start.step;
    state_.next_row = start.next_row;
    state_.tokens = start.tokens;
    dealer_.start({start.step, start.next_row,
                   start.last_step < 0 ? std::nullopt : std::optional<int64_t>(start.last_step)});
    changed_.notify_all();
  }
  answer_with(peer, ParameterOperation::kStart, nullptr, 0);
}

void ParameterService::pull(Peer& peer, const Frame& frame) {
  std::vector<uint32_t> ids(frame.bytes / sizeof(uint32_t));
  if (frame.bytes > (1 << 24)) refuse("a worker asks for too many variables");
  peer.socket.receive_bytes(std::as_writable_bytes(std::span(ids)));
  std::vector<std::span<std::byte>> memories;
  for (const uint32_t id : ids) {
    memories.push_back(storage_.variable(id));
    if (memories.back().empty()) refuse(fmt::format("variable {} is not on this server", id));
  }
  std::vector<std::vector<std::byte>> copies;
  PulledState state;
  {
    Lock lock(mutex_);
    const auto version = static_cast<int64_t>(frame.version);
    wait(
        lock, [&] { return started_ && state_.step >= version; },
        [&] { return started_ ? missing_gradients() : std::string("the chief did not set the variables"); });
    state = state_;
    if (options_.asynchronous) {
      // Others may update while this is on its way.
      for (const auto& memory : memories) copies.emplace_back(memory.begin(), memory.end());
    }
  }
  answer_with(peer, ParameterOperation::kPull, &state, sizeof(state));
  for (size_t i = 0; i < ids.size(); ++i) {
    peer.socket.send({.operation = static_cast<uint16_t>(ParameterOperation::kVariable), .id = ids[i]},
                     copies.empty() ? memories[i] : std::span(copies[i]));
  }
}

void ParameterService::push(Peer& peer, const Frame& frame) {
  {
    // The worker learns of a failure from the answer to what it asks next.
    Lock lock(mutex_);
    if (failure_) {
      lock.unlock();
      peer.socket.skip_bytes(frame.bytes);
      return;
    }
    if (frame.id != peer.received || frame.id >= peer.pushed.size() ||
        frame.bytes != peer.pushed[frame.id].size())
      refuse(fmt::format("worker {} pushes tensor {} of {} bytes, which is not the next one", peer.worker,
                         frame.id, frame.bytes));
    if (!options_.asynchronous && static_cast<int64_t>(frame.version) != state_.step)
      refuse(fmt::format("worker {} pushes gradients of version {}, but {} is in hand", peer.worker,
                         frame.version, state_.step));
  }
  peer.socket.receive_bytes(peer.pushed[frame.id]);
  const std::lock_guard lock(mutex_);
  if (++peer.received == peer.pushed.size()) changed_.notify_all();
}

std::string ParameterService::missing_gradients() {
  std::vector<std::string> missing;
  for (int worker = 0; worker < options_.workers; ++worker) {
    const Peer* peer = find(worker);
    if (peer != nullptr && peer->received == peer->pushed.size()) continue;
    missing.push_back(fmt::format("worker {} ({})", worker,
                                  addresses_[worker].empty() ? "has not connected" : addresses_[worker]));
  }
  if (missing.empty()) missing.push_back("worker 0 (the chief): it does not ask for the update");
  return fmt::format("step {} waits for more than {:.3g} s for gradients of {}", state_.step + 1,
                     seconds(options_.collective_timeout), fmt::join(missing, ", "));
}

void ParameterService::send_squares(Peer& peer, const Frame& frame) {
  require_chief(peer, frame);
  std::vector<double> squares;
  {
    Lock lock(mutex_);
    std::vector<const PushedTensors*> pushed;
    const auto all_pushed = [&] {
      pushed.clear();
      for (int worker = 0; worker < options_.workers; ++worker) {
        const Peer* of_worker = find(worker);
        if (of_worker == nullptr || of_worker->received != of_worker->pushed.size()) return false;
        pushed.push_back(&of_worker->pushed);
      }
      return started_ && static_cast<int64_t>(frame.version) == state_.step;
    };
    wait(lock, all_pushed, [&] { return missing_gradients(); });
    storage_.add(pushed);
    squares = storage_.squares();
  }
  answer_with(peer, ParameterOperation::kSquares, squares.data(), squares.size() * sizeof(double));
}

void ParameterService::update(Peer& peer, const Frame& frame) {
  require_chief(peer, frame);
  std::vector<double> squares;
  const auto step = read<ParameterStep>(peer, frame, &squares);
  {
    const std::lock_guard lock(mutex_);
    if (failure_) throw Error(ErrorKind::kPeerLost, *failure_);
    if (step.step != state_.step)
      refuse(fmt::format("the chief updates step {}, but {} is in hand", step.step, state_.step));
    const ParameterStorage::Outcome outcome = storage_.update(step.step, rate_scale_, step.loss, squares);
    state_.grad_norm = outcome.grad_norm;
    state_.finite = outcome.finite;
    state_.tokens += step.tokens;
    ++state_.step;
    for (Peer& each : peers_) each.received = 0;
    changed_.notify_all();
  }
  answer_with(peer, ParameterOperation::kUpdate, nullptr, 0);
}

/// Waits for other workers to be done with their batches; takes these away from those that take too long.
void ParameterService::wait_for_batches(Lock& lock, const std::function<bool()>& ready) {
  while (!failure_ && !ready()) {
    changed_.wait_for(lock, kSlice);
    for (const int worker : dealer_.overdue(options_.collective_timeout)) {
      Peer* peer = find(worker);
      options_.log(fmt::format("worker {} ({}) has not finished its batch within {:.3g} s and is given up",
                               worker, addresses_[worker], seconds(options_.collective_timeout)));
      dealer_.lost(worker);
      if (peer != nullptr) peer->socket.shut_down();
    }
  }
  if (failure_) throw Error(ErrorKind::kPeerLost, *failure_);
}

DealtBatch ParameterService::dealt(std::optional<int64_t> row) const {
  return {row.value_or(-1), dealer_.state().step, dealer_.state().next_row, state_.tokens};
}

void ParameterService::next(Peer& peer) {
  DealtBatch batch;
  {
    Lock lock(mutex_);
    std::optional<int64_t> row;
    wait_for_batches(lock, [&] {
      if (!started_) return false;
      if (dealer_.has_batch(peer.worker)) refuse(fmt::format("worker {} has a batch", peer.worker));
      row = dealer_.deal(peer.worker);
      return row.has_value() || (dealer_.has_ended() && dealer_.is_idle());
    });
    batch = dealt(row);
  }
  answer_with(peer, ParameterOperation::kNext, &batch, sizeof(batch));
}

void ParameterService::commit(Peer& peer, const Frame& frame) {
  std::vector<double> squares;
  const auto step = read<ParameterStep>(peer, frame, &squares);
  Committed done;
  {
    Lock lock(mutex_);
    if (peer.received != peer.pushed.size()) refuse(fmt::format("worker {} has not pushed all", peer.worker));
    done.step = step.step;
    if (is_first_server()) {
      wait_for_batches(lock,
                       [&] { return !dealer_.has_batch(peer.worker) || dealer_.may_apply(peer.worker); });
      if (!dealer_.has_batch(peer.worker))
        refuse("this batch was given to another worker, because it took too long");
      const BatchDealer::Applied applied = dealer_.apply(peer.worker);
      done.step = applied.step;
      done.staleness = applied.staleness;
    }
    storage_.add({&peer.pushed});
    const ParameterStorage::Outcome outcome = storage_.update(done.step, rate_scale_, step.loss, squares);
    peer.received = 0;
    state_.step = std::max(state_.step, done.step + 1);
    state_.tokens += step.tokens;
    state_.grad_norm = done.grad_norm = outcome.grad_norm;
    state_.finite = done.finite = outcome.finite;
    done.next_row = dealer_.state().next_row;
    done.tokens = state_.tokens;
    changed_.notify_all();
  }
  answer_with(peer, ParameterOperation::kCommit, &done, sizeof(done));
}

void ParameterService::pause(Peer& peer) {
  DealtBatch batch;
  {
    Lock lock(mutex_);
    dealer_.pause();
    std::optional<int64_t> row;
    wait_for_batches(lock, [&] {
      row = dealer_.has_batch(peer.worker) ? std::nullopt : dealer_.deal(peer.worker);
      return row.has_value() || dealer_.is_idle();
    });
    batch = dealt(row);
  }
  answer_with(peer, ParameterOperation::kPause, &batch, sizeof(batch));
}

void ParameterService::report(Peer& peer) {
  std::vector<int64_t> numbers;
  {
    const std::lock_guard lock(mutex_);
    numbers = dealer_.histogram();
    numbers.push_back(dealer_.dealt_again());
  }
  answer_with(peer, ParameterOperation::kReport, numbers.data(), numbers.size() * sizeof(int64_t));
}

}  // namespace mtf
