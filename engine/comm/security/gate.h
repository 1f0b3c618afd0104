// A port at which those are let in who prove that they know the run's secret. Others neither keep them
// waiting nor cost more than a bounded number of descriptors, each for a few seconds.
//
//   Gate gate(listen_for_members({"10.0.0.1", 29500}, access, "the store"), access.secret, "store");
//   std::optional<Admitted> member = gate.next(deadline);
//
// A loop that waits for more than the gate asks it for what to poll:
//   gate.add_to(polled); poll(polled, ..., gate.is_busy() ? 500 : -1); for (Admitted& member : gate.turn())
//   ...
#pragma once

#include <poll.h>

#include <chrono>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "engine/comm/security/authentication.h"
#include "engine/comm/sockets/socket.h"

namespace mtf {

/// A connection whose other end knows the secret, and says that it is `rank`.
struct Admitted {
  Socket socket;
  int rank = -1;
};

class Gate {
 public:
  Gate(Listening listening, Secret secret, std::string purpose);

  int port() const { return port_of(listeners_.front()); }
  /// Waits for the next one; nothing: until the deadline there was none.
  std::optional<Admitted> next(std::chrono::steady_clock::time_point deadline);
  /// The addresses of the last client whose proof was wrong, and of the last that spoke another protocol;
  /// empty: there was none.
  const std::string& refused() const { return refused_; }
  const std::string& foreign() const { return foreign_; }

  void add_to(std::vector<pollfd>& polled) const;
  /// Somebody has to be given up in time: turn() is to be called twice a second.
  bool is_busy() const { return !visitors_.empty() || !can_accept_; }
  /// Does what can be done without waiting; those that are let in thereby.
  std::vector<Admitted> turn();

 private:
  /// Somebody who has not proved anything yet.
  struct Visitor {
    Socket socket;
    std::string host, address;  ///< the latter with its port
    Challenge challenge;
    std::chrono::steady_clock::time_point since;
    std::string received = {};
  };

  void accept_all();
  void make_room();
  /// False: this is no visitor any more.
  bool hear(Visitor& visitor, std::vector<Admitted>& admitted);

  std::vector<Socket> listeners_;
  Secret secret_;
  std::string purpose_;
  std::list<Visitor> visitors_;  ///< the oldest first
  std::vector<Admitted> waiting_;
  bool can_accept_ = true;  ///< false: no descriptor was free
  std::string refused_, foreign_;
};

}  // namespace mtf
