// A process that is started with its own environment and output, and dies with this one.
//
//   ChildProcess child({.command = {"mtf-train", "run.yaml"}, .environment = {"RANK=0"}, .standard_error =
//   pipe}); child.send(SIGTERM); if (const auto end = child.look()) use(end->exit_code());
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace mtf {

struct ChildOptions {
  std::vector<std::string> command;      ///< found along PATH
  std::vector<std::string> environment;  ///< all of it, "NAME=VALUE"
  /// Descriptors that it gets as standard input, output and error.
  int standard_input = 0, standard_output = 1, standard_error = 2;
  /// In a process group of its own: a terminal's signals do not reach it.
  bool own_group = false;
};

/// How a process has ended.
struct ProcessEnd {
  int code = 0;
  int signal = 0;  ///< that killed it; 0: none

  int exit_code() const { return signal != 0 ? 128 + signal : code; }
  /// "ended with exit code 1", "was killed by signal 9 (SIGKILL)".
  std::string to_string() const;
};

class ChildProcess {
 public:
  /// Signals that are blocked here are not in the child. Throws Error (kSystem) when there can be no process;
  /// exec_error() tells when it cannot be the program.
  explicit ChildProcess(const ChildOptions& options);
  /// Kills it, and its group, unless it has ended well.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  /// Of exec: ENOENT, EACCES; 0: it runs.
  int exec_error() const { return exec_error_; }
  bool runs() const { return !end_; }
  /// Nothing: look() has not seen it.
  const std::optional<ProcessEnd>& end() const { return end_; }
  /// Stopped by a signal, as far as look() has seen.
  bool is_stopped() const { return stopped_; }
  /// Looks whether it has ended since; the end is told once.
  std::optional<ProcessEnd> look();
  /// To it and its group.
  void send(int signal) const;

 private:
  pid_t id_ = -1;
  bool own_group_;
  int exec_error_ = 0;
  bool stopped_ = false;
  std::optional<ProcessEnd> end_;
};

}  // namespace mtf
