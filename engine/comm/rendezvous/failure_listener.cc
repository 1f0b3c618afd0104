#include "engine/comm/rendezvous/failure_listener.h"

#include <exception>
#include <optional>

#include "engine/comm/rendezvous/failure_report.h"

namespace mtf {

namespace {

/// How often the store is asked, and how long after a failure it is told. Process 0 serves the store for 2 s
/// after a failure of its own: by then all must know.
constexpr Milliseconds kListenPause(250), kArrival(250);

}  // namespace

FailureListener::FailureListener(Store& store, std::function<void(int rank)> heard)
    : store_(store), heard_(std::move(heard)), thread_([this] { run(); }) {}

FailureListener::~FailureListener() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_one();
  thread_.join();
}

bool FailureListener::pause(Milliseconds time) {
  std::unique_lock lock(mutex_);
  return !stopped_.wait_for(lock, time, [&] { return stop_; });
}

void FailureListener::run() {
  try {
    while (pause(kListenPause)) {
      const std::optional<int> failed = failed_rank(store_);
      if (!failed) continue;
      if (pause(kArrival)) heard_(*failed);
      return;
    }
  } catch (const std::exception&) {
  }
}

}  // namespace mtf
