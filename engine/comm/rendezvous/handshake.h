// The handshake of the processes of a run: they describe themselves, and their descriptions must agree.
//
//   const ProcessHello mine = hello_of_this_process(launch, build, address);
//   store.set("hello/2", to_text(mine));
//   const std::string wrong = difference(hello_of_rank_0, mine);  // describes what differs
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/comm/launch/launch.h"

namespace mtf {

/// The version of the messages between processes; all processes must have the same.
inline constexpr int kProcessProtocol = 1;

struct ProcessHello {
  int protocol = kProcessProtocol;
  int rank = 0;
  int size = 1;
  std::string build;    ///< version and hash of the executable
  std::string host;     ///< name of the machine
  std::string machine;  ///< machine_id(): other machines may have the same name, and containers have others
  int64_t process = 0;  ///< process id
  std::string address;  ///< IP address at which the others reach it
  std::string store_address;  ///< its own IP address on the way to the store
  std::string nonce;          ///< unique among all processes of all runs

  /// Returns "rank 2 (node-b, process 812)".
  std::string name() const;
};

ProcessHello hello_of_this_process(const Launch& launch, const std::string& build,
                                   const std::string& address);
/// Returns the ProcessHello::name() of this process.
std::string process_name(const Launch& launch);
std::string to_text(const ProcessHello& hello);
/// Parses the text that to_text() returned. Throws Error (kConfig) for other texts, as the functions below
/// do.
ProcessHello hello_from_text(const std::string& text);
std::string to_text(const std::vector<ProcessHello>& members);
std::vector<ProcessHello> members_from_text(const std::string& text);

/// Returns why `other` cannot be in a run with `first`, which is rank 0; empty if it can.
std::string difference(const ProcessHello& first, const ProcessHello& other);

/// Replaces loopback addresses. A machine may know itself by one ("127.0.1.1 node-a" in /etc/hosts), at which
/// no other machine reaches it; its processes get the address at which those of other machines reach its
/// store.
void replace_loopback_addresses(std::vector<ProcessHello>& members);

/// Names with values.
using Fields = std::vector<std::pair<std::string, std::string>>;
std::string to_text(const Fields& fields);
Fields fields_from_text(const std::string& text);
/// Describes the first field, in the order of `first_fields`, in which `other` differs; empty if none does.
std::string difference(const ProcessHello& first, const Fields& first_fields, const ProcessHello& other,
                       const Fields& other_fields);

}  // namespace mtf
