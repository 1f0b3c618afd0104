// The time for which threads of this process could have computed but had no core: other programs had it, or the host of a
// virtual machine gave it to another one. What is measured meanwhile takes too long.
//
//   const CoreWaits waits;
//   measure();
//   if (const std::string disturbed = waits.description(); !disturbed.empty()) log("warning: " + disturbed);
#pragma once

#include <chrono>
#include <string>

namespace mtf {

class CoreWaits {
 public:
  CoreWaits();
  /// Seconds since the construction, summed over the threads that exist now; 0 if the system does not say.
  double of_threads() const;
  /// Seconds since the construction for which the host of this virtual machine kept a core back, the mean of its cores.
  double of_cores() const;
  /// "other programs had cores of this one for 0.52 s of 3.1 s: times are too long"; empty for less than 2 %.
  std::string description() const;

 private:
  const std::chrono::steady_clock::time_point begin_;
  const double threads_, cores_;
};

}  // namespace mtf
