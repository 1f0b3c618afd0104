#include "engine/backend/cuda/collectives/peer_watch.h"

#include <fmt/format.h>

#include "engine/base/error.h"

namespace mtf::cuda {
namespace {

constexpr Milliseconds kPause(50);

}  // namespace

PeerWatch::PeerWatch(std::function<void()> look, std::function<void()> end, Milliseconds timeout)
    : look_(std::move(look)),
      end_(std::move(end)),
      timeout_(timeout),
      thread_(kPause, [this] { return go_on(); }) {}

void PeerWatch::check() {
  const std::lock_guard lock(mutex_);
  if (error_) std::rethrow_exception(error_);
}

void PeerWatch::look() {
  look_();
  const Clock::time_point since = since_, now = Clock::now();
  if (since < now && now - since > timeout_) {
    throw Error(ErrorKind::kPeerLost,
                fmt::format("the GPU has not come to an end for {:g} s: another process takes no part in a "
                            "collective",
                            std::chrono::duration<double>(timeout_).count()));
  }
}

bool PeerWatch::go_on() {
  try {
    look();
    return true;
  } catch (...) {
    const std::lock_guard lock(mutex_);
    error_ = std::current_exception();  // set before end_() ends the wait of the thread that is to see it
  }
  end_();
  return false;
}

}  // namespace mtf::cuda
