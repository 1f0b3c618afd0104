// Access control of a run: processes that know its secret may take part, or, without a secret, those on this
// machine.
//
//   const Access access = find_access(cluster_options, environment_of_process());
//   Listening listening = listen_for_members({"10.0.0.1", 29500}, access, "the store");
//   access.require(opened.host, {"10.0.0.1", 29500});   // opened: a connection to it
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "engine/base/error.h"
#include "engine/comm/launch/launch.h"
#include "engine/comm/security/secret.h"
#include "engine/comm/sockets/socket.h"

namespace mtf {

struct Access {
  Secret secret;
  bool insecure = false;  ///< true if other machines are served without a secret

  /// True if machines other than this one may be reached.
  bool is_wide() const { return secret.is_given() || insecure; }
  /// Checks that the IP address `numbers` may be used. Throws Error (kConfig) that says what to set if it is
  /// not a loopback address and there is no secret.
  void require(const std::string& numbers, const HostPort& address) const;
  /// Does the same before anything is sent to a host that is certainly not only this machine.
  void require(const HostPort& address) const;
};

/// The environment variable with the secret. It takes precedence over `cluster.secret_file`, because
/// mtf-launch sets it for the processes that it starts.
inline constexpr const char* kSecretVariable = "MTF_SECRET";

/// Returns the secret of the environment, or of the file that `options` names. Throws Error (kConfig; kUsage
/// for the environment) if the file cannot be read or the secret is too short.
Access find_access(const ClusterOptions& options, const Environment& environment);

/// Listens at `address`, which must be on this machine; without access for other machines only at loopback
/// addresses. If the machine knows its own name only by a loopback address ("127.0.1.1 node-a" in
/// /etc/hosts), while others know it by another one, it listens at all addresses. A name that nobody knows yet, as that of a
/// container that has just been started, may become known within `patience`, but at most a minute; a line says so. Throws Error
/// (kConfig) as Access::require() does, and (kSystem) "cannot serve `what` at port ...".
Listening listen_for_members(const HostPort& address, const Access& access, std::string_view what,
                             std::chrono::milliseconds patience = {});

}  // namespace mtf
