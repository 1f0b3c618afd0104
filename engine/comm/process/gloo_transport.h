// A transport over TCP that uses Gloo, with one authenticated connection between each two processes. Messages within a machine
// go from memory to memory where the system allows it; the connection then only shows that the peer lives.
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
  Store& store;  ///< holds the keys "gloo/<rank>"
  /// Returns the value of a key as soon as `peer` has set it. Throws Error if that process is lost or late.
  std::function<std::string(const std::string& key, int peer)> await;
  /// Throws Error if the run has failed meanwhile.
  std::function<void()> check;
  Access access;
  std::string session;  ///< identifies this start of the run: all its processes have it, and no others
  int rank = 0;
  int size = 1;
  bool local = true;    ///< messages within the machine go from memory to memory, if the peer wants it, too
  std::string address;  ///< IP address at which the other processes reach this machine
  Milliseconds connect_timeout{300'000};
  Milliseconds collective_timeout{600'000};  ///< for one wait for one message
  FlightRecord& record;                      ///< records what is waited for; must outlive the transport
  std::vector<std::string> peers;            ///< name of each rank: "rank 2 (node-b, process 812)"
  std::vector<std::string> machines = {};    ///< machine_id() of each rank; none or empty: unknown
  /// Is told if the memory of a process of the same machine cannot be read.
  std::function<void(const std::string& line)> log = {};
};

/// Returns when this process is connected to all others. Throws Error (kPeerLost) that names a process to
/// which it cannot connect, and what `await` and `check` throw.
///
/// A closed connection is noticed within a tenth of a second. If a message is longer than the receive that
/// takes it, Gloo ends the process from its own thread. The tags of collectives prevent this; should it
/// happen all the same, the process prints the collective and ends with exit code 75.
std::unique_ptr<Transport> connect_gloo(const GlooOptions& options);

}  // namespace mtf
