#include "engine/base/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

#include "engine/base/check.h"

namespace mtf {
namespace {

std::string to_hex(const XXH128_hash_t& hash) {
  return fmt::format("{:016x}{:016x}", hash.high64, hash.low64);
}

}  // namespace

uint64_t hash64(std::string_view text, uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

std::string hash128_hex(std::span<const std::byte> bytes) {
  return to_hex(XXH3_128bits(bytes.data(), bytes.size()));
}

std::string hash128_hex(std::string_view text) {
  return hash128_hex(std::as_bytes(std::span(text.data(), text.size())));
}

void Hash128::Free::operator()(XXH3_state_s* state) const { XXH3_freeState(state); }

Hash128::Hash128() : state_(XXH3_createState()) {
  MTF_CHECK(state_ != nullptr, "no memory for the state of a hash");
  XXH3_128bits_reset(state_.get());
}

void Hash128::add(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_.get(), bytes.data(), bytes.size());
}

std::string Hash128::hex() const { return to_hex(XXH3_128bits_digest(state_.get())); }

}  // namespace mtf
