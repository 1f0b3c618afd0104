#include "engine/base/shared_list.h"

#include <gtest/gtest.h>

namespace mtf {
namespace {

using List = SharedList<int>;

TEST(SharedList, CopiesShareTheItemsUntilOneChanges) {
  List a{1, 2};
  List b = a;
  EXPECT_EQ(&a[0], &b[0]);
  b.change().push_back(3);
  EXPECT_EQ(a.items(), (std::vector<int>{1, 2}));
  EXPECT_EQ(b.items(), (std::vector<int>{1, 2, 3}));
  const int* own = &b[0];
  b.change()[0] = 4;
  EXPECT_EQ(&b[0], own) << "a list that nothing shares is changed in place";
}

TEST(SharedList, ComparesItems) {
  List a{1, 2};
  EXPECT_EQ(a, (List{1, 2}));
  EXPECT_LT(a, (List{1, 3}));
  EXPECT_LT(List(), a);
}

TEST(SharedList, IsEmptyByDefault) {
  List a, b;
  EXPECT_TRUE(a.empty());
  EXPECT_EQ(a.begin(), a.end());
  b.change();
  EXPECT_EQ(a, b);
  b.change().push_back(1);
  EXPECT_TRUE(a.empty());
  EXPECT_EQ(b.size(), 1u);
}

}  // namespace
}  // namespace mtf
