// A record of choices among algorithms that were made by measuring, so that all processes of a run, and a run
// that goes on, make the same ones and have the same bits.
#pragma once

#include <functional>
#include <string>

namespace mtf {

class TuningRecord {
 public:
  virtual ~TuningRecord() = default;
  /// The choice for `problem`: the recorded one, or else what measure() returns in one of the processes.
  virtual int choose(const std::string& problem, const std::function<int()>& measure) = 0;
};

}  // namespace mtf
