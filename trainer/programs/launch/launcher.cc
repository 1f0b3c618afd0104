#include "trainer/programs/launch/launcher.h"

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
#include <functional>
#include <optional>
#include <utility>

#include "engine/base/child_process.h"
#include "engine/base/error.h"
#include "engine/base/exception.h"
#include "engine/comm/launch/launch.h"
#include "engine/comm/rendezvous/tcp_store.h"
#include "engine/comm/security/access.h"
#include "trainer/programs/launch/output_lines.h"

namespace mtf {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kPeerLost = 75;
/// The time that the other processes have, after a failure, to end by themselves. They can print their own
/// messages, and a process that has only lost a peer is not mistaken for the one that failed.
constexpr milliseconds kSettle{1500};

/// A descriptor that is closed by the destructor.
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

/// Receives signals through a descriptor. They stay blocked until the end of the program.
class SignalStream {
 public:
  SignalStream() {
    sigset_t signals;
    sigemptyset(&signals);
    for (const int signal : {SIGCHLD, SIGINT, SIGTERM}) sigaddset(&signals, signal);
    struct sigaction hang_up {};
    ::sigaction(SIGHUP, nullptr, &hang_up);
    if (hang_up.sa_handler != SIG_IGN) sigaddset(&signals, SIGHUP);  // not under nohup
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

/// True if this program is in the foreground of a terminal. Its processes then stay in its process group and
/// get the signals of keys from the terminal.
bool in_foreground() {
  const Descriptor terminal(::open("/dev/tty", O_RDWR | O_CLOEXEC));
  return terminal.is_open() && ::tcgetpgrp(terminal.get()) == ::getpgrp();
}

/// Returns access with the secret of the environment, which may belong to a run with more processes, or else
/// with a new one.
Access shared_access() {
  Access access = find_access({}, environment_of_process());
  if (!access.secret.is_given()) access.secret = Secret::random();
  return access;
}

/// The state that all attempts share.
struct Surroundings {
  explicit Surroundings(const LaunchCommand& command) : command(command) {}

  const LaunchCommand& command;
  SignalStream signals;
  OutputSink output{STDOUT_FILENO};
  OutputSink error{STDERR_FILENO};
  std::string run = fmt::format("mtf-launch-{}-{}", ::getpid(), Clock::now().time_since_epoch().count());
  bool own_groups = !in_foreground();
  Access access = shared_access();

  void say(const std::string& text) { error.write_line("mtf-launch: " + text); }

  /// Returns when all output was read, or after a signal.
  void drain() {
    for (OutputSink* sink : {&output, &error}) {
      while (sink->waits()) {
        std::array<pollfd, 2> events{{{signals.descriptor(), POLLIN, 0}, {sink->descriptor(), POLLOUT, 0}}};
        ::poll(events.data(), events.size(), -1);
        sink->flush();
        while (const auto signal = signals.next())
          if (signal->ssi_signo != SIGCHLD) sink->close();
      }
    }
  }
};

int process_count(const LaunchCommand& command) {
  if (command.jobs.empty()) return command.processes;
  int count = 0;
  for (const auto& [name, tasks] : command.jobs) count += tasks;
  return count;
}

/// The result of an attempt.
struct Outcome {
  int exit_code = 0;
  bool may_come_again = true;  ///< a restart may succeed
};

/// One attempt: runs all tasks from their start to the end of the last one.
class Attempt {
 public:
  Attempt(Surroundings& surroundings, int restart) : around_(surroundings), restart_(restart) {
    const LaunchCommand& command = around_.command;
    if (command.jobs.empty()) {
      store_.emplace(TcpStoreServerOptions{.access = around_.access});
      tasks_ = rank_tasks(command.processes, store_->port());
    } else {
      ports_.emplace(process_count(command));
      tasks_ = job_tasks(command.jobs, ports_->numbers());
    }
  }

  Outcome run() {
    for (const Task& task : tasks_) {
      if (const int error = start(task)) {
        around_.say(
            fmt::format("`{}` cannot be run: {}", around_.command.command.front(), system_message(error)));
        return {error == ENOENT ? 127 : 126, false};
      }
    }
    while (std::ranges::any_of(processes_, &ChildProcess::runs)) {
      wait_for_events();
      for (OutputSink* sink : {&around_.output, &around_.error}) sink->flush();
      for (Stream& stream : streams_) copy(stream);
      while (const auto signal = around_.signals.next()) take(*signal);
      look_for_ends();
      act_in_time();
    }
    for (Stream& stream : streams_) finish(stream);
    name_culprit();
    return outcome();
  }

 private:
  struct Stream {
    Descriptor pipe;
    LinePrefixer lines;
  };
  struct Failure {
    size_t task;
    ProcessEnd end;
  };

  /// Starts a task. Returns the error of exec, or 0.
  int start(const Task& task) {
    const Descriptor nothing(task.is_first ? -1 : ::open("/dev/null", O_RDWR | O_CLOEXEC));
    const Descriptor output = output_for(task, around_.output), error = output_for(task, around_.error);
    ChildOptions options;
    options.command = around_.command.command;
    options.environment = environment_of(task);
    options.own_group = around_.own_groups;
    if (nothing.is_open()) options.standard_input = nothing.get();
    if (output.is_open()) options.standard_output = output.get();
    if (error.is_open()) options.standard_error = error.get();
    processes_.emplace_back(options);
    return processes_.back().exec_error();
  }

  /// Returns the write end of a pipe for the output of `task`, or none if it writes to the sink directly. The
  /// first task writes directly to a terminal, so that it can draw and prompt there.
  Descriptor output_for(const Task& task, OutputSink& sink) {
    if (tasks_.size() == 1 || (task.is_first && sink.is_terminal())) return Descriptor();
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail_system("no pipe can be made");
    ::fcntl(ends[0], F_SETFL, O_NONBLOCK);
    streams_.push_back({Descriptor(ends[0]), LinePrefixer(task.prefix, sink)});
    return Descriptor(ends[1]);
  }

  std::vector<std::string> environment_of(const Task& task) const {
    Environment environment = without_launcher(environment_of_process());
    for (const auto& [name, value] : task.environment) environment[name] = value;
    environment["TORCHELASTIC_RUN_ID"] = around_.run;
    environment[kSecretVariable] = around_.access.secret.text();
    environment["TORCHELASTIC_RESTART_COUNT"] = std::to_string(restart_);
    std::vector<std::string> result;
    for (const auto& [name, value] : environment) result.push_back(name + "=" + value);
    return result;
  }

  // --- events ---

  void wait_for_events() {
    std::vector<pollfd> events{{around_.signals.descriptor(), POLLIN, 0}};
    for (const OutputSink* sink : {&around_.output, &around_.error})
      if (sink->waits()) events.push_back({sink->descriptor(), POLLOUT, 0});
    for (const Stream& stream : streams_)
      if (stream.pipe.is_open() && !stream.lines.sink().waits())
        events.push_back({stream.pipe.get(), POLLIN, 0});
    int timeout = -1;
    if (next_act_) {
      const auto left = std::chrono::ceil<milliseconds>(*next_act_ - Clock::now()).count();
      timeout = static_cast<int>(std::max<int64_t>(left, 0));
    }
    ::poll(events.data(), events.size(), timeout);
  }

  /// Copies available output until the reader is too slow. If nobody reads it any more the pipe is closed, so
  /// that the program gets SIGPIPE as if it wrote to the sink itself.
  static void copy(Stream& stream) {
    std::array<char, 65536> bytes;
    while (stream.pipe.is_open() && !stream.lines.sink().waits()) {
      const ssize_t count = ::read(stream.pipe.get(), bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0 && errno == EAGAIN) return;
      if (count > 0) stream.lines.add({bytes.data(), static_cast<size_t>(count)});
      if (count <= 0 || stream.lines.sink().closed()) return finish_reading(stream);
      if (count < static_cast<ssize_t>(bytes.size())) return;  // the pipe is empty
    }
  }

  static void finish_reading(Stream& stream) {
    stream.lines.end();
    stream.pipe.close();
  }

  /// Copies the rest of the output of a task that has ended. It does not wait for the end of the pipe, since
  /// other processes may still hold its write end.
  void finish(Stream& stream) {
    constexpr int kMostTurns = 1000;
    for (int turn = 0; turn < kMostTurns && stream.pipe.is_open(); ++turn) {
      pollfd ready{stream.pipe.get(), POLLIN, 0};
      if (::poll(&ready, 1, 0) <= 0) break;
      around_.drain();
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

  /// Sends a signal to all processes. Stopped ones are continued, so that they can handle it.
  void send_to_all(int signal) const {
    for (const ChildProcess& process : processes_) {
      process.send(signal);
      process.send(SIGCONT);
    }
  }

  void look_for_ends() {
    for (size_t task = 0; task < tasks_.size(); ++task) {
      const std::optional<ProcessEnd> end = processes_[task].look();
      if (!end || end->exit_code() == 0) continue;
      // After a signal a process may end by it, or since another one has.
      const bool by_signal = end->exit_code() == 128 + passed_on_ || end->exit_code() == kPeerLost;
      if (passed_on_ != 0 && by_signal) {
        if (ended_by_signal_ == 0) ended_by_signal_ = 128 + passed_on_;
        continue;
      }
      if (!are_asked_to_end_) failures_.push_back({task, *end});
    }
    const bool act = !failures_.empty() || only_servers_run();
    if (act && !next_act_ && !are_asked_to_end_) next_act_ = Clock::now() + kSettle;
  }

  /// True if `holds` is true for each task that is not a server.
  template <typename Condition>
  bool all_workers(const Condition& holds) const {
    for (size_t task = 0; task < tasks_.size(); ++task)
      if (!tasks_[task].serves && !holds(processes_[task])) return false;
    return true;
  }
  bool only_servers_run() const { return all_workers(std::not_fn(&ChildProcess::runs)); }
  bool workers_have_ended_well() const {
    return all_workers(
        [](const ChildProcess& worker) { return worker.end() && worker.end()->exit_code() == 0; });
  }

  /// Finds and prints the task that failed first; those that only lost a peer come last.
  void name_culprit() {
    if (culprit_ || failures_.empty()) return;
    const auto own_fault = [](const Failure& failure) { return failure.end.exit_code() != kPeerLost; };
    const auto found = std::ranges::find_if(failures_, own_fault);
    const Failure& first = found == failures_.end() ? failures_.front() : *found;
    std::string text = fmt::format("{} {}", tasks_[first.task].name, first.end.to_string());
    if (workers_have_ended_well()) {
      failures_.clear();
      return around_.say(text + "; those that it served have ended well");
    }
    culprit_ = first;
    for (size_t task = 0; task < tasks_.size(); ++task)
      if (processes_[task].is_stopped()) text += fmt::format("; {} is stopped", tasks_[task].name);
    if (std::ranges::any_of(processes_, &ChildProcess::runs)) text += "; the others are ended";
    around_.say(text);
  }

  /// When its time has come, names the culprit and asks the running processes to end; when the grace period
  /// is over, kills them.
  void act_in_time() {
    if (!next_act_ || Clock::now() < *next_act_) return;
    if (!are_asked_to_end_) {
      name_culprit();
      send_to_all(SIGTERM);
      are_asked_to_end_ = true;
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
  int restart_;
  std::optional<TcpStoreServer> store_;  ///< the store of ranks
  std::optional<ReservedPorts> ports_;   ///< the ports of tasks of jobs
  std::vector<Task> tasks_;
  std::vector<ChildProcess> processes_;  ///< the started tasks
  std::vector<Stream> streams_;
  std::vector<Failure> failures_;  ///< in the order of detection
  std::optional<Clock::time_point> next_act_;
  bool are_asked_to_end_ = false;
  std::optional<Failure> culprit_;
  int passed_on_ = 0;  ///< the last signal that was passed on
  /// 128 + the signal that was passed on, if a process was ended by it; 0: none.
  int ended_by_signal_ = 0;
};

}  // namespace

int launch(const LaunchCommand& command) {
  Surroundings surroundings(command);
  const int processes = process_count(command);
  for (int restart = 0;; ++restart) {
    const Outcome outcome = Attempt(surroundings, restart).run();
    surroundings.drain();
    if (const int error = surroundings.output.error(); outcome.exit_code == 0 && error != 0)
      throw lost_output(error);
    if (outcome.exit_code == 0 || !outcome.may_come_again || restart == command.restarts)
      return outcome.exit_code;
    surroundings.say(fmt::format("{} again (restart {} of {})",
                                 processes == 1 ? "it starts" : fmt::format("all {} start", processes),
                                 restart + 1, command.restarts));
  }
}

}  // namespace mtf
