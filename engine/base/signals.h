// Signals that end a process. While a run trains, the step in hand is finished and saved; elsewhere a file
// that is not whole yet goes.
#pragma once

#include <string>

namespace mtf {

/// Takes SIGTERM and SIGINT for as long as it lives. A second one, if it comes more than a
/// second later, ends the process at once.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that has come; 0: none.
  static int received();
  /// As if `signal` had come, unless one has.
  static void receive(int signal);
};

/// SIGHUP, SIGINT, SIGTERM and SIGPIPE remove a file before they end the process as ever. One at a time.
class RemovedBySignal {
 public:
  explicit RemovedBySignal(const std::string& path);
  ~RemovedBySignal();
  RemovedBySignal(const RemovedBySignal&) = delete;
  RemovedBySignal& operator=(const RemovedBySignal&) = delete;
};

}  // namespace mtf
