#include "engine/comm/security/authentication.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "engine/base/error.h"

namespace mtf {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<char, 4> kYes{'y', 'e', 's', '\n'}, kNo{'n', 'o', '\n', '\n'};
static_assert(sizeof(Challenge) == 40 && sizeof(Response) == 76 && sizeof(Verdict) == 36);

template <size_t size>
void fill_randomly(std::array<char, size>& bytes) {
  std::ranges::copy(random_bytes(size), bytes.begin());
}

template <size_t size>
std::string_view view(const std::array<char, size>& bytes) {
  return {bytes.data(), size};
}

enum class Side { kServer, kClient };

Proof proof_of(Side side, const Secret& secret, const std::string& purpose, const Challenge& challenge,
               const Response& response) {
  return secret.proof({side == Side::kServer ? "server" : "client", purpose, view(challenge.nonce),
                       std::to_string(response.rank), view(response.nonce)});
}

/// Receives the whole message. Returns an empty text, or why it failed.
template <class Message>
std::string receive(const Socket& socket, Message& message, Clock::time_point deadline) {
  auto* bytes = reinterpret_cast<char*>(&message);
  for (size_t done = 0; done < sizeof message;) {
    if (!wait_readable(socket, deadline)) return "it does not answer";
    const ssize_t more = ::recv(socket.get(), bytes + done, sizeof message - done, 0);
    if (more > 0)
      done += static_cast<size_t>(more);
    else if (more == 0)
      return "it closed the connection";
    else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
      return system_message(errno);
  }
  return {};
}

}  // namespace

Challenge Challenge::make() {
  Challenge challenge;
  fill_randomly(challenge.nonce);
  return challenge;
}

bool may_be_response(std::string_view bytes) {
  const std::string_view magic = view(kAuthenticationMagic);
  return bytes.substr(0, magic.size()) == magic.substr(0, bytes.size());
}

Verdict judge(const Secret& secret, const std::string& purpose, const Challenge& challenge,
              const Response& response) {
  const Proof right = proof_of(Side::kClient, secret, purpose, challenge, response);
  if (!same_bytes(text_of(right), text_of(response.proof))) return {kNo, {}};
  return {kYes, proof_of(Side::kServer, secret, purpose, challenge, response)};
}

bool is_admitted(const Verdict& verdict) { return verdict.admitted == kYes; }

Authentication authenticate(const Socket& socket, const Secret& secret, const std::string& purpose,
                            uint32_t rank, Clock::time_point deadline) {
  using Outcome = Authentication::Outcome;
  Challenge challenge;
  // Another program may send less than a challenge and then wait.
  if (const std::string lost = receive(socket, challenge.magic, deadline); !lost.empty())
    return {Outcome::kLost, lost};
  if (challenge.magic != kAuthenticationMagic) return {Outcome::kForeign, "it speaks another protocol"};
  if (const std::string lost = receive(socket, challenge.nonce, deadline); !lost.empty())
    return {Outcome::kLost, lost};
  Response response{.rank = rank};
  fill_randomly(response.nonce);
  response.proof = proof_of(Side::kClient, secret, purpose, challenge, response);
  // The send buffer of a new connection has room for it.
  if (::send(socket.get(), &response, sizeof response, MSG_NOSIGNAL) != sizeof response)
    return {Outcome::kLost, "it closed the connection"};
  Verdict verdict{};
  if (const std::string lost = receive(socket, verdict, deadline); !lost.empty())
    return {Outcome::kLost, lost};
  if (!is_admitted(verdict)) return {Outcome::kOtherSecret, "it does not admit this process"};
  if (!same_bytes(text_of(verdict.proof),
                  text_of(proof_of(Side::kServer, secret, purpose, challenge, response))))
    return {Outcome::kOtherSecret, "it does not know the secret of this run"};
  return {};
}

}  // namespace mtf
