#include "trainer/plan/mesh_shapes.h"

#include <algorithm>

namespace mtf {
namespace {

void extend(std::vector<int64_t>& sizes, int64_t left, int64_t most,
            std::vector<std::vector<int64_t>>& shapes) {
  if (left == 1) {
    shapes.push_back(sizes);
    return;
  }
  if (most == 0) return;
  for (int64_t size = sizes.empty() ? left : std::min(left, sizes.back()); size >= 2; --size) {
    if (left % size != 0) continue;
    sizes.push_back(size);
    extend(sizes, left / size, most - 1, shapes);
    sizes.pop_back();
  }
}

}  // namespace

std::vector<std::vector<int64_t>> mesh_shapes(int64_t positions, int64_t most, bool in_all_orders) {
  if (positions == 1) return {{1}};
  std::vector<int64_t> sizes;
  std::vector<std::vector<int64_t>> shapes;
  extend(sizes, positions, most, shapes);
  for (size_t i = 0, count = shapes.size(); in_all_orders && i < count; ++i) {
    std::vector<int64_t> shape = shapes[i];
    while (std::ranges::prev_permutation(shape).found) shapes.push_back(shape);
  }
  std::ranges::stable_sort(shapes, {}, [](const std::vector<int64_t>& shape) { return shape.size(); });
  return shapes;
}

}  // namespace mtf
