#include "engine/backend/cpu/contractions/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/graph/graph.h"
#include "engine/ops/einsum.h"
#include "engine/ops/expert_product.h"
#include "tests/support/budget.h"
#include "tests/support/random_products.h"

namespace mtf::testing {
namespace {

template <class T>
void expect_bits_of_the_whole(int64_t rows, int64_t columns, int64_t depth, const ProductWay& way) {
  const Matrix<T> a(rows, depth, random_size(0, 1)), b(depth, columns, random_size(0, 1));
  const std::vector<float> whole = product_block(a, b, 0, rows, 0, columns, way);
  for (int part = 0; part < 4; ++part) {
    const int64_t row = random_size(0, rows - 1), column = random_size(0, columns - 1);
    const int64_t height = random_size(1, rows - row), width = random_size(1, columns - column);
    const std::vector<float> block = product_block(a, b, row, height, column, width, way);
    for (int64_t i = 0; i < height; ++i) {
      ASSERT_EQ(std::memcmp(&block[i * width], &whole[(row + i) * columns + column], width * sizeof(float)),
                0)
          << way.name << ", " << rows << "x" << columns << "x" << depth << ", row " << row + i << " of "
          << height << "x" << width;
    }
  }
}

TEST(Gemm, ABlockHasTheBitsOfTheWhole) {
  for (const ProductWay& way : product_ways()) {
    for (int trial = 0; trial < tries(way.in_groups ? 12 : 60); ++trial) {  // emulated instructions are slow
      const int64_t rows = random_size(1, trial % 3 ? 80 : 700),
                    columns = random_size(1, trial % 2 ? 90 : 1200);
      const int64_t depth = random_size(1, trial % 4 ? 60 : 1200);
      expect_bits_of_the_whole<float>(rows, columns, depth, way);
      expect_bits_of_the_whole<BFloat16>(rows, columns, depth, way);
    }
  }
}

TEST(Gemm, FewRowsHaveTheBitsOfMany) {
  constexpr int64_t kRows = 40;
  const auto expect_same = [&]<class T>(T, int64_t columns, int64_t depth, int transposed,
                                        const ProductWay& way) {
    const Matrix<T> a(kRows, depth, transposed & 1), b(depth, columns, transposed & 2);
    const std::vector<float> whole = product_block(a, b, 0, kRows, 0, columns, way);
    for (int64_t height = 1; height <= kMostThinRows + 1; ++height) {
      const int64_t row = random_size(0, kRows - height);
      const std::vector<float> block = product_block(a, b, row, height, 0, columns, way);
      ASSERT_EQ(std::memcmp(block.data(), &whole[row * columns], block.size() * sizeof(float)), 0)
          << way.name << ", " << height << "x" << columns << "x" << depth << " " << transposed;
    }
  };
  for (const ProductWay& way : product_ways()) {
    for (const auto& [columns, depth] : {std::array{16, 4}, {37, 385}, {1100, 50}, {130, 1031}, {64, 1}}) {
      for (const int transposed : {0, 1, 2, 3}) {
        expect_same(float(), columns, depth, transposed, way);
        expect_same(BFloat16(), columns, depth, transposed, way);
      }
    }
  }
}

TEST(Gemm, FewRowsAddToRowsThatAreApart) {
  constexpr int64_t kRows = 3, kColumns = 70, kDepth = 400, kStride = 90;
  const std::vector<float> a = random_elements<float>(kDepth * 5),
                           b = random_elements<float>(kDepth * kColumns);
  for (const ProductWay& way : product_ways()) {
    std::vector<float> scratch(product_scratch(kRows, kColumns, kDepth)), sums(kRows * kColumns),
        c(kRows * kStride, 2);
    const SummedAxis summed{kDepth, 5, kColumns};
    Product<float> product{kRows, kColumns, {&summed, 1}, a.data(), 1, b.data(), 1, sums.data(), kColumns};
    product.in_bfloat16 = way.in_bfloat16;
    multiply(product, scratch.data(), way.kernels);
    product.c = c.data();
    product.c_row_stride = kStride;
    product.adds = true;
    multiply(product, scratch.data(), way.kernels);
    for (int64_t i = 0; i < kRows * kStride; ++i) {
      const int64_t row = i / kStride, column = i % kStride;
      const float expected = column < kColumns ? 2 + sums[row * kColumns + column] : 2;
      ASSERT_NEAR(c[i], expected, 1e-4) << way.name << " " << i;
    }
  }
}

TEST(Gemm, TransposedOperandsGiveTheSameBits) {
  for (const ProductWay& way : product_ways()) {
    for (const auto& [rows, columns, depth] :
         {std::array{1, 40, 784}, {25, 300, 1024}, {200, 10, 500}, {90, 70, 33}}) {
      std::vector<float> first;
      for (const int transposed : {0, 1, 2, 3}) {
        Matrix<float> a(rows, depth, transposed & 1), b(depth, columns, transposed & 2);
        for (int64_t k = 0; k < depth; ++k) {
          for (int64_t i = 0; i < rows; ++i)
            const_cast<float&>(*a.at(i, k)) = std::sin(static_cast<float>(7 * i + k));
          for (int64_t j = 0; j < columns; ++j)
            const_cast<float&>(*b.at(k, j)) = std::cos(static_cast<float>(5 * j - k));
        }
        const std::vector<float> c = product_block(a, b, 0, rows, 0, columns, way);
        if (first.empty()) first = c;
        EXPECT_EQ(std::memcmp(c.data(), first.data(), c.size() * sizeof(float)), 0) << way.name << transposed;
      }
    }
  }
}

TEST(Gemm, IsAsExactAsASumInFloat32CanBe) {
  for (const ProductWay& way : product_ways()) {
    if (way.in_bfloat16) continue;
    for (const int64_t depth : {1, 15, 384, 385, 2000}) {
      const Matrix<float> a(31, depth, false), b(depth, 45, true);
      const std::vector<float> c = product_block(a, b, 0, 31, 0, 45, way);
      for (int64_t i = 0; i < 31; ++i) {
        for (int64_t j = 0; j < 45; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < depth; ++k) sum += static_cast<double>(*a.at(i, k)) * *b.at(k, j);
          ASSERT_NEAR(c[i * 45 + j], sum, 1e-7 * static_cast<double>(depth + 1))
              << way.name << " depth " << depth;
        }
      }
    }
  }
}

/// b with its two summed axes exchanged in memory, or a too.
void expect_axes_do_not_matter(int64_t outer, int64_t inner, const ProductWay& way) {
  const int64_t rows = 20, columns = 50, depth = outer * inner;
  const std::vector<float> a = random_elements<float>(rows * depth),
                           b = random_elements<float>(depth * columns);
  std::vector<float> exchanged_a(a.size()), exchanged_b(b.size());
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i) {
      std::copy_n(&b[(o * inner + i) * columns], columns, &exchanged_b[(i * outer + o) * columns]);
      for (int64_t r = 0; r < rows; ++r)
        exchanged_a[r * depth + i * outer + o] = a[r * depth + o * inner + i];
    }
  }
  const auto product = [&](std::span<const SummedAxis> axes, const std::vector<float>& x,
                           const std::vector<float>& y) {
    std::vector<float> c(rows * columns), scratch(product_scratch(rows, columns, depth));
    multiply(Product<float>{.rows = rows,
                            .columns = columns,
                            .summed = axes,
                            .a = x.data(),
                            .a_row_stride = depth,
                            .b = y.data(),
                            .b_column_stride = 1,
                            .c = c.data(),
                            .c_row_stride = columns,
                            .in_bfloat16 = way.in_bfloat16},
             scratch.data(), way.kernels);
    return c;
  };
  const std::array<SummedAxis, 1> joined{{{depth, 1, columns}}};
  const std::array<SummedAxis, 2> b_apart{{{outer, inner, columns}, {inner, 1, outer * columns}}},
      both_apart{{{outer, 1, columns}, {inner, outer, outer * columns}}};
  const std::vector<float> c = product(joined, a, b);
  EXPECT_EQ(c, product(b_apart, a, exchanged_b)) << way.name << " " << outer << " " << inner;
  EXPECT_EQ(c, product(both_apart, exchanged_a, exchanged_b)) << way.name << " " << outer << " " << inner;
}

TEST(Gemm, SeveralSummedAxesAreOneDepth) {
  for (const ProductWay& way : product_ways()) {
    for (const auto& [outer, inner] : {std::array{7, 90}, {70, 9}, {200, 3}, {501, 1}})
      expect_axes_do_not_matter(outer, inner, way);
  }
}

/// `size` numbers that increase from 0, with gaps.
std::vector<int64_t> random_places(int64_t size) {
  std::vector<int64_t> places{0};
  while (std::ssize(places) < size)
    places.push_back(places.back() + random_size(1, places.size() % 5 ? 1 : 9));
  return places;
}

/// Copies rows of `size` elements to their places; `rest` is between them.
template <class T>
std::vector<T> placed(const std::vector<T>& rows, const std::vector<int64_t>& places, int64_t size, T rest) {
  std::vector<T> result((places.back() + 1) * size, rest);
  for (size_t i = 0; i < places.size(); ++i) std::copy_n(&rows[i * size], size, &result[places[i] * size]);
  return result;
}

/// Rows of A and of C, or the entries of the sum, may stand at any places.
template <class T, class Multiply>
void expect_places_do_not_matter(int64_t rows, int64_t columns, int64_t depth, const Multiply& multiply) {
  using C = Computed<T>;
  const std::vector<T> a = random_elements<T>(rows * depth), b = random_elements<T>(depth * columns);
  const std::vector<int64_t> places = random_places(depth), row_places = random_places(rows);
  std::vector<int64_t> a_rows, c_rows;
  for (const int64_t place : row_places) {
    a_rows.push_back(place * depth);
    c_rows.push_back(place * columns);
  }
  std::vector<C> c(rows * columns), placed_c((row_places.back() + 1) * columns, C(7));
  SummedAxis summed{depth, 1, columns};
  Product<T> product{rows, columns, {&summed, 1}, a.data(), depth, b.data(), 1, c.data(), columns};
  multiply(product);
  const std::vector<T> placed_rows = placed(a, row_places, depth, T(NAN));
  product.a = placed_rows.data();
  product.c = placed_c.data();
  product.a_rows = a_rows.data();
  product.c_rows = c_rows.data();
  multiply(product);
  EXPECT_EQ(placed_c, placed(c, row_places, columns, C(7)));

  summed = {depth, rows, columns};  // the same numbers as a matrix [depth x rows]
  product = {rows, columns, {&summed, 1}, a.data(), 1, b.data(), 1, c.data(), columns};
  multiply(product);
  const std::vector<C> whole = c;
  const std::vector<T> placed_a = placed(a, places, rows, T(NAN)),
                       placed_b = placed(b, places, columns, T(NAN));
  summed.places = places.data();
  product.a = placed_a.data();
  product.b = placed_b.data();
  multiply(product);
  EXPECT_EQ(c, whole);
}

TEST(Gemm, PlacesDoNotChangeBits) {
  for (const auto& [rows, columns, depth] :
       {std::array{20, 50, 90}, {130, 700, 390}, {300, 33, 500}, {5, 1, 17}, {1, 40, 1}}) {
    for (const ProductWay& way : product_ways()) {
      std::vector<float> scratch(product_scratch(rows, columns, depth));
      const auto by_kernels = [&](auto product) {
        product.in_bfloat16 = way.in_bfloat16;
        multiply(product, scratch.data(), way.kernels);
      };
      expect_places_do_not_matter<float>(rows, columns, depth, by_kernels);
      expect_places_do_not_matter<BFloat16>(rows, columns, depth, by_kernels);
    }
    expect_places_do_not_matter<double>(rows, columns, depth,
                                        [](const auto& product) { multiply(product, nullptr); });
  }
}

/// The rows b [depth][columns] in strips.
template <class T>
std::vector<T> in_strips(const std::vector<T>& b, int64_t depth, int64_t columns) {
  std::vector<T> strips;
  for (int64_t first = 0; first < columns; first += kStripColumns) {
    for (int64_t k = 0; k < depth; ++k)
      strips.insert(strips.end(), &b[k * columns + first], &b[k * columns + first] + kStripColumns);
  }
  return strips;
}

template <class T>
void expect_strips_do_not_matter(int64_t rows, int64_t columns, int64_t depth, const GemmKernels& kernels) {
  const std::vector<T> a = random_elements<T>(rows * depth), b = random_elements<T>(depth * columns),
                       strips = in_strips(b, depth, columns);
  std::vector<float> scratch(product_scratch(rows, columns, depth)), c(rows * columns),
      expected(rows * columns);
  SummedAxis summed{depth, 1, columns};
  Product<T> product{rows, columns, {&summed, 1}, a.data(), depth, b.data(), 1, expected.data(), columns};
  multiply(product, scratch.data(), kernels);
  summed.b_stride = kStripColumns;
  product.b = strips.data();
  product.b_strip_stride = depth * kStripColumns;
  product.c = c.data();
  multiply(product, scratch.data(), kernels);
  EXPECT_EQ(c, expected) << rows << "x" << columns << "x" << depth;
}

TEST(Gemm, StripsDoNotChangeBits) {
  for (const ProductWay& way : product_ways()) {
    if (way.in_bfloat16) continue;
    for (const int64_t rows : {1, 3, 8, 9, 40, 300}) {
      for (const auto& [columns, depth] : {std::array{32, 1}, {96, 390}, {1056, 50}, {64, 1031}}) {
        expect_strips_do_not_matter<float>(rows, columns, depth, way.kernels);
        expect_strips_do_not_matter<BFloat16>(rows, columns, depth, way.kernels);
      }
    }
  }
}

template <class T>
void expect_enough_scratch(int64_t rows, int64_t columns, int64_t depth, const ProductWay& way) {
  constexpr size_t kBehind = 1 << 16;
  constexpr float kMark = 0.125F;
  const auto size = static_cast<size_t>(product_scratch(rows, columns, depth));
  const std::vector<T> a(static_cast<size_t>(rows * depth), T(1)),
      b(static_cast<size_t>(depth * columns), T(1));
  for (const bool a_by_columns : {false, true}) {
    for (const bool b_by_columns : {false, true}) {
      std::vector<float> c(static_cast<size_t>(rows * columns)), scratch(size + kBehind, kMark);
      const SummedAxis summed{depth, a_by_columns ? rows : 1, b_by_columns ? 1 : columns};
      Product<T> product{rows,
                         columns,
                         {&summed, 1},
                         a.data(),
                         a_by_columns ? 1 : depth,
                         b.data(),
                         b_by_columns ? depth : 1,
                         c.data(),
                         columns};
      product.in_bfloat16 = way.in_bfloat16;
      multiply(product, scratch.data(), way.kernels);
      EXPECT_EQ(std::count(scratch.end() - kBehind, scratch.end(), kMark), kBehind)
          << way.name << " " << rows << "x" << columns << "x" << depth;
    }
  }
}

TEST(Gemm, ProductsStayWithinTheirScratch) {
  for (const ProductWay& way : product_ways()) {
    for (const int64_t rows : {1, 9, 29, 32, 60, 100}) {
      for (const int64_t columns : {1, 17, 32, 64, 300}) {
        for (const int64_t depth : {50, 3500, 4096}) {
          if (rows * columns * depth > (way.in_groups ? 1'000'000 : 10'000'000)) continue;
          expect_enough_scratch<float>(rows, columns, depth, way);
          expect_enough_scratch<BFloat16>(rows, columns, depth, way);
        }
      }
    }
  }
}

TEST(Gemm, ProductsEntryByEntryHaveTheBitsOfAMatrixProduct) {
  const int64_t size = 45;
  for (const int64_t depth : {depth_block(384), int64_t{333}}) {
    const std::vector<float> a = random_elements<float>(depth * size),
                             b = random_elements<float>(depth * size);
    const SummedAxis summed{depth, size, size};
    for (const ProductWay& way : product_ways()) {
      std::vector<float> sums(size), scratch(product_scratch(1, 1, depth));
      add_products({a.data(), b.data(), size, size, depth, size, way.in_bfloat16}, sums.data(), way.kernels);
      for (int64_t i = 0; i < size; ++i) {
        float c;
        Product<float> product{1, 1, {&summed, 1}, &a[i], 0, &b[i], 0, &c, 1};
        product.in_bfloat16 = way.in_bfloat16;
        multiply(product, scratch.data(), way.kernels);
        EXPECT_EQ(sums[i], c) << way.name << " " << i;
      }
    }
  }
}

template <class T>
Slice slice_of(const std::vector<T>& values) {
  return {const_cast<std::byte*>(reinterpret_cast<const std::byte*>(values.data()))};
}

/// Runs the kernel of an operation with one output, with all tasks at once or one by one.
template <class T>
std::vector<T> run_kernel(const Operation& operation, const std::vector<Slice>& inputs, bool task_by_task) {
  KernelContext context{operation, {}, {}};
  const auto local = [](const Shape& shape, DType type) {
    return LocalTensor{shape, shape, shape.strides(), type};
  };
  for (const Tensor& input : operation.inputs())
    context.inputs.push_back(local(input.shape(), input.dtype()));
  const OutputInfo& output = operation.outputs()[0];
  context.outputs = {local(output.shape, output.dtype)};
  const std::unique_ptr<Kernel> kernel = prepare_cpu_kernel(context);
  std::vector<T> result(output.shape.size());
  std::vector<double> scratch(kernel->scratch_bytes() / sizeof(double) + 1);
  const std::vector<Slice> out{slice_of(result)};
  const KernelCall call{inputs, out, reinterpret_cast<std::byte*>(scratch.data())};
  for (int64_t task = 0; task_by_task && task < kernel->tasks(); ++task) kernel->run(call, task, task + 1);
  if (!task_by_task) kernel->run(call, 0, kernel->tasks());
  return result;
}

/// Runs the kernel of an einsum of float32 or bfloat16.
template <class T>
std::vector<T> run_einsum(const std::vector<Shape>& shapes, const Shape& output,
                          const std::vector<std::vector<T>>& inputs, bool task_by_task,
                          MatmulPrecision precision = MatmulPrecision::kFull) {
  Graph graph;
  graph.set_matmul_precision(precision);
  const auto input = [&](const char* name, int n) { return graph.input(name, shapes[n], DTypeOf<T>::value); };
  const Tensor y = einsum({input("a", 0), input("b", 1)}, output);
  return run_kernel<T>(y.operation(), {slice_of(inputs[0]), slice_of(inputs[1])}, task_by_task);
}

template <class T>
bool same_bits(const std::vector<T>& x, const std::vector<T>& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
}

/// Calls `test` with each precision of products, and once more with bfloat16 by AMX.
template <class Test>
void with_precisions(const Test& test) {
  for (const MatmulPrecision precision : {MatmulPrecision::kFull, MatmulPrecision::kBFloat16})
    test(precision);
  const WithAmx amx;
  if (amx.works()) test(MatmulPrecision::kBFloat16);
}

/// Emulated instructions are slow.
constexpr int64_t kMostEmulatedOutputs = 20'000;

template <class T>
void expect_tasks_do_not_matter(const Shape& a, const Shape& b, const Shape& output) {
  const std::vector<std::vector<T>> inputs{random_elements<T>(a.size()), random_elements<T>(b.size())};
  with_precisions([&](MatmulPrecision precision) {
    if (instruction_set() == InstructionSet::kAmx && output.size() > kMostEmulatedOutputs) return;
    EXPECT_TRUE(same_bits(run_einsum<T>({a, b}, output, inputs, false, precision),
                          run_einsum<T>({a, b}, output, inputs, true, precision)))
        << a.to_string() << b.to_string() << short_name(precision) << name_of(instruction_set());
  });
}

TEST(EinsumTasks, DoNotChangeBits) {
  const Dimension batch{"batch", 300}, in{"in", 400}, out{"out", 700}, heads{"heads", 5};
  expect_tasks_do_not_matter<float>({batch, in}, {in, out}, {batch, out});
  expect_tasks_do_not_matter<float>({in, batch}, {out, in}, {out, batch});
  expect_tasks_do_not_matter<float>({heads, batch, in}, {in, out}, {batch, heads, out});
  expect_tasks_do_not_matter<BFloat16>({batch, in}, {in, out}, {batch, out});
  const Dimension rows{"rows", 150}, columns{"columns", 110};
  expect_tasks_do_not_matter<float>({in, rows}, {in, columns}, {rows, columns});
  expect_tasks_do_not_matter<BFloat16>({rows, in}, {columns, in}, {columns, rows});
  const Dimension strips{"strips", 70}, strip{"strip", kStripColumns}, few{"few", 5};
  for (const Dimension& many : {batch, few}) {
    expect_tasks_do_not_matter<float>({many, in}, {strips, in, strip}, {many, strips, strip});
    expect_tasks_do_not_matter<BFloat16>({many, in}, {heads, strips, in, strip},
                                         {many, heads, strips, strip});
  }
}

/// Products of 90 rows in two groups with the matrices of three experts, of which one has no rows.
template <class T>
void expect_tasks_of_experts_do_not_matter(MatmulPrecision precision) {
  const Dimension block{"experts", 1}, groups{"groups", 2}, capacity{"capacity", 50}, in{"in", 530},
      out{"out", 600}, experts{"experts", 3};
  const Shape rows{block, groups, capacity};
  const std::vector<int32_t> ends{0, 30, 30, 50, 0, 1, 1, 40};
  const std::vector<T> of_x = random_elements<T>(100 * in.size), of_y = random_elements<T>(100 * out.size),
                       of_w = random_elements<T>(3 * in.size * out.size);
  Graph graph;
  graph.set_matmul_precision(precision);
  const auto input = [&](const char* name, const Shape& shape) {
    return graph.input(name, shape, DTypeOf<T>::value);
  };
  const Tensor x = input("x", rows + in), y = input("y", rows + out), w = input("w", {experts, in, out}),
               offsets = graph.input("ends", {block, groups, {"ends", 4}}, DType::kInt32);
  const auto expect_equal = [&](const Tensor& result, const std::vector<T>& a, const std::vector<T>& b) {
    const std::vector<Slice> inputs{slice_of(a), slice_of(b), slice_of(ends)};
    EXPECT_TRUE(same_bits(run_kernel<T>(result.operation(), inputs, false),
                          run_kernel<T>(result.operation(), inputs, true)))
        << result.shape().to_string();
  };
  expect_equal(expert_product(x, w, offsets), of_x, of_w);
  expect_equal(expert_product(y, w, offsets), of_y, of_w);
  expect_equal(expert_outer_product(x, y, offsets, experts), of_x, of_y);
  expect_equal(expert_outer_product(y, x, offsets, experts), of_y, of_x);
}

TEST(ExpertTasks, DoNotChangeBits) {
  with_precisions([](MatmulPrecision precision) {
    expect_tasks_of_experts_do_not_matter<float>(precision);
    expect_tasks_of_experts_do_not_matter<BFloat16>(precision);
  });
  expect_tasks_of_experts_do_not_matter<double>(MatmulPrecision::kFull);
}

/// Returns entries [begin, begin + size) of the first dimension.
template <class T>
std::vector<T> slice(const std::vector<T>& values, const Shape& shape, int64_t begin, int64_t size) {
  const int64_t row = shape.size() / shape[0].size;
  return {values.begin() + begin * row, values.begin() + (begin + size) * row};
}

template <class T>
void expect_cuts_do_not_matter(const Shape& a, const Shape& b, const Shape& output,
                               MatmulPrecision precision) {
  const std::vector<std::vector<T>> inputs{random_elements<T>(a.size()), random_elements<T>(b.size())};
  const std::vector<T> whole = run_einsum<T>({a, b}, output, inputs, false, precision);
  const std::string cut = output[0].name;
  for (const int64_t size : {1, 3, 16}) {
    const auto part = [&](const Shape& shape) {
      std::vector<Dimension> dimensions;
      for (const Dimension& d : shape) dimensions.push_back({d.name, d.name == cut ? size : d.size});
      return Shape(dimensions);
    };
    const auto part_of = [&](const Shape& shape, const std::vector<T>& values) {
      return shape.find(cut) ? slice(values, shape, 5, size) : values;
    };
    const std::vector<T> result = run_einsum<T>(
        {part(a), part(b)}, part(output), {part_of(a, inputs[0]), part_of(b, inputs[1])}, false, precision);
    EXPECT_TRUE(same_bits(result, slice(whole, output, 5, size)))
        << a.to_string() << b.to_string() << " -> " << output.to_string() << " cut to " << size;
  }
}

TEST(EinsumCuts, OfRowsColumnsAndBatchDoNotChangeBits) {
  const Dimension r{"r", 24}, c{"c", 37}, k{"k", 800}, s{"s", 3}, b{"b", 40};
  const auto expect_same = [](auto type, const Shape& x, const Shape& y, const Shape& output) {
    with_precisions([&](MatmulPrecision precision) {
      expect_cuts_do_not_matter<decltype(type)>(x, y, output, precision);
    });
  };
  const float f32{};
  const BFloat16 bf16{};
  expect_same(f32, {r, k}, {k, c}, {r, c});
  expect_same(f32, {r, k, s}, {s, c, k}, {r, c});
  expect_same(f32, {r, s, k}, {k, s, c}, {r, c});
  expect_same(bf16, {r, s, k}, {k, s, c}, {r, c});
  expect_same(f32, {r, k}, {c, k}, {c, r});
  expect_same(f32, {s, r, k}, {c, k, s}, {c, r});
  expect_same(f32, {b, k}, {b, k}, Shape{b});
  expect_same(f32, {b, k, c}, {b, k, c}, {b, c});
  expect_same(bf16, {b, k, c}, {b, k, c}, {b, c});
}

// A slice with one row and one column is multiplied entry by entry of the batch, also where the summed dimensions are odd.
TEST(EinsumCuts, ToOneRowDoNotChangeBits) {
  const Dimension r{"r", 24}, c{"c", 1}, k{"k", 133}, s{"s", 3}, v{"v", 16};
  with_precisions([&](MatmulPrecision precision) {
    expect_cuts_do_not_matter<float>({r, k, v}, {k, c, v}, {r, c, v}, precision);
    expect_cuts_do_not_matter<float>({r, k, s, v}, {s, k, c, v}, {r, c, v}, precision);
  });
}

// The batch dimension is the vector of an elementwise product, and is split too finely for that.
TEST(EinsumCuts, OfTheVectorDoNotChangeBits) {
  const Dimension k{"k", 800}, v{"v", 24}, few{"v", 3};
  const std::vector<float> a = random_elements<float>(k.size * v.size),
                           b = random_elements<float>(k.size * v.size);
  const std::vector<float> whole = run_einsum<float>({{k, v}, {k, v}}, Shape{v}, {a, b}, false);
  std::vector<std::vector<float>> parts(2);
  for (int64_t i = 0; i < k.size; ++i) {
    parts[0].insert(parts[0].end(), &a[i * v.size], &a[i * v.size] + few.size);
    parts[1].insert(parts[1].end(), &b[i * v.size], &b[i * v.size] + few.size);
  }
  const std::vector<float> part = run_einsum<float>({{k, few}, {k, few}}, Shape{few}, parts, false);
  EXPECT_TRUE(same_bits(part, std::vector<float>(whole.begin(), whole.begin() + few.size)));
}

}  // namespace
}  // namespace mtf::testing
