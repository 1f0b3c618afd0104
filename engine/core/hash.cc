#include "engine/core/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace mtf {

uint64_t hash64(std::string_view text, uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

std::string hash128_hex(std::span<const std::byte> bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

std::string hash128_hex(std::string_view text) {
  return hash128_hex(std::as_bytes(std::span(text.data(), text.size())));
}

}  // namespace mtf
