// Listens for failures of other processes while this one computes, or waits for a process that will never
// send.
//
//   FailureListener listener(store, size, [&](int rank) { transport.abort(name(rank) + " has failed"); });
#pragma once

#include <functional>
#include <optional>

#include "engine/base/periodic_thread.h"
#include "engine/comm/rendezvous/store.h"

namespace mtf {

class FailureListener {
 public:
  /// `heard` is called once, in the listener's thread, with a rank that has published a failure. The call is
  /// delayed a little, so that messages that were sent before the failure arrive. If the store is lost it is
  /// not called; whoever waits notices that.
  FailureListener(Store& store, int size, std::function<void(int rank)> heard);
  FailureListener(const FailureListener&) = delete;
  FailureListener& operator=(const FailureListener&) = delete;

 private:
  /// Returns false if there is nothing more to listen for.
  bool listen();

  Store& store_;
  const int size_;
  const std::function<void(int rank)> heard_;
  std::optional<int> failed_;
  PeriodicThread thread_;
};

}  // namespace mtf
