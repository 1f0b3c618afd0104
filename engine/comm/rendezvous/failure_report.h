// Reports of failures, which the processes of a run exchange through the store.
//
//   publish(store, 2, error);
//   if (failed_rank(store, size)) ... read_failure(store, 2)->text ...
//
// The keys are "error/<rank>", and "failed" once there is a report.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "engine/base/error.h"
#include "engine/comm/rendezvous/store.h"

namespace mtf {

struct FailureReport {
  int64_t order = 0;  ///< 1 for the first failure that was reported
  ErrorKind kind = ErrorKind::kSystem;
  std::string text;

  /// True if the failure is most likely a consequence of another one.
  bool is_lost_peer() const { return kind == ErrorKind::kPeerLost; }
};

void publish(Store& store, int rank, const Error& error);
/// Returns a process that has published a failure: one of the first `size` ranks that has a report and has
/// not left a successful run.
std::optional<int> failed_rank(Store& store, int size);
/// Returns the report of process `rank`, or nothing if there is no valid one.
std::optional<FailureReport> read_failure(Store& store, int rank);
/// Returns the key that a process sets at the end of a successful run.
std::string left_key(int rank);
/// Returns an error with the text, perhaps of several lines, of another process.
Error error_of_text(ErrorKind kind, const std::string& text);

}  // namespace mtf
