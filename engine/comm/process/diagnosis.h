// Finds the root cause when a process has lost another one: from its own error and from what the other
// processes have published in the store.
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
  int64_t bytes = 0;  ///< payload bytes that this process sends
  int peer = -1;      ///< the process whose message it waits for
};

/// Sets the key "waits/<rank>"; nothing means that the process no longer waits.
void publish_wait(Store& store, int rank, const std::optional<PublishedWait>& wait);
std::optional<PublishedWait> read_wait(Store& store, int rank);

/// Returns why two processes that wait can never continue, if this follows from what they wait for: "rank 1
/// is in collective 17 all_reduce b over rows (400 bytes), rank 0 in collective 17 ...: the processes do not
/// run the same program".
std::optional<std::string> disagreement(const std::string& peer, int rank, const PublishedWait& wait,
                                        const std::string& other_peer, int other_rank,
                                        const PublishedWait& other);

/// Return the messages of a transport about a peer such as "rank 2 (node-b, process 812)"; root_cause()
/// parses them.
std::string lost_connection_text(const std::string& peer, const std::string& where,
                                 const std::string& reason);
std::string no_answer_text(const std::string& peer, bool sends, Milliseconds time, const std::string& where);

/// Returns the message to print for `own`, an error of process `rank`. If it is a lost peer, the message
/// names the first of these that exists: the first failure of another kind that was published within
/// `patience`; the process whose connection was lost and that published nothing; two processes that do not
/// run the same program; the process that does not answer while it waits for nobody. Otherwise it is the
/// error itself. Never throws.
std::string root_cause(Store& store, int rank, const std::vector<std::string>& peers, const Error& own,
                       Milliseconds patience) noexcept;

}  // namespace mtf
