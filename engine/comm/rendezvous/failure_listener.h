// Hears that another process has failed while this one computes, or waits for a third that will never send.
//
//   FailureListener listener(store, [&](int rank) { transport.abort(name(rank) + " has failed"); });
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "engine/comm/rendezvous/store.h"

namespace mtf {

class FailureListener {
 public:
  /// `heard` is called once, in the listener's thread, with a rank that has published a failure: a little
  /// later, so that what it had sent before arrives. Not where the store is lost: who waits will notice.
  FailureListener(Store& store, std::function<void(int rank)> heard);
  ~FailureListener();
  FailureListener(const FailureListener&) = delete;
  FailureListener& operator=(const FailureListener&) = delete;

 private:
  void run();
  /// False: stop.
  bool pause(Milliseconds time);

  Store& store_;
  const std::function<void(int rank)> heard_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace mtf
