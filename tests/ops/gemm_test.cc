#include "engine/backend/cpu/contractions/gemm.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

#include "engine/backend/cpu/registry/kernel_registry.h"
#include "engine/graph/graph.h"
#include "engine/ops/einsum.h"
#include "engine/ops/expert_product.h"

namespace mtf::testing {
namespace {

std::mt19937 generator(1);

int64_t random_size(int64_t least, int64_t most) {
  return std::uniform_int_distribution<int64_t>(least, most)(generator);
}

template <class T>
std::vector<T> random_values(int64_t n) {
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<T> values;
  for (int64_t i = 0; i < n; ++i) values.push_back(T(uniform(generator)));
  return values;
}

/// A matrix whose memory ends with its values, so that a sanitizer detects a read beyond them.
template <class T>
struct Matrix {
  int64_t rows, columns, row_stride, column_stride, begin;
  std::vector<T> values;

  Matrix(int64_t rows, int64_t columns, bool transposed)
      : rows(rows), columns(columns), begin(random_size(0, 3)) {
    const int64_t distance = (transposed ? rows : columns) + (random_size(0, 1) ? 0 : random_size(1, 20));
    row_stride = transposed ? 1 : distance;
    column_stride = transposed ? distance : 1;
    values = random_values<T>(begin + (rows - 1) * row_stride + (columns - 1) * column_stride + 1);
  }
  const T* at(int64_t i, int64_t j) const {
    return values.data() + begin + i * row_stride + j * column_stride;
  }
};

/// Returns rows [row, row + rows) and columns [column, column + columns) of a * b.
template <class T>
std::vector<float> product_block(const Matrix<T>& a, const Matrix<T>& b, int64_t row, int64_t rows,
                                 int64_t column, int64_t columns, const GemmKernels& kernels) {
  const SummedAxis summed{a.columns, a.column_stride, b.row_stride};
  std::vector<float> c(rows * columns, NAN), scratch(product_scratch(rows, columns, a.columns), NAN);
  multiply(Product<T>{rows,
                      columns,
                      {&summed, 1},
                      a.at(row, 0),
                      a.row_stride,
                      b.at(0, column),
                      b.column_stride,
                      c.data(),
                      columns},
           scratch.data(), kernels);
  return c;
}

template <class T>
void expect_bits_of_the_whole(int64_t rows, int64_t columns, int64_t depth, const GemmKernels& kernels) {
  const Matrix<T> a(rows, depth, random_size(0, 1)), b(depth, columns, random_size(0, 1));
  const std::vector<float> whole = product_block(a, b, 0, rows, 0, columns, kernels);
  for (int part = 0; part < 4; ++part) {
    const int64_t row = random_size(0, rows - 1), column = random_size(0, columns - 1);
    const int64_t height = random_size(1, rows - row), width = random_size(1, columns - column);
    const std::vector<float> block = product_block(a, b, row, height, column, width, kernels);
    for (int64_t i = 0; i < height; ++i) {
      ASSERT_EQ(std::memcmp(&block[i * width], &whole[(row + i) * columns + column], width * sizeof(float)),
                0)
          << kernels.vector_width << " wide, " << rows << "x" << columns << "x" << depth << ", row "
          << row + i << " of " << height << "x" << width;
    }
  }
}

TEST(Gemm, ABlockHasTheBitsOfTheWhole) {
  for (const InstructionSet set : available_instruction_sets()) {
    const GemmKernels& kernels = gemm_kernels(set);
    for (int trial = 0; trial < 60; ++trial) {
      const int64_t rows = random_size(1, trial % 3 ? 80 : 700),
                    columns = random_size(1, trial % 2 ? 90 : 1200);
      const int64_t depth = random_size(1, trial % 4 ? 60 : 1200);
      expect_bits_of_the_whole<float>(rows, columns, depth, kernels);
      expect_bits_of_the_whole<BFloat16>(rows, columns, depth, kernels);
    }
  }
}

TEST(Gemm, FewRowsHaveTheBitsOfMany) {
  constexpr int64_t kRows = 40;
  const auto expect_same = [&]<class T>(T, int64_t columns, int64_t depth, int transposed,
                                        const GemmKernels& kernels) {
    const Matrix<T> a(kRows, depth, transposed & 1), b(depth, columns, transposed & 2);
    const std::vector<float> whole = product_block(a, b, 0, kRows, 0, columns, kernels);
    for (int64_t height = 1; height <= kMostThinRows + 1; ++height) {
      const int64_t row = random_size(0, kRows - height);
      const std::vector<float> block = product_block(a, b, row, height, 0, columns, kernels);
      ASSERT_EQ(std::memcmp(block.data(), &whole[row * columns], block.size() * sizeof(float)), 0)
          << kernels.vector_width << " wide, " << height << "x" << columns << "x" << depth << " "
          << transposed;
    }
  };
  for (const InstructionSet set : available_instruction_sets()) {
    for (const auto& [columns, depth] : {std::array{16, 4}, {37, 385}, {1100, 50}, {130, 1031}, {64, 1}}) {
      for (const int transposed : {0, 1, 2, 3}) {
        expect_same(float(), columns, depth, transposed, gemm_kernels(set));
        expect_same(BFloat16(), columns, depth, transposed, gemm_kernels(set));
      }
    }
  }
}

TEST(Gemm, FewRowsAddToRowsThatAreApart) {
  constexpr int64_t kRows = 3, kColumns = 70, kDepth = 400, kStride = 90;
  const std::vector<float> a = random_values<float>(kDepth * 5), b = random_values<float>(kDepth * kColumns);
  for (const InstructionSet set : available_instruction_sets()) {
    std::vector<float> scratch(product_scratch(kRows, kColumns, kDepth)), sums(kRows * kColumns),
        c(kRows * kStride, 2);
    const SummedAxis summed{kDepth, 5, kColumns};
    Product<float> product{kRows, kColumns, {&summed, 1}, a.data(), 1, b.data(), 1, sums.data(), kColumns};
    multiply(product, scratch.data(), gemm_kernels(set));
    product.c = c.data();
    product.c_row_stride = kStride;
    product.adds = true;
    multiply(product, scratch.data(), gemm_kernels(set));
    for (int64_t i = 0; i < kRows * kStride; ++i) {
      const int64_t row = i / kStride, column = i % kStride;
      const float expected = column < kColumns ? 2 + sums[row * kColumns + column] : 2;
      ASSERT_NEAR(c[i], expected, 1e-4) << name_of(set) << " " << i;
    }
  }
}

TEST(Gemm, TransposedOperandsGiveTheSameBits) {
  for (const InstructionSet set : available_instruction_sets()) {
    const GemmKernels& kernels = gemm_kernels(set);
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
        const std::vector<float> c = product_block(a, b, 0, rows, 0, columns, kernels);
        if (first.empty()) first = c;
        EXPECT_EQ(std::memcmp(c.data(), first.data(), c.size() * sizeof(float)), 0)
            << name_of(set) << transposed;
      }
    }
  }
}

TEST(Gemm, IsAsExactAsASumInFloat32CanBe) {
  for (const InstructionSet set : available_instruction_sets()) {
    const GemmKernels& kernels = gemm_kernels(set);
    for (const int64_t depth : {1, 15, 384, 385, 2000}) {
      const Matrix<float> a(31, depth, false), b(depth, 45, true);
      const std::vector<float> c = product_block(a, b, 0, 31, 0, 45, kernels);
      for (int64_t i = 0; i < 31; ++i) {
        for (int64_t j = 0; j < 45; ++j) {
          double sum = 0;
          for (int64_t k = 0; k < depth; ++k) sum += static_cast<double>(*a.at(i, k)) * *b.at(k, j);
          ASSERT_NEAR(c[i * 45 + j], sum, 1e-7 * static_cast<double>(depth + 1))
              << name_of(set) << " depth " << depth;
        }
      }
    }
  }
}

TEST(Gemm, SeveralSummedAxesAreOneDepth) {
  const int64_t outer = 7, inner = 90, rows = 20, columns = 50;
  const std::vector<float> a = random_values<float>(rows * outer * inner),
                           b = random_values<float>(outer * inner * columns);
  // The same b with its two axes exchanged in memory.
  std::vector<float> exchanged(b.size());
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i)
      std::copy_n(&b[(o * inner + i) * columns], columns, &exchanged[(i * outer + o) * columns]);
  }
  const std::array<SummedAxis, 1> joined{{{outer * inner, 1, columns}}};
  const std::array<SummedAxis, 2> apart{{{outer, inner, columns}, {inner, 1, outer * columns}}};
  for (const InstructionSet set : available_instruction_sets()) {
    const GemmKernels& kernels = gemm_kernels(set);
    std::vector<float> scratch(product_scratch(rows, columns, outer * inner)), c(rows * columns), d(c);
    multiply(Product<float>{rows, columns, joined, a.data(), outer * inner, b.data(), 1, c.data(), columns},
             scratch.data(), kernels);
    multiply(
        Product<float>{rows, columns, apart, a.data(), outer * inner, exchanged.data(), 1, d.data(), columns},
        scratch.data(), kernels);
    EXPECT_EQ(c, d) << name_of(set);
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
  const std::vector<T> a = random_values<T>(rows * depth), b = random_values<T>(depth * columns);
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
    for (const InstructionSet set : available_instruction_sets()) {
      std::vector<float> scratch(product_scratch(rows, columns, depth));
      const auto by_kernels = [&](const auto& product) {
        multiply(product, scratch.data(), gemm_kernels(set));
      };
      expect_places_do_not_matter<float>(rows, columns, depth, by_kernels);
      expect_places_do_not_matter<BFloat16>(rows, columns, depth, by_kernels);
    }
    expect_places_do_not_matter<double>(rows, columns, depth,
                                        [](const auto& product) { multiply(product, nullptr); });
  }
}

TEST(Gemm, ProductsEntryByEntryHaveTheBitsOfAMatrixProduct) {
  const int64_t depth = depth_block(384), size = 45;
  const std::vector<float> a = random_values<float>(depth * size), b = random_values<float>(depth * size);
  const SummedAxis summed{depth, size, size};
  for (const InstructionSet set : available_instruction_sets()) {
    const GemmKernels& kernels = gemm_kernels(set);
    std::vector<float> sums(size), scratch(product_scratch(1, 1, depth));
    kernels.add_products({a.data(), b.data(), size, size, depth, size}, sums.data());
    for (int64_t i = 0; i < size; ++i) {
      float c;
      multiply(Product<float>{1, 1, {&summed, 1}, &a[i], 0, &b[i], 0, &c, 1}, scratch.data(), kernels);
      EXPECT_EQ(sums[i], c) << name_of(set) << " " << i;
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
                          const std::vector<std::vector<T>>& inputs, bool task_by_task) {
  Graph graph;
  const auto input = [&](const char* name, int n) { return graph.input(name, shapes[n], DTypeOf<T>::value); };
  const Tensor y = einsum({input("a", 0), input("b", 1)}, output);
  return run_kernel<T>(y.operation(), {slice_of(inputs[0]), slice_of(inputs[1])}, task_by_task);
}

template <class T>
bool same_bits(const std::vector<T>& x, const std::vector<T>& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
}

template <class T>
void expect_tasks_do_not_matter(const Shape& a, const Shape& b, const Shape& output) {
  const std::vector<std::vector<T>> inputs{random_values<T>(a.size()), random_values<T>(b.size())};
  EXPECT_TRUE(
      same_bits(run_einsum<T>({a, b}, output, inputs, false), run_einsum<T>({a, b}, output, inputs, true)))
      << a.to_string() << b.to_string();
}

TEST(EinsumTasks, DoNotChangeBits) {
  const Dimension batch{"batch", 300}, in{"in", 400}, out{"out", 700}, heads{"heads", 5};
  expect_tasks_do_not_matter<float>({batch, in}, {in, out}, {batch, out});
  expect_tasks_do_not_matter<float>({in, batch}, {out, in}, {out, batch});
  expect_tasks_do_not_matter<float>({heads, batch, in}, {in, out}, {batch, heads, out});
  expect_tasks_do_not_matter<BFloat16>({batch, in}, {in, out}, {batch, out});
}

/// Products of 90 rows in two groups with the matrices of three experts, of which one has no rows.
template <class T>
void expect_tasks_of_experts_do_not_matter() {
  const Dimension block{"experts", 1}, groups{"groups", 2}, capacity{"capacity", 50}, in{"in", 530},
      out{"out", 600}, experts{"experts", 3};
  const Shape rows{block, groups, capacity};
  const std::vector<int32_t> ends{0, 30, 30, 50, 0, 1, 1, 40};
  const std::vector<T> of_x = random_values<T>(100 * in.size), of_y = random_values<T>(100 * out.size),
                       of_w = random_values<T>(3 * in.size * out.size);
  Graph graph;
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
  expect_tasks_of_experts_do_not_matter<float>();
  expect_tasks_of_experts_do_not_matter<BFloat16>();
  expect_tasks_of_experts_do_not_matter<double>();
}

/// Returns entries [begin, begin + size) of the first dimension.
template <class T>
std::vector<T> slice(const std::vector<T>& values, const Shape& shape, int64_t begin, int64_t size) {
  const int64_t row = shape.size() / shape[0].size;
  return {values.begin() + begin * row, values.begin() + (begin + size) * row};
}

template <class T>
void expect_cuts_do_not_matter(const Shape& a, const Shape& b, const Shape& output) {
  const std::vector<std::vector<T>> inputs{random_values<T>(a.size()), random_values<T>(b.size())};
  const std::vector<T> whole = run_einsum<T>({a, b}, output, inputs, false);
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
    const std::vector<T> result = run_einsum<T>({part(a), part(b)}, part(output),
                                                {part_of(a, inputs[0]), part_of(b, inputs[1])}, false);
    EXPECT_TRUE(same_bits(result, slice(whole, output, 5, size)))
        << a.to_string() << b.to_string() << " -> " << output.to_string() << " cut to " << size;
  }
}

TEST(EinsumCuts, OfRowsColumnsAndBatchDoNotChangeBits) {
  const Dimension r{"r", 24}, c{"c", 37}, k{"k", 800}, s{"s", 3}, b{"b", 40};
  for (const Shape& output : {Shape{r, c}, Shape{c, r}}) {
    if (output[0].name == "r") {
      expect_cuts_do_not_matter<float>({r, k}, {k, c}, output);
      expect_cuts_do_not_matter<float>({r, k, s}, {s, c, k}, output);
      expect_cuts_do_not_matter<float>({r, s, k}, {k, s, c}, output);
      expect_cuts_do_not_matter<BFloat16>({r, s, k}, {k, s, c}, output);
    } else {
      expect_cuts_do_not_matter<float>({r, k}, {c, k}, output);
      expect_cuts_do_not_matter<float>({s, r, k}, {c, k, s}, output);
    }
  }
  expect_cuts_do_not_matter<float>({b, k}, {b, k}, Shape{b});
  expect_cuts_do_not_matter<float>({b, k, c}, {b, k, c}, {b, c});
  expect_cuts_do_not_matter<BFloat16>({b, k, c}, {b, k, c}, {b, c});
}

// The batch dimension is the vector of an elementwise product, and is split too finely for that.
TEST(EinsumCuts, OfTheVectorDoNotChangeBits) {
  const Dimension k{"k", 800}, v{"v", 24}, few{"v", 3};
  const std::vector<float> a = random_values<float>(k.size * v.size),
                           b = random_values<float>(k.size * v.size);
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
