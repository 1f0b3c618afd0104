// XXH3 hashes: 64 bits for names; 128 bits, as text, for caches, the program and checkpoint blocks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace mtf {

/// Returns XXH3_64 of `text` with `seed`.
uint64_t hash64(std::string_view text, uint64_t seed = 0);

/// Returns XXH3_128 as 32 lower-case hexadecimal digits, the most significant first, as `xxhsum -H128` prints
/// it.
std::string hash128_hex(std::span<const std::byte> bytes);
std::string hash128_hex(std::string_view text);

/// Computes hash128_hex() of bytes that come in pieces.
class Hash128 {
 public:
  Hash128();
  void add(std::span<const std::byte> bytes);
  /// Returns the hash of all bytes so far.
  std::string hex() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace mtf
