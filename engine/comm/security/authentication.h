// Challenge and response: both ends of a connection prove that they know the run's secret, before either
// believes a byte of what the other sends.
//
//   server -> client   Challenge: a nonce
//   client -> server   Response: its rank, a nonce of its own, its proof
//   server -> client   Verdict: whether it is admitted, and the server's proof
//
// A proof is the HMAC of both nonces, the purpose of the connection, the client's rank and the side that
// makes it: what was heard on one connection is of no use on another, nor sent back on the same. The messages
// that follow are neither encrypted nor signed.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "engine/comm/security/secret.h"
#include "engine/comm/sockets/socket.h"

namespace mtf {

inline constexpr std::array<char, 8> kAuthenticationMagic{'M', 'T', 'F', 'a', 'u', 't', 'h', '1'};

struct Challenge {
  std::array<char, 8> magic = kAuthenticationMagic;
  std::array<char, 32> nonce = {};

  static Challenge make();
};

struct Response {
  std::array<char, 8> magic = kAuthenticationMagic;
  uint32_t rank = 0;
  std::array<char, 32> nonce = {};
  Proof proof = {};
};
/// `bytes`: the first bytes of a response, as many as have come. False where they are another protocol's.
bool may_be_response(std::string_view bytes);

struct Verdict {
  std::array<char, 4> admitted;  ///< "yes\n" or "no\n\n"
  Proof proof;
};

/// The server's answer. `purpose`: what the connection is for, the same text at both ends.
Verdict judge(const Secret& secret, const std::string& purpose, const Challenge& challenge,
              const Response& response);
bool is_admitted(const Verdict& verdict);

/// How the client's side of it ended.
struct Authentication {
  enum class Outcome {
    kDone,
    kLost,         ///< the connection was closed, or nothing came in time: perhaps worth another try
    kForeign,      ///< what answers speaks another protocol
    kOtherSecret,  ///< one of both does not know the other's secret, or it serves another purpose
  };
  Outcome outcome = Outcome::kDone;
  std::string reason;
};
Authentication authenticate(const Socket& socket, const Secret& secret, const std::string& purpose,
                            uint32_t rank, std::chrono::steady_clock::time_point deadline);

/// For messages about kOtherSecret.
inline constexpr const char* kSameSecretHint =
    "the same secret in all processes, by MTF_SECRET or `cluster.secret_file`";

}  // namespace mtf
