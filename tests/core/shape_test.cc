#include "engine/core/shape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Shape, ListsSizesAndNamesInOrder) {
  const Shape shape = {{"batch", 64}, {"hidden", 1024}};
  EXPECT_THAT(shape.sizes(), ElementsAre(64, 1024));
  EXPECT_THAT(shape.names(), ElementsAre("batch", "hidden"));
  EXPECT_THAT(Shape().sizes(), IsEmpty());
  EXPECT_THAT(Shape().names(), IsEmpty());
}

TEST(Shape, BytesAreElementsTimesTheirSize) {
  EXPECT_EQ(bytes_of({{"batch", 3}, {"hidden", 5}}, DType::kFloat64), 120);
  EXPECT_EQ(bytes_of(Shape(), DType::kBFloat16), 2);
}

TEST(Shape, CheckedBytesAreNoneWhereInt64CannotHoldThem) {
  using Sizes = std::vector<int64_t>;
  constexpr int64_t kHuge = int64_t{1} << 60;
  EXPECT_EQ(checked_bytes_of(Sizes{3, 5}, DType::kFloat64), 120);
  EXPECT_EQ(checked_bytes_of(Sizes{}, DType::kFloat32), 4);
  EXPECT_EQ(checked_bytes_of(Sizes{kHuge}, DType::kFloat32), kHuge * 4);
  EXPECT_EQ(checked_bytes_of(Sizes{kHuge}, DType::kFloat64), std::nullopt);
  EXPECT_EQ(checked_bytes_of(Sizes{kHuge, kHuge}, DType::kInt8), std::nullopt);
}

}  // namespace
}  // namespace mtf
