// Messages over TCP by means of Gloo: one connection between each two processes, which both have confirmed.
//
//   std::unique_ptr<Transport> transport = connect_gloo({.store = store, .await = ..., .rank = 2, ...});
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/process/flight_record.h"
#include "engine/comm/process/transport.h"
#include "engine/comm/rendezvous/store.h"
#include "engine/comm/security/access.h"

namespace mtf {

struct GlooOptions {
  Store& store;  ///< keys "gloo/<rank>"
  /// The value of a key as soon as `peer` has set it. Throws Error where that one is lost or does not come.
  std::function<std::string(const std::string& key, int peer)> await;
  /// Throws Error where the run has failed meanwhile.
  std::function<void()> check;
  Access access;
  std::string session;  ///< what the processes of the run have in common, and no other run has
  int rank = 0;
  int size = 1;
  std::string address;  ///< IP address of this machine at which the others reach it
  Milliseconds connect_timeout{300'000};
  Milliseconds collective_timeout{600'000};  ///< of one wait for one message
  FlightRecord& record;                      ///< outlives the transport; is told what is waited for
  std::vector<std::string> peers;            ///< what messages call each rank: "rank 2 (node-b, process 812)"
};

/// Returns when this process is connected with all others. Throws Error (kPeerLost) that names one with which
/// it cannot be, and what `await` and `check` throw.
///
/// A connection that closes is noticed within a tenth of a second. Gloo ends the process from a thread of its
/// own when a message is longer than the receive that takes it; the tags of collectives prevent this. Should
/// it happen all the same, the process says in which collective, and ends with exit code 75.
std::unique_ptr<Transport> connect_gloo(const GlooOptions& options);

}  // namespace mtf
