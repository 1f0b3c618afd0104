// Lets the processes of a run agree on the time and on signals that ask the run to stop.
//
//   Agreement agreement(communicator, [&] { return seconds_so_far; });
//   agreement.begin();            // before a step: the exchange overlaps with the step
//   executor.run(step);
//   const Control now = agreement.end();
#pragma once

#include <functional>
#include <memory>

#include "engine/comm/communicator.h"

namespace mtf {

struct Control {
  double seconds = 0;  ///< by the clock of process 0
  int signal = 0;      ///< a stop signal that any process has received (StopSignals); 0: none
};

/// All calls are collective, in the same order in every process. They throw Error (kPeerLost).
class Agreement {
 public:
  /// `seconds` is the clock of this process.
  Agreement(Communicator& communicator, std::function<double()> seconds);

  void begin();
  /// Returns the state at begin(), or with a single process the current one.
  Control end();
  Control now() {
    begin();
    return end();
  }

 private:
  Control own() const;

  Communicator& communicator_;
  std::function<double()> seconds_;
  std::unique_ptr<PendingGather> pending_;
};

}  // namespace mtf
