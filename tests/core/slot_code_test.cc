#include "engine/core/slot_code.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

namespace mtf::testing {
namespace {

template <class Code>
class SlotCode : public ::testing::Test {
 protected:
  static constexpr bool kIsSigned = SlotCodeFormat<Code>::kIsSigned;
  static constexpr double kLeastNumber = kIsSigned ? 0x1p-10 : 0x1p-18;
  static Code code(int i) { return std::bit_cast<Code>(static_cast<uint8_t>(i)); }
  /// The mean over all random bits.
  static double mean(float value, const SlotScale& scale) {
    double sum = 0;
    for (uint32_t bits = 0; bits < 1u << 19; ++bits)
      sum += decode_slot(encode_slot<Code>(value, scale, bits), scale);
    return sum / (1u << 19);
  }
};
using Codes = ::testing::Types<int8_t, uint8_t>;
TYPED_TEST_SUITE(SlotCode, Codes);

TYPED_TEST(SlotCode, ValuesOfCodesKeepTheirCodes) {
  std::set<float> values;
  for (const float largest : {1.0f, 1.9375f, 1e-20f, 3e20f}) {
    const SlotScale scale = slot_scale(largest);
    for (int i = 0; i < 256; ++i) {
      const TypeParam code = TestFixture::code(i);
      const float value = decode_slot(code, scale);
      if (largest == 1) values.insert(value);
      for (const uint32_t bits : {0u, 1u, kRoundToNearest, 0x7ffffu, 0xffffffffu})
        EXPECT_EQ(encode_slot<TypeParam>(value, scale, bits), code) << value << " in a block to " << largest;
    }
  }
  EXPECT_EQ(values.size(), TestFixture::kIsSigned ? 255u : 256u);  // zero has two signs
  EXPECT_EQ(*values.rbegin(), 31.0f / 16);
  EXPECT_EQ(*values.begin(), TestFixture::kIsSigned ? -31.0f / 16 : 0.0f);
  EXPECT_EQ(*values.upper_bound(0), TestFixture::kLeastNumber);
}

TYPED_TEST(SlotCode, HasTheNumberAsItsMean) {
  const SlotScale scale = slot_scale(1.9f);
  for (const float value : {1.0001f, 1.9f, 0.3f, 0.0123456f, 0.0012f, 0x1p-14f + 0x1p-20f})
    EXPECT_NEAR(TestFixture::mean(value, scale), value, 1e-6 * value + 1e-10) << value;
  if (TestFixture::kIsSigned) {
    EXPECT_NEAR(TestFixture::mean(-0.3f, scale), -0.3, 1e-6);
    EXPECT_NEAR(TestFixture::mean(-0.0001f, scale), -0.0001, 1e-9);
  }
}

TYPED_TEST(SlotCode, ErrorsAreBelowASixteenth) {
  for (const float largest : {1.0f, 1.93f, 1.94f, 1.999f, 5e-7f, 7e8f}) {
    const SlotScale scale = slot_scale(largest);
    for (double part = 1; part > 0.02; part *= 0.997) {
      const auto value = static_cast<float>(part * largest);
      for (const uint32_t bits : {0u, 0x7ffffu})
        EXPECT_LT(std::abs(decode_slot(encode_slot<TypeParam>(value, scale, bits), scale) - value),
                  value / 16 * 1.0001);
      const float nearest = decode_slot(encode_slot<TypeParam>(value, scale, kRoundToNearest), scale);
      EXPECT_LE(std::abs(nearest - value), value / 32 * 1.0001) << value << " in a block to " << largest;
    }
  }
}

/// Powers of two between blocks: what both can say is said by both.
TYPED_TEST(SlotCode, IsKeptWhenTheBlockGrows) {
  for (int i = 0; i < 256; ++i) {
    const float value = decode_slot(TestFixture::code(i), slot_scale(1.0f));
    if (std::abs(value) < 64 * TestFixture::kLeastNumber) continue;
    for (const uint32_t bits : {0u, 0x7ffffu}) {
      const SlotScale larger = slot_scale(3.5f);
      EXPECT_EQ(decode_slot(encode_slot<TypeParam>(value, larger, bits), larger), value);
    }
  }
}

TEST(SlotCodes, SmallPositiveValuesAreNoZeros) {
  const SlotScale scale = slot_scale(1.0f);
  EXPECT_EQ(decode_slot(encode_slot<uint8_t>(1e-30f, scale, 0), scale), 0x1p-18f);
  EXPECT_EQ(encode_slot<uint8_t>(0.0f, scale, 0x7ffff), 0);
  EXPECT_EQ(encode_slot<int8_t>(1e-30f, scale, 0), 0);
}

TEST(SlotCodes, BlocksOfZerosAndExtremesHaveFiniteScales) {
  for (const float largest : {0.0f, 1e-44f, 1e-38f, 3e38f}) {
    const SlotScale scale = slot_scale(largest);
    EXPECT_EQ(scale.to_code * scale.to_value, 1) << largest;
    EXPECT_EQ(decode_slot(encode_slot<int8_t>(0, scale, 0x7ffff), scale), 0);
    EXPECT_TRUE(std::isfinite(decode_slot(encode_slot<uint8_t>(largest, scale, 0), scale)));
  }
}

}  // namespace
}  // namespace mtf::testing
