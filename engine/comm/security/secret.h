// A secret that only the processes of a run know, by which they prove to each other that they belong to it.
//
//   const Secret secret = Secret::random();
//   const Proof proof = secret.proof({"store", nonce});       // HMAC-SHA256
//   if (same_bytes(text_of(proof), received)) ...
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
  /// The smallest number of characters of a secret; shorter ones can be guessed.
  static constexpr size_t kShortest = 16;

  /// No secret: anyone can make its proofs.
  Secret() = default;
  explicit Secret(std::string text) : text_(std::move(text)) {}
  /// Returns a secret of 64 hexadecimal digits from the system's random numbers.
  static Secret random();

  bool is_given() const { return !text_.empty(); }
  /// The text, to be passed on to processes of the same run.
  const std::string& text() const { return text_; }
  /// Returns the proof for a list of texts; different lists have different proofs.
  Proof proof(std::initializer_list<std::string_view> message) const;

 private:
  std::string text_;
};

/// Returns bytes from the system's cryptographic random number generator.
std::string random_bytes(size_t count);

inline std::string_view text_of(const Proof& proof) { return {proof.data(), proof.size()}; }
/// Compares in constant time: the time does not depend on where the texts differ.
bool same_bytes(std::string_view one, std::string_view other);

}  // namespace mtf
