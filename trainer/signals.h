// SIGTERM and SIGINT while a run trains: the step in hand is finished and saved.
#pragma once

namespace mtf {

/// Takes the two signals for as long as it lives. A second one ends the process at once.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that has come; 0: none.
  static int received();
};

}  // namespace mtf
