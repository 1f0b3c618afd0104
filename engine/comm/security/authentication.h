// Challenge and response: both ends of a connection prove that they know the run's secret, before either end
// trusts what the other one sends.
//
//   server -> client   Challenge: a nonce
//   client -> server   Response: its rank, its own nonce, its proof
//   server -> client   Verdict: whether the client is admitted, and the server's proof
//
// A proof is the HMAC of both nonces, the purpose of the connection, the client's rank and the side that
// makes it. Therefore it cannot be replayed on another connection, nor reflected on the same one. The
// messages that follow are neither encrypted nor signed.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

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
/// Returns false if `bytes`, the first bytes of a response so far, belong to another protocol.
bool may_be_response(std::string_view bytes);

struct Verdict {
  std::array<char, 4> admitted;  ///< "yes\n" or "no\n\n"
  Proof proof;
};

/// Returns the server's answer. `purpose` is the use of the connection; both ends must pass the same text.
Verdict judge(const Secret& secret, const std::string& purpose, const Challenge& challenge,
              const Response& response);
bool is_admitted(const Verdict& verdict);

/// The outcome of authentication for the client.
struct Authentication {
  enum class Outcome {
    kDone,
    kLost,         ///< the connection was closed or timed out; another attempt may succeed
    kForeign,      ///< the server speaks another protocol
    kOtherSecret,  ///< the secrets differ, or the server serves another purpose
  };
  Outcome outcome = Outcome::kDone;
  std::string reason;
};
Authentication authenticate(const Socket& socket, const Secret& secret, const std::string& purpose,
                            uint32_t rank, std::chrono::steady_clock::time_point deadline);

/// The hint for messages about kOtherSecret.
inline constexpr const char* kSameSecretHint =
    "the same secret in all processes, by MTF_SECRET or `cluster.secret_file`";

}  // namespace mtf
