// A sign of life in the store: who waits for a process that is at work on something long sees that it is.
//
//   Heartbeat heartbeat(store, rank, interval);      // for as long as it lives
//   const std::string before = Heartbeat::last(store, 2); ...; Heartbeat::last(store, 2) != before
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "engine/comm/rendezvous/store.h"

namespace mtf {

class Heartbeat {
 public:
  Heartbeat(Store& store, int rank, Milliseconds interval);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// What the process has last said of itself: another text after each interval; empty: nothing yet.
  static std::string last(Store& store, int rank);

 private:
  void run(Milliseconds interval);

  Store& store_;
  const int rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace mtf
