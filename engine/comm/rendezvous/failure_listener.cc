#include "engine/comm/rendezvous/failure_listener.h"

#include <exception>

#include "engine/comm/rendezvous/failure_report.h"

namespace mtf {

namespace {

/// The interval at which the listener checks the store, and by which it delays the call. Process 0 serves the
/// store for 2 s after its own failure; by then all processes must have heard of it.
constexpr Milliseconds kListenPause(250);

}  // namespace

FailureListener::FailureListener(Store& store, int size, std::function<void(int rank)> heard)
    : store_(store),
      size_(size),
      heard_(std::move(heard)),
      thread_(kListenPause, [this] { return listen(); }) {}

bool FailureListener::listen() {
  try {
    if (failed_) {
      heard_(*failed_);
      return false;
    }
    failed_ = failed_rank(store_, size_);
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

}  // namespace mtf
