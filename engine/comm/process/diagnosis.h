// Who is to blame when a process has lost another: from its own error and from what the others have published
// in the store.
//
//   publish_wait(store, rank, {.sequence = 17, .name = "all_reduce w over data", .bytes = 400, .peer = 2});
//   log(root_cause(store, rank, peers, error, std::chrono::seconds(2)));
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/comm/rendezvous/store.h"

namespace mtf {

/// A collective in which a process waits for a message.
struct PublishedWait {
  uint64_t sequence = 0;
  std::string name;
  int64_t bytes = 0;  ///< payload that this process sends
  int peer = -1;      ///< whose message it waits for
};

/// Key "waits/<rank>"; nothing: it no longer waits.
void publish_wait(Store& store, int rank, const std::optional<PublishedWait>& wait);
std::optional<PublishedWait> read_wait(Store& store, int rank);

/// Why two processes that wait cannot go on, where that follows from what they wait for: "rank 1 is in
/// collective 17 all_reduce b over rows (400 bytes), rank 0 in collective 17 ...: the processes do not run
/// the same program".
std::optional<std::string> disagreement(const std::string& peer, int rank, const PublishedWait& wait,
                                        const std::string& other_peer, int other_rank,
                                        const PublishedWait& other);

/// "rank 2 (node-b, process 812)" in a sentence of a transport, so that root_cause() can read it.
std::string lost_connection_text(const std::string& peer, const std::string& where,
                                 const std::string& reason);
std::string no_answer_text(const std::string& peer, bool sends, Milliseconds time, const std::string& where);

/// What is to be printed for `own`, an error of process `rank`. Where it is a lost peer: the first failure of
/// another kind that was published within `patience`; else the process whose connection was lost and that
/// published nothing; else two processes that do not run the same program; else the process that does not
/// answer while it waits for nobody; else the error itself. Never throws.
std::string root_cause(Store& store, int rank, const std::vector<std::string>& peers, const Error& own,
                       Milliseconds patience) noexcept;

}  // namespace mtf
