// Hears that another process has failed while this one computes, or waits for a third that will never send.
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
  /// `heard` is called once, in the listener's thread, with a rank that has published a failure: a little
  /// later, so that what it had sent before arrives. Not where the store is lost: who waits will notice.
  FailureListener(Store& store, int size, std::function<void(int rank)> heard);
  FailureListener(const FailureListener&) = delete;
  FailureListener& operator=(const FailureListener&) = delete;

 private:
  /// False: there is nothing left to hear.
  bool listen();

  Store& store_;
  const int size_;
  const std::function<void(int rank)> heard_;
  std::optional<int> failed_;
  PeriodicThread thread_;
};

}  // namespace mtf
