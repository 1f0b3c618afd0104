// A port that only admits clients that prove that they know the run's secret. Other clients do not delay
// them, and occupy a bounded number of descriptors for a few seconds each.
//
//   Gate gate(listen_for_members({"10.0.0.1", 29500}, access, "the store"), access.secret, "store");
//   std::optional<Admitted> member = gate.next(deadline);
//
// A loop that also waits for other events polls the gate's descriptors:
//   gate.add_to(polled);
//   poll(polled.data(), polled.size(), gate.is_busy() ? 500 : -1);
//   for (Admitted& member : gate.turn()) ...
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

/// A connection whose other end knows the secret and claims to be `rank`.
struct Admitted {
  Socket socket;
  int rank = -1;
};

class Gate {
 public:
  Gate(Listening listening, Secret secret, std::string purpose);

  int port() const { return port_of(listeners_.front()); }
  /// Waits for the next client; returns nothing if none was admitted until the deadline.
  std::optional<Admitted> next(std::chrono::steady_clock::time_point deadline);
  /// The address of the last client whose proof was wrong, and of the last one that spoke another protocol;
  /// empty if there was none.
  const std::string& refused() const { return refused_; }
  const std::string& foreign() const { return foreign_; }

  void add_to(std::vector<pollfd>& polled) const;
  /// True if some visitor may time out: turn() must then be called twice a second.
  bool is_busy() const { return !visitors_.empty() || !can_accept_; }
  /// Does what can be done without waiting; returns the clients that were admitted.
  std::vector<Admitted> turn();

 private:
  /// A client that has not proved anything yet.
  struct Visitor {
    Socket socket;
    std::string host, address;  ///< `address` has the port as well
    Challenge challenge;
    std::chrono::steady_clock::time_point since;
    std::string received = {};
  };

  void accept_all();
  void make_room();
  /// Returns false if the visitor was admitted or rejected.
  bool hear(Visitor& visitor, std::vector<Admitted>& admitted);

  std::vector<Socket> listeners_;
  Secret secret_;
  std::string purpose_;
  std::list<Visitor> visitors_;  ///< the oldest first
  std::vector<Admitted> waiting_;
  bool can_accept_ = true;  ///< false if no descriptor was free
  std::string refused_, foreign_;
};

}  // namespace mtf
