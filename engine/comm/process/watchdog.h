// Says which process waits for which, long before the wait ends in an error.
//
//   Watchdog watchdog(record, store, rank, peers, std::chrono::minutes(10), log);
//   "rank 3 waits 300 s for rank 2 (10.0.0.5, process 812) in all_reduce w over data (collective 17, 4.2 MB)"
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "engine/base/periodic_thread.h"
#include "engine/comm/process/diagnosis.h"
#include "engine/comm/process/flight_record.h"
#include "engine/comm/rendezvous/store.h"

namespace mtf {

/// A thread that looks at what this process waits for. Once a wait has lasted for half of the timeout, it
/// logs one line, tells the others through the store, and compares with what they tell: processes that do not
/// run the same program are named. It logs again at the timeout.
class Watchdog {
 public:
  /// `log` is called in the watchdog's thread. `peers`: what messages call each rank.
  Watchdog(const FlightRecord& record, Store& store, int rank, std::vector<std::string> peers,
           Milliseconds collective_timeout, std::function<void(const std::string& line)> log);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

 private:
  void look();
  void compare(const PublishedWait& wait);

  const FlightRecord& record_;
  Store& store_;
  const int rank_;
  const std::vector<std::string> peers_;
  const Milliseconds timeout_;
  const std::function<void(const std::string& line)> log_;

  uint64_t sequence_ = 0;    ///< of the collective that was last logged
  int lines_ = 0;            ///< that were logged for it
  std::set<int> differing_;  ///< ranks that were named for it
  bool published_ = false;

  PeriodicThread thread_;
};

}  // namespace mtf
