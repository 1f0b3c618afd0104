#include "engine/core/unit_interval.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/with_instruction_set.h"

namespace mtf::testing {
namespace {

TEST(UnitInterval, IsTheQuotientRoundedOnceWithAllInstructionSets) {
  for (const InstructionSet set : available_instruction_sets()) {
    SCOPED_TRACE(name_of(set));
    const WithInstructionSet used(set);
    for (const int64_t stride : {1, 3}) {
      std::vector<std::byte> bytes(static_cast<size_t>(256 * stride), std::byte{77});
      for (int64_t i = 0; i < 256; ++i) bytes[static_cast<size_t>(i * stride)] = static_cast<std::byte>(i);
      std::vector<float> values(256);
      to_unit_interval(bytes.data(), stride, 256, values.data());
      for (size_t i = 0; i < 256; ++i) EXPECT_EQ(values[i], static_cast<float>(i) / 255.0f) << i;
    }
  }
}

}  // namespace
}  // namespace mtf::testing
