// What the processes of a run tell each other in the store when one of them fails.
//
//   publish(store, 2, error);
//   if (failed_rank(store)) ... read_failure(store, 2)->text ...
//
// Keys: "error/<rank>", and "failed" once there is any.
#pragma once

#include <optional>
#include <string>

#include "engine/base/error.h"
#include "engine/comm/rendezvous/store.h"

namespace mtf {

struct FailureReport {
  int64_t order = 0;  ///< 1: the first failure that was reported
  ErrorKind kind = ErrorKind::kSystem;
  std::string text;

  /// Most likely a consequence of another failure.
  bool is_lost_peer() const { return kind == ErrorKind::kPeerLost; }
};

void publish(Store& store, int rank, const Error& error);
/// A process that has published a failure: one of the first `size` ranks, whose report is there, and that has
/// not come to the end.
std::optional<int> failed_rank(Store& store, int size);
/// What process `rank` has published so far; nothing where that is no report.
std::optional<FailureReport> read_failure(Store& store, int rank);
/// Set by a process that has come to the end of a run that went well.
std::string left_key(int rank);
/// An error in the words, perhaps several lines, of another process.
Error error_of_text(ErrorKind kind, const std::string& text);

}  // namespace mtf
