#include "engine/comm/rendezvous/heartbeat.h"

#include <fmt/format.h>

#include "engine/base/error.h"

namespace mtf {
namespace {

std::string heartbeat_key(int rank) { return fmt::format("alive/{}", rank); }

}  // namespace

Heartbeat::Heartbeat(Store& store, int rank, Milliseconds interval)
    : store_(store), rank_(rank), thread_(interval, [this] { return beat(); }) {}

std::string Heartbeat::last(Store& store, int rank) {
  return store.get(heartbeat_key(rank), Milliseconds(0)).value_or("");
}

bool Heartbeat::beat() {
  try {
    store_.set(heartbeat_key(rank_), fmt::to_string(++beats_));
    return true;
  } catch (const Error&) {
    return false;  // other uses of the store report that it is lost
  }
}

}  // namespace mtf
