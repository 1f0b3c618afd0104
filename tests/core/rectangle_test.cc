#include "engine/core/rectangle.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

namespace mtf {
namespace {

struct Array {
  Shape shape;
  std::vector<int64_t> begin;  ///< index of the rectangle's first element
  std::vector<int32_t> elements;

  /// An array around a rectangle of these sizes, with a margin on both sides of some axes.
  Array(const std::vector<int64_t>& sizes, std::mt19937& random) {
    std::vector<Dimension> dimensions;
    for (const int64_t size : sizes) {
      const auto before = static_cast<int64_t>(random() % 3), after = static_cast<int64_t>(random() % 2);
      begin.push_back(before);
      dimensions.push_back({std::to_string(dimensions.size()), before + size + after});
    }
    shape = Shape(dimensions);
    elements.resize(static_cast<size_t>(shape.size()));
  }
  /// Returns the element of the rectangle with this index along each axis.
  int32_t& at(const std::vector<int64_t>& index) {
    const std::vector<int64_t> strides = shape.strides();
    int64_t offset = 0;
    for (size_t axis = 0; axis < index.size(); ++axis) offset += (begin[axis] + index[axis]) * strides[axis];
    return elements[static_cast<size_t>(offset)];
  }
};

TEST(CopyRectangle, MovesItsElementsAndNoOthers) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<int64_t> sizes(random() % 5);
    std::vector<Dimension> dimensions;
    for (int64_t& size : sizes) {
      size = static_cast<int64_t>(1 + random() % 4);
      dimensions.push_back({std::to_string(dimensions.size()), size});
    }
    const Shape rectangle(dimensions);
    Array from(sizes, random), to(sizes, random);
    std::iota(from.elements.begin(), from.elements.end(), 1);
    Array expected = to;
    std::vector<int64_t> index(sizes.size());
    for (int64_t i = 0; i < rectangle.size(); ++i) {
      int64_t rest = i;
      for (size_t axis = sizes.size(); axis-- > 0; rest /= sizes[axis]) index[axis] = rest % sizes[axis];
      expected.at(index) = from.at(index);
    }
    copy_rectangle(rectangle, 4, reinterpret_cast<const std::byte*>(from.elements.data()),
                   {from.shape, from.begin}, reinterpret_cast<std::byte*>(to.elements.data()),
                   {to.shape, to.begin});
    EXPECT_EQ(to.elements, expected.elements);
  }
}

}  // namespace
}  // namespace mtf
