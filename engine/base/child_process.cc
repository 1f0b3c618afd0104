#include "engine/base/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/signals.h"

namespace mtf {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const std::string& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// Makes the descriptors of `options` the descriptors 0 to 2. None of them may be 0 to 2 unless it is already
/// in its place.
void place_descriptors(const ChildOptions& options) {
  const std::array wanted = {options.standard_input, options.standard_output, options.standard_error};
  for (int place = 0; place < 3; ++place)
    if (wanted[place] != place) ::dup2(wanted[place], place);
}

/// The code between fork and exec, which must not allocate memory. Returns only if exec has failed.
void become(const ChildOptions& options, pid_t parent, char* const* arguments, char* const* environment) {
  if (options.own_group) {
    ::setpgid(0, 0);
    ::signal(SIGINT, SIG_DFL);  // shells ignore it for background jobs; only the parent sends it here
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);  // the parent died before prctl()
  place_descriptors(options);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execvpe(arguments[0], arguments, environment);
}

}  // namespace

std::string ProcessEnd::to_string() const {
  if (signal == 0) return fmt::format("ended with exit code {}", code);
  const std::string name = signal_name(signal);
  return fmt::format("was killed by signal {}{}", signal, name.empty() ? "" : fmt::format(" ({})", name));
}

ChildProcess::ChildProcess(const ChildOptions& options) : own_group_(options.own_group) {
  const std::vector<char*> arguments = pointers(options.command), environment = pointers(options.environment);
  std::array<int, 2> report{};  // a pipe that a successful exec closes
  if (::pipe2(report.data(), O_CLOEXEC) != 0)
    throw Error(ErrorKind::kSystem, fmt::format("no process can be started: {}", system_message(errno)));
  const pid_t parent = ::getpid();
  id_ = ::fork();
  if (id_ == 0) {
    become(options, parent, arguments.data(), environment.data());
    const int error = errno;
    [[maybe_unused]] const ssize_t written = ::write(report[1], &error, sizeof(error));
    ::_exit(127);
  }
  const int fork_error = errno;
  ::close(report[1]);
  if (id_ > 0) {
    if (own_group_) ::setpgid(id_, id_);
    while (::read(report[0], &exec_error_, sizeof(exec_error_)) < 0 && errno == EINTR) {
    }
  }
  ::close(report[0]);
  if (id_ < 0)
    throw Error(ErrorKind::kSystem, fmt::format("no process can be started: {}", system_message(fork_error)));
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : id_(std::exchange(other.id_, -1)),
      own_group_(other.own_group_),
      exec_error_(other.exec_error_),
      stopped_(other.stopped_),
      end_(other.end_) {}

ChildProcess::~ChildProcess() {
  if (id_ < 0) return;
  if (!end_ || end_->exit_code() != 0) send(SIGKILL);
  while (::waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<ProcessEnd> ChildProcess::look() {
  if (end_) return std::nullopt;
  siginfo_t info{};
  while (::waitid(P_PID, static_cast<id_t>(id_), &info, WSTOPPED | WCONTINUED | WNOHANG) == 0 &&
         info.si_pid != 0) {
    stopped_ = info.si_code == CLD_STOPPED;
    info = {};
  }
  // WNOWAIT leaves the process in the process table, so that its id, and its group's, is not reused.
  info = {};
  if (::waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0)
    return std::nullopt;
  end_ = info.si_code == CLD_EXITED ? ProcessEnd{info.si_status, 0} : ProcessEnd{0, info.si_status};
  stopped_ = false;
  return end_;
}

void ChildProcess::send(int signal) const {
  if (own_group_) {
    ::kill(-id_, signal);
  } else if (!end_) {
    ::kill(id_, signal);
  }
}

}  // namespace mtf
