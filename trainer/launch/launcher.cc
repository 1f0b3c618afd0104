#include "trainer/launch/launcher.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "engine/comm/process/launch.h"
#include "engine/comm/process/tcp_store.h"
#include "engine/core/error.h"
#include "trainer/launch/child_process.h"
#include "trainer/launch/output_lines.h"

namespace mtf {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kPeerLost = 75;
/// After a failure the others have this long to end by themselves: for their own messages, and so that one
/// that has only lost a peer is not taken for the one that failed.
constexpr milliseconds kSettle{1500};

/// A descriptor that is closed at the end.
class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~Descriptor() { close(); }

  int get() const { return number_; }
  bool is_open() const { return number_ >= 0; }
  void close() {
    if (is_open()) ::close(std::exchange(number_, -1));
  }

 private:
  int number_;
};

[[noreturn]] void fail_system(std::string_view what) {
  throw Error(ErrorKind::kSystem, fmt::format("mtf-launch: {}: {}", what, system_message(errno)));
}

/// Signals as something to wait for. They stay blocked until the end of the program.
class SignalStream {
 public:
  SignalStream() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM}) sigaddset(&signals, signal);
    struct sigaction hang_up {};
    ::sigaction(SIGHUP, nullptr, &hang_up);
    if (hang_up.sa_handler != SIG_IGN) sigaddset(&signals, SIGHUP);  // nohup
    ::signal(SIGPIPE, SIG_IGN);
    ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
    descriptor_ = Descriptor(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!descriptor_.is_open()) fail_system("signals cannot be received");
  }

  int descriptor() const { return descriptor_.get(); }
  std::optional<signalfd_siginfo> next() const {
    signalfd_siginfo info{};
    if (::read(descriptor(), &info, sizeof(info)) != sizeof(info)) return std::nullopt;
    return info;
  }

 private:
  Descriptor descriptor_;
};

/// True where a person at a terminal can stop and end this program by keys: then its processes stay in its
/// group, and get those signals from the terminal.
bool in_foreground() {
  const Descriptor terminal(::open("/dev/tty", O_RDWR | O_CLOEXEC));
  return terminal.is_open() && ::tcgetpgrp(terminal.get()) == ::getpgrp();
}

/// What is the same for all attempts.
struct Surroundings {
  explicit Surroundings(const LaunchCommand& command) : command(command) {}

  const LaunchCommand& command;
  SignalStream signals;
  OutputSink output{STDOUT_FILENO};
  OutputSink error{STDERR_FILENO};
  std::string run = fmt::format("mtf-launch-{}-{}", ::getpid(), Clock::now().time_since_epoch().count());
  bool own_groups = !in_foreground();

  void say(const std::string& text) { error.write_line("mtf-launch: " + text); }
};

/// How an attempt has ended.
struct Outcome {
  int exit_code = 0;
  bool may_come_again = true;  ///< a restart may go better
};

/// All ranks, from their start to the end of the last one.
class Attempt {
 public:
  Attempt(Surroundings& surroundings, int restart)
      : around_(surroundings), store_(0, true), restart_(restart) {}

  Outcome run() {
    for (int rank = 0; rank < size(); ++rank) {
      if (const int error = start(rank)) {
        around_.say(
            fmt::format("`{}` cannot be run: {}", around_.command.command.front(), system_message(error)));
        return {error == ENOENT ? 127 : 126, false};
      }
    }
    while (std::ranges::any_of(ranks_, &ChildProcess::runs)) {
      wait_for_events();
      for (Stream& stream : streams_) copy(stream);
      while (const auto signal = around_.signals.next()) take(*signal);
      look_for_ends();
      act_in_time();
    }
    for (Stream& stream : streams_) finish(stream);
    if (failure_at_) name_culprit();
    return outcome();
  }

 private:
  struct Stream {
    Descriptor pipe;
    LinePrefixer lines;
  };
  struct Failure {
    int rank;
    ProcessEnd end;
  };

  int size() const { return around_.command.processes; }

  /// Returns the error of exec, or 0.
  int start(int rank) {
    const Descriptor nothing(rank == 0 ? -1 : ::open("/dev/null", O_RDWR | O_CLOEXEC));
    const Descriptor output = output_for(rank, around_.output), error = output_for(rank, around_.error);
    ChildOptions options;
    options.command = around_.command.command;
    options.environment = environment_of(rank);
    options.own_group = around_.own_groups;
    if (nothing.is_open()) options.standard_input = nothing.get();
    if (output.is_open()) options.standard_output = output.get();
    if (error.is_open()) options.standard_error = error.get();
    ranks_.emplace_back(options);
    return ranks_.back().exec_error();
  }

  /// The end of a pipe that `rank` writes to; none: it writes to the sink itself. So does rank 0 on a
  /// terminal, where it may draw and ask.
  Descriptor output_for(int rank, OutputSink& sink) {
    if (size() == 1 || (rank == 0 && sink.is_terminal())) return Descriptor();
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_system("no pipe can be made");
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    streams_.push_back({Descriptor(ends[0]), LinePrefixer(fmt::format("[{}] ", rank), sink)});
    return Descriptor(ends[1]);
  }

  std::vector<std::string> environment_of(int rank) const {
    Environment environment = environment_of_process();
    const std::string number = std::to_string(rank), all = std::to_string(size());
    environment["RANK"] = environment["LOCAL_RANK"] = number;
    environment["WORLD_SIZE"] = environment["LOCAL_WORLD_SIZE"] = all;
    environment["MASTER_ADDR"] = "127.0.0.1";
    environment["MASTER_PORT"] = std::to_string(store_.port());
    environment["TORCHELASTIC_USE_AGENT_STORE"] = "True";
    environment["TORCHELASTIC_RUN_ID"] = around_.run;
    environment["TORCHELASTIC_RESTART_COUNT"] = std::to_string(restart_);
    std::vector<std::string> result;
    for (const auto& [name, value] : environment) result.push_back(name + "=" + value);
    return result;
  }

  // --- events ---

  void wait_for_events() {
    std::vector<pollfd> events{{around_.signals.descriptor(), POLLIN, 0}};
    for (const Stream& stream : streams_)
      if (stream.pipe.is_open()) events.push_back({stream.pipe.get(), POLLIN, 0});
    int timeout = -1;
    if (next_act_) {
      const auto left = std::chrono::ceil<milliseconds>(*next_act_ - Clock::now()).count();
      timeout = static_cast<int>(std::max<int64_t>(left, 0));
    }
    ::poll(events.data(), events.size(), timeout);
  }

  /// Copies what is there. A program whose output nobody reads gets SIGPIPE, as if it wrote there itself.
  static void copy(Stream& stream) {
    std::array<char, 65536> bytes;
    while (stream.pipe.is_open()) {
      const ssize_t count = ::read(stream.pipe.get(), bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return;
      if (count > 0) stream.lines.add({bytes.data(), static_cast<size_t>(count)});
      if (count <= 0 || stream.lines.sink().closed()) return finish_reading(stream);
      if (count < static_cast<ssize_t>(bytes.size())) return;  // the others have their turn
    }
  }

  static void finish_reading(Stream& stream) {
    stream.lines.end();
    stream.pipe.close();
  }

  /// What is in the pipe is all that the rank has written; others may still hold the other end.
  static void finish(Stream& stream) {
    constexpr int kMostTurns = 1000;
    for (int turn = 0; turn < kMostTurns && stream.pipe.is_open(); ++turn) {
      pollfd ready{stream.pipe.get(), POLLIN, 0};
      if (::poll(&ready, 1, 0) <= 0) break;
      copy(stream);
    }
    finish_reading(stream);
  }

  void take(const signalfd_siginfo& info) {
    const int signal = static_cast<int>(info.ssi_signo);
    if (signal == SIGCHLD) return;
    passed_on_ = signal;
    const bool by_terminal = info.ssi_code == SI_KERNEL && !around_.own_groups;
    if (!by_terminal) send_to_all(signal);
  }

  /// A process that is stopped goes on, so that it can act.
  void send_to_all(int signal) const {
    for (const ChildProcess& rank : ranks_) {
      rank.send(signal);
      rank.send(SIGCONT);
    }
  }

  void look_for_ends() {
    for (int rank = 0; rank < size(); ++rank) {
      const std::optional<ProcessEnd> end = ranks_[rank].look();
      if (!end || end->exit_code() == 0) continue;
      if (passed_on_ != 0 && end->exit_code() == 128 + passed_on_) {
        if (ended_by_signal_ == 0) ended_by_signal_ = end->exit_code();
        continue;
      }
      if (culprit_) continue;  // the others are being ended
      failures_.push_back({rank, *end});
      if (failure_at_) continue;
      failure_at_ = Clock::now();
      next_act_ = *failure_at_ + kSettle;
    }
  }

  /// Of those that have failed the first that did not only lose a peer.
  void name_culprit() {
    if (culprit_) return;
    const auto own_fault = [](const Failure& failure) { return failure.end.exit_code() != kPeerLost; };
    const auto found = std::ranges::find_if(failures_, own_fault);
    culprit_ = found == failures_.end() ? failures_.front() : *found;
    std::string text = fmt::format("rank {} {}", culprit_->rank, culprit_->end.to_string());
    for (int rank = 0; rank < size(); ++rank)
      if (ranks_[rank].is_stopped()) text += fmt::format("; rank {} is stopped", rank);
    if (std::ranges::any_of(ranks_, &ChildProcess::runs)) text += "; the others are ended";
    around_.say(text);
  }

  /// First the culprit is named and the others are asked to end, then they are killed.
  void act_in_time() {
    if (!next_act_ || Clock::now() < *next_act_) return;
    if (!culprit_) {
      name_culprit();
      send_to_all(SIGTERM);
      next_act_ = Clock::now() + around_.command.grace;
    } else {
      send_to_all(SIGKILL);
      next_act_.reset();
    }
  }

  Outcome outcome() const {
    if (!culprit_) return {ended_by_signal_, false};
    constexpr int kConfiguration = 2, kDiverged = 3;
    const int code = culprit_->end.exit_code();
    return {code, passed_on_ == 0 && code != kConfiguration && code != kDiverged};
  }

  Surroundings& around_;
  TcpStoreServer store_;
  int restart_;
  std::vector<ChildProcess> ranks_;
  std::vector<Stream> streams_;
  std::vector<Failure> failures_;  ///< in the order in which they were seen
  std::optional<Clock::time_point> failure_at_;
  std::optional<Clock::time_point> next_act_;
  std::optional<Failure> culprit_;
  int passed_on_ = 0;        ///< the last signal
  int ended_by_signal_ = 0;  ///< exit code of the first that ended as the signal asked for
};

}  // namespace

int launch(const LaunchCommand& command) {
  Surroundings surroundings(command);
  for (int restart = 0;; ++restart) {
    const Outcome outcome = Attempt(surroundings, restart).run();
    if (outcome.exit_code == 0 || !outcome.may_come_again || restart == command.restarts)
      return outcome.exit_code;
    surroundings.say(
        fmt::format("{} again (restart {} of {})",
                    command.processes == 1 ? "it starts" : fmt::format("all {} start", command.processes),
                    restart + 1, command.restarts));
  }
}

}  // namespace mtf
