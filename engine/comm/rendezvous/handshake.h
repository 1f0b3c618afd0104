// What the processes of a run say about themselves before they begin, and what they must have in common.
//
//   const ProcessHello mine = hello_of_this_process(launch, build, address);
//   store.set("hello/2", to_text(mine));
//   const std::string wrong = difference(hello_of_rank_0, mine);  // names what differs
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "engine/comm/launch/launch.h"

namespace mtf {

/// Of the messages between processes; another one cannot take part.
inline constexpr int kProcessProtocol = 1;

struct ProcessHello {
  int protocol = kProcessProtocol;
  int rank = 0;
  int size = 1;
  std::string build;          ///< version and hash of the program
  std::string host;           ///< name of the machine
  int64_t process = 0;        ///< its number there
  std::string address;        ///< at which the others reach it, in numbers
  std::string store_address;  ///< at which it reaches the store, in numbers
  std::string nonce;          ///< no two processes, of any run, have the same

  /// "rank 2 (node-b, process 812)".
  std::string name() const;
};

ProcessHello hello_of_this_process(const Launch& launch, const std::string& build,
                                   const std::string& address);
std::string to_text(const ProcessHello& hello);
/// Reads what to_text() wrote. Throws Error (kConfig) for other texts, as the functions below do.
ProcessHello hello_from_text(const std::string& text);
std::string to_text(const std::vector<ProcessHello>& members);
std::vector<ProcessHello> members_from_text(const std::string& text);

/// Why `other` cannot be in a run with `first`, which is rank 0; empty: it can.
std::string difference(const ProcessHello& first, const ProcessHello& other);

/// A machine may know itself by a loopback address ("127.0.1.1 node-a" in /etc/hosts), at which nobody else
/// reaches it. Its processes get the address at which those of other machines reach its store.
void replace_loopback_addresses(std::vector<ProcessHello>& members);

/// Names and values.
using Fields = std::vector<std::pair<std::string, std::string>>;
std::string to_text(const Fields& fields);
Fields fields_from_text(const std::string& text);
/// The first field, in the order of `first_fields`, in which `other` differs; empty: none.
std::string difference(const ProcessHello& first, const Fields& first_fields, const ProcessHello& other,
                       const Fields& other_fields);

}  // namespace mtf
