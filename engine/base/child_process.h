// A child process with its own environment and output, which is killed when this process dies.
//
//   ChildProcess child({.command = {"mtf-train", "run.yaml"}, .environment = {"RANK=0"}});
//   child.send(SIGTERM);
//   if (const auto end = child.look()) use(end->exit_code());
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace mtf {

struct ChildOptions {
  std::vector<std::string> command;      ///< the program, searched in PATH, and its arguments
  std::vector<std::string> environment;  ///< the complete environment, as "NAME=VALUE"
  /// The descriptors that become its standard input, output and error.
  int standard_input = 0, standard_output = 1, standard_error = 2;
  /// True: it runs in its own process group, so signals of a terminal do not reach it.
  bool own_group = false;
};

/// The exit status of a process.
struct ProcessEnd {
  int code = 0;
  int signal = 0;  ///< signal that killed it; 0: none

  int exit_code() const { return signal != 0 ? 128 + signal : code; }
  /// Returns "ended with exit code 1" or "was killed by signal 9 (SIGKILL)".
  std::string to_string() const;
};

class ChildProcess {
 public:
  /// Starts the process. Signals that are blocked here are not blocked in the child. Throws Error (kSystem)
  /// when no process can be started; exec_error() reports that the program cannot be executed.
  explicit ChildProcess(const ChildOptions& options);
  /// Kills the process, and its own group, unless it has ended with exit code 0.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// The error of exec, such as ENOENT or EACCES; 0 if the program was started.
  int exec_error() const { return exec_error_; }
  bool runs() const { return !end_; }
  /// The exit status; nullopt if look() has not seen the end yet.
  const std::optional<ProcessEnd>& end() const { return end_; }
  /// True if the last look() found the process stopped by a signal.
  bool is_stopped() const { return stopped_; }
  /// Checks whether the process has ended. The exit status is returned only once.
  std::optional<ProcessEnd> look();
  /// Sends a signal to the process, or to its own group.
  void send(int signal) const;

 private:
  pid_t id_ = -1;
  bool own_group_;
  int exec_error_ = 0;
  bool stopped_ = false;
  std::optional<ProcessEnd> end_;
};

}  // namespace mtf
