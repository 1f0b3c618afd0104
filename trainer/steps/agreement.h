// What the processes of a run must decide alike: how late it is, and whether a signal asks it to stop.
//
//   Agreement agreement(communicator, [&] { return seconds_so_far; });
//   agreement.begin();            // before a step: what this process knows is on its way while the step runs
//   executor.run(step);
//   const Control now = agreement.end();
#pragma once

#include <functional>
#include <memory>

#include "engine/comm/communicator.h"

namespace mtf {

struct Control {
  double seconds = 0;  ///< by the clock of process 0
  int signal = 0;      ///< that any process has got (StopSignals); 0: none
};

/// Every process makes the same calls in the same order. Throws Error (kPeerLost).
class Agreement {
 public:
  /// `seconds`: the clock of this process.
  Agreement(Communicator& communicator, std::function<double()> seconds);

  void begin();
  /// One process: as of now; several: as of begin().
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
