#include "engine/base/counted.h"

#include <gtest/gtest.h>

namespace mtf {
namespace {

TEST(Counted, OneIsSingularAndThousandsStandApart) {
  EXPECT_EQ(counted(0, "row"), "0 rows");
  EXPECT_EQ(counted(1, "row"), "1 row");
  EXPECT_EQ(counted(999, "row"), "999 rows");
  EXPECT_EQ(counted(1234567, "row"), "1,234,567 rows");
}

}  // namespace
}  // namespace mtf
