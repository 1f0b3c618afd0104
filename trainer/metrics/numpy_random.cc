#include "trainer/metrics/numpy_random.h"

#include <array>
#include <bit>
#include <cstddef>

namespace mtf {
namespace {

/// The hash function of numpy's SeedSequence. Each use changes its multiplier.
class SeedHash {
 public:
  SeedHash(uint32_t start, uint32_t factor) : constant_(start), factor_(factor) {}

  uint32_t operator()(uint32_t value) {
    value ^= constant_;
    constant_ *= factor_;
    value *= constant_;
    return value ^ value >> 16;
  }

 private:
  uint32_t constant_;
  uint32_t factor_;
};

uint32_t mix(uint32_t x, uint32_t y) {
  const uint32_t mixed = x * 0xca01f9ddu - y * 0x4973f715u;
  return mixed ^ mixed >> 16;
}

/// Returns the four words of SeedSequence(seed).generate_state(4, uint64).
std::array<uint64_t, 4> seed_words(uint64_t seed) {
  std::array<uint32_t, 4> pool = {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)};
  SeedHash fill(0x43b0d7e5, 0x931e8875);
  for (uint32_t& word : pool) word = fill(word);
  for (size_t from = 0; from < pool.size(); ++from) {
    for (size_t to = 0; to < pool.size(); ++to) {
      if (from != to) pool[to] = mix(pool[to], fill(pool[from]));
    }
  }
  SeedHash draw(0x8b51f9dd, 0x58f38ded);
  std::array<uint64_t, 4> words{};
  for (size_t i = 0; i < 2 * words.size(); ++i)
    words[i / 2] |= static_cast<uint64_t>(draw(pool[i % pool.size()])) << (i % 2 * 32);
  return words;
}

}  // namespace

NumpyRandom::NumpyRandom(uint64_t seed) {
  const std::array<uint64_t, 4> words = seed_words(seed);
  increment_ = (static_cast<Wide>(words[2]) << 64 | words[3]) << 1 | 1;
  step();
  state_ += static_cast<Wide>(words[0]) << 64 | words[1];
  step();
}

void NumpyRandom::step() {
  constexpr Wide kMultiplier = static_cast<Wide>(2549297995355413924u) << 64 | 4865540595714422341u;
  state_ = state_ * kMultiplier + increment_;
}

uint64_t NumpyRandom::next64() {
  step();
  return std::rotr(static_cast<uint64_t>(state_ >> 64) ^ static_cast<uint64_t>(state_),
                   static_cast<int>(state_ >> 122));
}

uint32_t NumpyRandom::next32() {
  if (has_half_) {
    has_half_ = false;
    return half_;
  }
  const uint64_t both = next64();
  half_ = static_cast<uint32_t>(both >> 32);
  has_half_ = true;
  return static_cast<uint32_t>(both);
}

bool NumpyRandom::next_bit() {
  if (bits_left_ == 0) {
    bits_ = next32();
    bits_left_ = 32;
  }
  const bool bit = (bits_ & 1) != 0;
  bits_ >>= 1;
  --bits_left_;
  return bit;
}

uint32_t NumpyRandom::below(uint32_t bound) {
  if (bound == 1) return 0;
  const auto product = [this, bound] { return static_cast<uint64_t>(next32()) * bound; };
  uint64_t draw = product();
  if (static_cast<uint32_t>(draw) < bound) {
    const uint32_t rejected = -bound % bound;
    while (static_cast<uint32_t>(draw) < rejected) draw = product();
  }
  return static_cast<uint32_t>(draw >> 32);
}

}  // namespace mtf
