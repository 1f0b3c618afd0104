// The watchdog reports which process waits for which, long before the wait ends in an error.
//
//   Watchdog watchdog(record, store, rank, peers, std::chrono::minutes(10), log);
//   // logs "rank 3 waits 300 s for rank 2 (10.0.0.5, process 812) in all_reduce w over data (collective 17,
//   // 4.2 MB)"
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "engine/base/periodic_thread.h"
#include "engine/comm/process/diagnosis.h"
#include "engine/comm/process/flight_record.h"
#include "engine/comm/rendezvous/store.h"

namespace mtf {

/// A thread that observes what this process waits for. When a wait has lasted for half of the timeout, it
/// logs one line, publishes the wait in the store, and compares it with the waits of the others: processes
/// that do not run the same program are reported. It logs again shortly before the timeout.
class Watchdog {
 public:
  /// `log` is called in the watchdog's thread. `peers` are the names of the ranks in messages.
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

  uint64_t sequence_ = 0;    ///< sequence number of the collective that was last logged
  int lines_ = 0;            ///< number of lines logged for it
  std::set<int> differing_;  ///< ranks reported for it
  bool published_ = false;

  PeriodicThread thread_;
};

}  // namespace mtf
