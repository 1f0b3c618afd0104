#include "engine/comm/rendezvous/heartbeat.h"

#include <fmt/format.h>

#include "engine/core/error.h"

namespace mtf {
namespace {

std::string heartbeat_key(int rank) { return fmt::format("alive/{}", rank); }

}  // namespace

Heartbeat::Heartbeat(Store& store, int rank, Milliseconds interval)
    : store_(store), rank_(rank), thread_([this, interval] { run(interval); }) {}

Heartbeat::~Heartbeat() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::string Heartbeat::last(Store& store, int rank) {
  return store.get(heartbeat_key(rank), Milliseconds(0)).value_or("");
}

void Heartbeat::run(Milliseconds interval) {
  std::unique_lock lock(mutex_);
  for (int64_t beat = 1; !stop_; ++beat) {
    lock.unlock();
    try {
      store_.set(heartbeat_key(rank_), fmt::to_string(beat));
    } catch (const Error&) {
      return;  // the store is lost, which those who use it for more will say
    }
    lock.lock();
    changed_.wait_for(lock, interval, [this] { return stop_; });
  }
}

}  // namespace mtf
