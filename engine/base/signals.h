// Handlers for signals that end a process: a run in training finishes and saves the current step, other
// programs remove the file that they have not completed.
#pragma once

#include <csignal>
#include <string>

namespace mtf {

/// Returns the name of a signal, "SIGTERM"; empty where it has none.
std::string signal_name(int signal);

/// Handles SIGTERM, SIGINT and SIGHUP, which a terminal sends when it is closed, until it is destroyed. SIGHUP stays
/// ignored where it is (nohup). A second signal that comes more than a second after the first ends the process at once.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// True while an object of this class exists.
  static bool are_handled();
  /// The first signal that was received, or 0.
  static int received();
  /// Acts as if this process had received `signal`, unless it has received one already.
  static void receive(int signal);
};

/// Blocks SIGHUP, SIGINT, SIGTERM and SIGCHLD in the calling thread until it is destroyed. Threads that a library
/// starts meanwhile never take such a signal from the thread that waits for it.
class BlockedSignals {
 public:
  BlockedSignals();
  ~BlockedSignals();
  BlockedSignals(const BlockedSignals&) = delete;
  BlockedSignals& operator=(const BlockedSignals&) = delete;

 private:
  sigset_t before_;
};

/// Removes a file when SIGHUP, SIGINT or SIGTERM ends the process. Only one object may exist at a time.
class RemovedBySignal {
 public:
  explicit RemovedBySignal(const std::string& path);
  ~RemovedBySignal();
  RemovedBySignal(const RemovedBySignal&) = delete;
  RemovedBySignal& operator=(const RemovedBySignal&) = delete;
};

}  // namespace mtf
