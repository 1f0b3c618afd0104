// Operations that move elements: concat, split, stack, slice, pad, shifts, dynamic_update_slice, caches,
// look-ups, and running sums.
#include <gtest/gtest.h>

#include "engine/ops/concat.h"
#include "engine/ops/cumsum.h"
#include "engine/ops/dynamic_update_slice.h"
#include "engine/ops/indexing.h"
#include "engine/ops/shift.h"
#include "engine/ops/slice.h"
#include "engine/ops/stack.h"
#include "engine/ops/update_kv_cache.h"
#include "tests/cuda/kernel_comparison.h"

namespace mtf::testing {
namespace {

/// One type for each element size.
constexpr DType kSizes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kBool};
/// Sizes inside the dimension, for words of 1 to 16 bytes.
constexpr int64_t kInner[] = {1, 2, 3, 8, 40};

Shape shape_of(int64_t outer, int64_t length, int64_t inner) {
  return {{"outer", outer}, {"length", length}, {"inner", inner}};
}

void expect_same_result(const Tensor& output) {
  if (output.operation().inputs().empty()) return;  // the input itself: there was nothing to do
  KernelComparison(output).expect_same();
}

/// Calls check(x) for x: [outer=3, length, inner] with every element size and inner size.
template <class Check>
void for_each_tensor(int64_t length, const Check& check) {
  for (DType dtype : kSizes) {
    for (int64_t inner : kInner) {
      Graph graph;
      check(graph.input("x", shape_of(3, length, inner), dtype));
    }
  }
}

TEST(Concat, OfAnyParts) {
  for_each_tensor(4, [](const Tensor& x) {
    Tensors parts = {x};
    for (int64_t length : {1, 7, 2}) {
      parts.push_back(
          x.graph().input(std::to_string(length), x.shape().resized("length", length), x.dtype()));
    }
    expect_same_result(concat(parts, "length"));
    expect_same_result(concat({x, x}, "outer"));
  });
}

TEST(Concat, OfMoreThanOneLaunchTakes) {
  Graph graph;
  Tensors parts;
  for (int64_t i = 0; i < 70; ++i) parts.push_back(graph.input(std::to_string(i), shape_of(3, 1 + i % 4, 5)));
  expect_same_result(concat(parts, "length"));
  expect_same_result(stack(Tensors(30, parts[0]), "new", 1));
}

TEST(Split, IntoAnyParts) {
  for_each_tensor(9, [](const Tensor& x) {
    expect_same_result(split(x, "length", {4, 1, 1, 3})[0]);
    expect_same_result(split(x, "outer", {2, 1})[0]);
  });
}

TEST(Stack, AlongAnyAxis) {
  for_each_tensor(3, [](const Tensor& x) {
    for (int axis = 0; axis <= 3; ++axis) {
      const Tensor y = stack({x, x, x}, "new", axis);
      expect_same_result(y);
      expect_same_result(unstack(y, "new")[0]);
    }
  });
}

TEST(Slice, AndPad) {
  for_each_tensor(6, [](const Tensor& x) {
    expect_same_result(slice(x, "length", 1, 3));
    expect_same_result(slice(x, "inner", x.shape()[2].size - 1, 1));
    expect_same_result(slice(x, "outer", 0, 2));
    expect_same_result(pad(x, "length", 2, 3));
    expect_same_result(pad(x, "inner", 0, 1));
    expect_same_result(pad(x, "outer", 1, 0));
  });
}

TEST(Shift, ByAnyOffset) {
  for_each_tensor(5, [](const Tensor& x) {
    for (int64_t offset : {-7, -5, -2, 0, 1, 4, 5, 12}) {
      expect_same_result(shift(x, offset, "length", false));
      expect_same_result(shift(x, offset, "length", true));
    }
    expect_same_result(shift(x, -1, "inner", false));
  });
}

TEST(DynamicShift, ByOffsetsOfPlaces) {
  for_each_tensor(5, [](const Tensor& x) {
    for (const Shape& places : {Shape{}, Shape{{"outer", 3}}, Shape{x.shape()[2]}}) {
      const Tensor offset = x.graph().input("offset" + places.to_string(), places, DType::kInt32);
      for (bool wrap : {false, true}) {
        for (bool backward : {false, true}) {
          const Tensor y = x.graph().add<DynamicShift>(x, offset, "length", wrap, backward).output();
          KernelComparison comparison(y);
          comparison.inputs[1].values = random_whole_values(places.size(), -9, 10, 5);
          comparison.inputs[1].values[0] = -2147483648.0;
          comparison.expect_same();
        }
      }
    }
  });
}

TEST(DynamicUpdateSlice, InPlaceAndElsewhere) {
  for_each_tensor(5, [](const Tensor& x) {
    Graph& graph = x.graph();
    const Dimension outer = x.shape()[0], inner = x.shape()[2];
    for (const Shape& entries : {Shape{outer, inner}, Shape{inner, outer}}) {
      const Tensor entry = graph.input("entry" + entries.to_string(), entries, x.dtype());
      for (const Shape& places : {Shape{}, Shape{outer}, Shape{inner, outer}}) {
        const Tensor index = graph.input(entries.to_string() + places.to_string(), places, DType::kInt32);
        KernelComparison comparison(dynamic_update_slice(x, entry, index, "length"));
        comparison.inputs[2].values = random_whole_values(places.size(), -1, 7, 6);
        comparison.expect_same();
        comparison.in_place = true;
        comparison.expect_same();
      }
    }
    const Tensor column = graph.input("column", {outer, {"length", 5}}, x.dtype());
    KernelComparison comparison(
        dynamic_update_slice(x, column, graph.input("index", {outer}, DType::kInt32), "inner"));
    comparison.expect_same();
    comparison.in_place = true;
    comparison.expect_same();
  });
}

/// `rows` is the number of hypotheses; the letters of `order` are the order of the cache's dimensions.
void expect_same_cache(int64_t rows, const std::string& order, DType dtype, int64_t inner) {
  Graph graph;
  const auto shape_in = [&](const std::string& letters) {
    std::vector<Dimension> dimensions;
    for (char letter : letters) {
      const int64_t size = letter == 'b' ? 2 : letter == 'r' ? rows : letter == 'm' ? 6 : inner;
      dimensions.push_back({std::string(1, letter), size});
    }
    return Shape(dimensions);
  };
  const Tensor cache = graph.input("cache", shape_in(order), dtype);
  const Tensor entry = graph.input("entry", shape_in("rbd"), dtype);
  const Tensor position = graph.input("position", shape_in("b"), DType::kInt32);
  const Tensor parent = graph.input("parent", shape_in("br"), DType::kInt32);
  const Tensor common = graph.input("common", shape_in("br"), DType::kInt32);
  for (int64_t at : {0, 3, 5}) {
    KernelComparison comparison(update_kv_cache(cache, entry, position, parent, common, "r", "m"));
    comparison.inputs[2].values = {static_cast<double>(at), static_cast<double>(at == 0 ? -1 : 6)};
    comparison.inputs[3].values = random_whole_values(2 * rows, -1, rows + 1, 7);
    comparison.inputs[4].values = random_whole_values(2 * rows, -1, 7, 8);
    comparison.expect_same();
    comparison.in_place = true;
    comparison.expect_same();
  }
}

TEST(UpdateKvCache, InAnyOrder) {
  for (DType dtype : kSizes) {
    for (const char* order : {"brmd", "rbmd", "dmbr", "mrbd", "bmrd"}) {
      for (int64_t inner : kInner) expect_same_cache(4, order, dtype, inner);
    }
  }
}

TEST(UpdateKvCache, OfMoreHypothesesThanSharedMemoryHolds) {
  expect_same_cache(200, "brmd", DType::kFloat32, 8);
  expect_same_cache(200, "dmbr", DType::kFloat64, 3);
}

TEST(OneHot, OfSlices) {
  for (DType dtype :
       {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32, DType::kInt64, DType::kBool}) {
    for (int64_t n : {1, 3, 8, 37}) {
      Graph graph;
      const Tensor ids = graph.input("ids", {{"a", 5}, {"b", 3}}, DType::kInt32);
      KernelComparison comparison(one_hot(ids, {"vocab", n * 2}, 3, dtype == DType::kBool ? 0 : -2, dtype));
      comparison.inputs[0].values = random_whole_values(15, -2, n * 2 + 2, 8);
      comparison.expect_same();
      comparison.outputs[0].take({{"a", 5}, {"b", 3}, {"vocab", n}}, {0, 0, n});
      comparison.expect_same();
    }
  }
}

TEST(Range, OfSlices) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32, DType::kInt64}) {
    Graph graph;
    KernelComparison comparison(range(graph, {"a", 3000}, dtype));
    comparison.expect_same();
    comparison.outputs[0].take({{"a", 1500}}, {1500});
    comparison.expect_same();
  }
}

TEST(Gather, OfSlicesInAnyOrder) {
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt64}) {
    for (int64_t inner : kInner) {
      Graph graph;
      const Dimension vocab{"vocab", 10}, d{"d", inner}, a{"a", 5}, b{"b", 3};
      const auto expect_gather = [&](const Shape& table, const Shape& ids, const Shape& output) {
        const std::string name = table.to_string() + ids.to_string();
        KernelComparison comparison(gather(graph.input("table" + name, table, dtype),
                                           graph.input("ids" + name, ids, DType::kInt32), "vocab", output));
        comparison.inputs[1].values = random_whole_values(ids.size(), -2, 12, 9);
        comparison.expect_same();
        std::vector<int64_t> begin(static_cast<size_t>(table.rank()));
        begin[static_cast<size_t>(*table.find("vocab"))] = 4;
        comparison.inputs[0].take(table.resized("vocab", 6), begin);
        comparison.expect_same();
      };
      expect_gather({vocab, d}, {a, b}, {a, b, d});
      expect_gather({d, vocab}, {b, a}, {a, d, b});
      expect_gather({a, d, vocab}, {b, a}, {a, b, d});
      expect_gather({vocab, a, d}, {a, b}, {b, a, d});
      expect_gather({vocab, d}, {}, {d});
      expect_gather({vocab}, {a, b}, {a, b});
    }
  }
}

TEST(Cumsum, AlongAnyAxis) {
  const Shape shapes[] = {{{"a", 3}, {"n", 40}, {"b", 5}},   {{"a", 2}, {"n", 300}, {"b", 40}},
                          {{"a", 70}, {"n", 9}, {"b", 530}}, {{"a", 3}, {"n", 2500}},
                          {{"a", 1100}, {"n", 11}},          {{"n", 1}, {"b", 33}}};
  for (DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64, DType::kInt32}) {
    for (const Shape& shape : shapes) {
      if (shape.size() > 100000 && dtype != DType::kFloat32) continue;
      for (bool exclusive : {false, true}) {
        for (bool reverse : {false, true}) {
          Graph graph;
          KernelComparison comparison(
              cumsum(graph.input("x", shape, dtype), "n", {.exclusive = exclusive, .reverse = reverse}));
          comparison.tolerance = dtype == DType::kInt32 ? 0 : dtype == DType::kFloat64 ? 1e-13 : 2e-5;
          comparison.in_place = exclusive;
          comparison.expect_same();
        }
      }
    }
  }
}

TEST(Cumsum, AddsInOrderWhereManyLieSideBySide) {
  Graph graph;
  KernelComparison(cumsum(graph.input("x", {{"n", 200}, {"b", 100}}), "n")).expect_same();
}

}  // namespace
}  // namespace mtf::testing
