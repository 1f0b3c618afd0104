// Heartbeats in the store show others who wait for a process that it is alive during a long task.
//
//   Heartbeat heartbeat(store, rank, interval);      // beats until it is destroyed
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

  /// Returns the last heartbeat of a process: a text that changes after each interval; empty if there is
  /// none.
  static std::string last(Store& store, int rank);

 private:
  /// Returns false if the store is lost.
  bool beat();

  Store& store_;
  const int rank_;
  int64_t beats_ = 0;
  PeriodicThread thread_;
};

}  // namespace mtf
