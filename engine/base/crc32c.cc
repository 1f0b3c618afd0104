#include "engine/base/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

namespace mtf {
namespace {

using Tables = std::array<std::array<uint32_t, 256>, 8>;

/// tables[k][b]: the remainder of byte b followed by k zero bytes ("slicing by 8"; Kounavis and Berry, 2005).
constexpr Tables make_tables() {
  constexpr uint32_t polynomial = 0x82f63b78;  // 0x1edc6f41 with its bits reversed
  Tables tables{};
  for (uint32_t byte = 0; byte < 256; ++byte) {
    uint32_t rest = byte;
    for (int bit = 0; bit < 8; ++bit) rest = rest & 1 ? rest >> 1 ^ polynomial : rest >> 1;
    tables[0][byte] = rest;
  }
  for (size_t k = 1; k < tables.size(); ++k) {
    for (size_t byte = 0; byte < 256; ++byte) {
      const uint32_t before = tables[k - 1][byte];
      tables[k][byte] = before >> 8 ^ tables[0][before & 255];
    }
  }
  return tables;
}

constexpr Tables kTables = make_tables();

uint64_t load(const char* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

#if defined(__x86_64__)
/// Takes 8 bytes in 3 cycles, the latency of one instruction: several GB/s, faster than any file is read.
[[gnu::target("sse4.2")]] uint32_t crc32c_sse42(std::string_view bytes, uint32_t crc) {
  uint64_t rest = ~crc;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) rest = _mm_crc32_u64(rest, load(bytes.data()));
  auto narrow = static_cast<uint32_t>(rest);
  for (const char byte : bytes) narrow = _mm_crc32_u8(narrow, static_cast<uint8_t>(byte));
  return ~narrow;
}
#endif

}  // namespace

uint32_t crc32c_by_table(std::string_view bytes, uint32_t crc) {
  static_assert(std::endian::native == std::endian::little);
  uint32_t rest = ~crc;
  for (; bytes.size() >= 8; bytes.remove_prefix(8)) {
    const uint64_t word = load(bytes.data()) ^ rest;
    rest = 0;
    for (int k = 0; k < 8; ++k) rest ^= kTables[static_cast<size_t>(7 - k)][word >> 8 * k & 255];
  }
  for (const char byte : bytes) rest = rest >> 8 ^ kTables[0][(rest ^ static_cast<uint8_t>(byte)) & 255];
  return ~rest;
}

uint32_t crc32c(std::string_view bytes, uint32_t crc) {
#if defined(__x86_64__)
  static const bool has_instruction = __builtin_cpu_supports("sse4.2");
  if (has_instruction) return crc32c_sse42(bytes, crc);
#endif
  return crc32c_by_table(bytes, crc);
}

}  // namespace mtf
