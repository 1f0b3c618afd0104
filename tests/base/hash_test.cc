#include "engine/base/hash.h"

#include <gtest/gtest.h>

namespace mtf {
namespace {

TEST(Hash, Is64BitXxh3WithSeed) {
  EXPECT_EQ(hash64(""), 0x2d06800538d394c2u);  // XXH3_64bits of no bytes, from xxHash's own test vectors
  EXPECT_NE(hash64("layer_1/kernel", 1), hash64("layer_1/kernel", 2));
  EXPECT_NE(hash64("layer_1/kernel", 1), hash64("layer_2/kernel", 1));
}

TEST(Hash, Is128BitXxh3AsHexadecimal) {
  EXPECT_EQ(hash128_hex(""), "99aa06d3014798d86001c324468d497f");  // from xxHash's own test vectors
  EXPECT_EQ(hash128_hex("mesh").size(), 32u);
  EXPECT_NE(hash128_hex("mesh"), hash128_hex("Mesh"));
}

TEST(Hash, OfPiecesIsThatOfTheWhole) {
  const std::string text(1000, 'm');
  const auto bytes = std::as_bytes(std::span(text));
  Hash128 hash;
  EXPECT_EQ(hash.hex(), hash128_hex(""));
  hash.add(bytes.first(300));
  EXPECT_EQ(hash.hex(), hash128_hex(bytes.first(300)));
  hash.add(bytes.subspan(300));
  EXPECT_EQ(hash.hex(), hash128_hex(text));
}

}  // namespace
}  // namespace mtf
