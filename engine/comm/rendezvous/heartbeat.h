// A sign of life in the store: who waits for a process that is at work on something long sees that it is.
//
//   Heartbeat heartbeat(store, rank, interval);      // for as long as it lives
//   const std::string before = Heartbeat::last(store, 2); ...; Heartbeat::last(store, 2) != before
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/periodic_thread.h"
#include "engine/comm/rendezvous/store.h"

namespace mtf {

class Heartbeat {
 public:
  Heartbeat(Store& store, int rank, Milliseconds interval);
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// What the process has last said of itself: another text after each interval; empty: nothing yet.
  static std::string last(Store& store, int rank);

 private:
  /// False: the store is lost.
  bool beat();

  Store& store_;
  const int rank_;
  int64_t beats_ = 0;
  PeriodicThread thread_;
};

}  // namespace mtf
