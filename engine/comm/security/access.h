// Who may take part in a run: whoever knows its secret; without one, whoever is on this machine.
//
//   const Access access = find_access(cluster_options, environment_of_process());
//   Listening listening = listen_for_members({"10.0.0.1", 29500}, access, "the store");
//   access.require(peer_host(socket), {"10.0.0.1", 29500});
#pragma once

#include <string>

#include "engine/base/error.h"
#include "engine/comm/launch/launch.h"
#include "engine/comm/security/secret.h"
#include "engine/comm/sockets/socket.h"

namespace mtf {

struct Access {
  Secret secret;
  bool insecure = false;  ///< other machines are served without a secret

  /// Machines beside this one may be reached.
  bool is_wide() const { return secret.is_given() || insecure; }
  /// `numbers`: an IP address that is to be used. Throws Error (kConfig) that says what to set where it
  /// is not a loopback address and there is no secret.
  void require(const std::string& numbers, const HostPort& address) const;
  /// The same, before anything is sent to a host that is certainly not this machine alone.
  void require(const HostPort& address) const;
};

/// What a process is told of the secret in its environment. It comes before `cluster.secret_file`, because
/// mtf-launch sets it for the processes that it starts.
inline constexpr const char* kSecretVariable = "MTF_SECRET";

/// The secret of the environment or of the file that `options` names. Throws Error (kConfig; kUsage for the
/// environment) where the file cannot be read, and for a secret that is too short.
Access find_access(const ClusterOptions& options, const Environment& environment);

/// Listens where `address` is on this machine, and nowhere else; without access for others on its loopback
/// addresses alone. A machine may know its own name by a loopback address only ("127.0.1.1 node-a" in
/// /etc/hosts), while others know it by another one: then all its addresses are meant. Throws Error
/// (kConfig) as Access::require() does, (kSystem) "cannot serve `what` at port ...".
Listening listen_for_members(const HostPort& address, const Access& access, std::string_view what);

}  // namespace mtf
