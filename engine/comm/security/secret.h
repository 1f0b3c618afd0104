// What the processes of a run know and nobody else: it lets them prove to each other that they are of the
// run.
//
//   const Secret secret = Secret::random();
//   const Proof proof = secret.proof({"store", nonce});       // HMAC-SHA256
//   if (same_bytes(proof, received)) ...
#pragma once

#include <array>
#include <initializer_list>
#include <string>
#include <string_view>

namespace mtf {

/// HMAC-SHA256 (RFC 2104).
using Proof = std::array<char, 32>;

class Secret {
 public:
  /// A shorter one can be guessed.
  static constexpr size_t kShortest = 16;

  /// None: its proofs are those that everybody can make.
  Secret() = default;
  explicit Secret(std::string text) : text_(std::move(text)) {}
  /// 64 hexadecimal digits from the system's random numbers.
  static Secret random();

  bool is_given() const { return !text_.empty(); }
  /// To be handed on to processes of the same run.
  const std::string& text() const { return text_; }
  /// The proof for a list of texts: no other list has the same.
  Proof proof(std::initializer_list<std::string_view> message) const;

 private:
  std::string text_;
};

/// From the system's cryptographic generator.
std::string random_bytes(size_t count);

inline std::string_view text_of(const Proof& proof) { return {proof.data(), proof.size()}; }
/// Takes as long for texts that differ early as for those that differ late.
bool same_bytes(std::string_view one, std::string_view other);

}  // namespace mtf
