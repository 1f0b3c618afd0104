#include "engine/backend/cpu/contractions/joint_products.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>

#include "engine/backend/backend.h"
#include "engine/base/instruction_set.h"
#include "engine/comm/tree_sum.h"
#include "engine/graph/graph.h"
#include "engine/ops/einsum.h"
#include "tests/support/budget.h"
#include "tests/support/random_products.h"
#include "tests/support/with_instruction_set.h"

namespace mtf::testing {
namespace {

using Elements = std::vector<float>;

LocalTensor tensor_of(const Shape& shape) { return {shape, shape, shape.strides(), DType::kFloat32}; }

Slice slice_of(const Elements& values) {
  return {const_cast<std::byte*>(reinterpret_cast<const std::byte*>(values.data())), nullptr};
}

/// Runs tasks [begin, end) for each two neighbours of `cuts`.
void run(const Kernel& kernel, const std::vector<Slice>& inputs, const std::vector<Slice>& outputs,
         const std::vector<int64_t>& cuts) {
  std::vector<std::byte> scratch(kernel.scratch_bytes() + 64);
  auto address = reinterpret_cast<uintptr_t>(scratch.data());
  const KernelCall call{inputs, outputs, scratch.data() + (64 - address % 64)};
  for (size_t i = 0; i + 1 < cuts.size(); ++i) kernel.run(call, cuts[i], cuts[i + 1]);
}

std::vector<int64_t> all_cuts(const Kernel& kernel) {
  std::vector<int64_t> cuts(static_cast<size_t>(kernel.tasks()) + 1);
  for (size_t i = 0; i < cuts.size(); ++i) cuts[i] = static_cast<int64_t>(i);
  return cuts;
}

/// An einsum at several positions: each has a slice of its own of every input but `shared`.
class JointEinsum {
 public:
  JointEinsum(const Shape& a, const Shape& b, const Shape& output, int64_t positions, int shared,
              MatmulPrecision precision = MatmulPrecision::kFull)
      : output_(output), positions_(positions) {
    graph_.set_matmul_precision(precision);
    result_ = einsum({graph_.input("a", a), graph_.input("b", b)}, output);
    for (int64_t position = 0; position < positions; ++position) {
      for (int i = 0; i < 2; ++i) {
        if (position == 0 || i != shared)
          values_[i].push_back(random_elements<float>((i == 0 ? a : b).size()));
        slices_.push_back(slice_of(values_[i].back()));
      }
    }
    context_.emplace(KernelContext{.operation = result_.operation(),
                                   .inputs = {tensor_of(a), tensor_of(b)},
                                   .outputs = {tensor_of(output)}});
  }

  std::unique_ptr<Kernel> prepare(const JointPositions& positions) const {
    return make_cpu_backend()->prepare_joint(*context_, positions);
  }

  /// The results of a kernel for each position.
  std::vector<Elements> one_by_one() const {
    const std::unique_ptr<Kernel> kernel = make_cpu_backend()->prepare(*context_);
    std::vector<Elements> results;
    for (int64_t position = 0; position < positions_; ++position) {
      results.emplace_back(static_cast<size_t>(output_.size()));
      const auto* inputs = slices_.data() + 2 * position;
      run(*kernel, {inputs, inputs + 2}, {slice_of(results.back())}, {0, kernel->tasks()});
    }
    return results;
  }

  /// The results of one kernel, which runs in parts between `cuts`.
  std::vector<Elements> together(const Kernel& kernel, int64_t outputs,
                                 const std::vector<int64_t>& cuts) const {
    std::vector<Elements> results(static_cast<size_t>(outputs),
                                  Elements(static_cast<size_t>(output_.size()), NAN));
    std::vector<Slice> slices;
    for (const Elements& result : results) slices.push_back(slice_of(result));
    run(kernel, slices_, slices, cuts);
    return results;
  }

 private:
  Graph graph_;
  Shape output_;
  int64_t positions_;
  Tensor result_;
  std::deque<Elements> values_[2];
  std::vector<Slice> slices_;
  std::optional<KernelContext> context_;
};

/// Calls `test` with each instruction set of the machine.
template <class Test>
void with_instruction_sets(const Test& test) {
  for (const InstructionSet set : available_instruction_sets()) {
    const WithInstructionSet used(set);
    test();
  }
}

bool same_bits(const Elements& x, const Elements& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(float)) == 0;
}

void expect_rows_together(const Shape& a, const Shape& b, const Shape& output, int64_t positions,
                          int shared) {
  for (const MatmulPrecision precision : {MatmulPrecision::kFull, MatmulPrecision::kBFloat16}) {
    const JointEinsum joint(a, b, output, positions, shared, precision);
    const std::unique_ptr<Kernel> kernel = joint.prepare({.count = positions, .shared = shared});
    ASSERT_TRUE(kernel) << a.to_string() << b.to_string();
    const std::vector<Elements> expected = joint.one_by_one();
    for (const auto& cuts : {std::vector<int64_t>{0, kernel->tasks()}, all_cuts(*kernel)}) {
      const std::vector<Elements> results = joint.together(*kernel, positions, cuts);
      for (size_t i = 0; i < results.size(); ++i)
        ASSERT_TRUE(same_bits(results[i], expected[i]))
            << a.to_string() << b.to_string() << " position " << i;
    }
  }
}

TEST(JointRows, HaveTheBitsOfSeparateProducts) {
  const Dimension batch{"batch", 16}, in{"in", 300}, out{"out", 700}, heads{"heads", 4}, size{"size", 24};
  with_instruction_sets([&] {
    expect_rows_together({batch, in}, {in, out}, {batch, out}, 8, 1);
    expect_rows_together({batch, in}, {out, in}, {batch, out}, 3, 1);
    expect_rows_together({in, out}, {batch, in}, {batch, out}, 5, 0);
    expect_rows_together({batch, heads, size}, {heads, size, out}, {batch, out}, 8, 1);
    expect_rows_together({batch, in}, {in, heads, size}, {batch, heads, size}, 8, 1);
    expect_rows_together({heads, in, batch}, {in, out}, {batch, heads, out}, 2, 1);
    for (int i = 0; i < tries(20); ++i) {
      const Dimension m{"m", random_size(5, 40)}, k{"k", random_size(1, 900)}, n{"n", random_size(2, 300)};
      expect_rows_together({m, k}, {k, n}, {m, n}, random_size(2, 9), 1);
    }
  });
}

TEST(JointRows, AreLeftAloneWhereTheyGainNothing) {
  const Dimension batch{"batch", 16}, many{"many", 500}, in{"in", 30}, out{"out", 70}, heads{"heads", 3};
  const auto joins = [](const Shape& a, const Shape& b, const Shape& output, int shared) {
    return JointEinsum(a, b, output, 2, shared).prepare({.count = 2, .shared = shared}) != nullptr;
  };
  EXPECT_TRUE(joins({batch, in}, {in, out}, {batch, out}, 1));
  EXPECT_FALSE(joins({batch, in}, {in, out}, {batch, out}, 0));  // different columns
  EXPECT_FALSE(joins({many, in}, {in, out}, {many, out}, 1));    // many rows at each position
  EXPECT_FALSE(joins({batch, in}, {in, out}, {out, batch}, 1));  // rows are contiguous
  EXPECT_FALSE(joins({heads, batch, in}, {heads, in, out}, {heads, batch, out}, 1));  // a batch of products
}

void expect_sum_together(const Shape& a, const Shape& b, const Shape& output,
                         const std::vector<int64_t>& group) {
  int64_t positions = 1;
  for (const int64_t size : group) positions *= size;
  const JointEinsum joint(a, b, output, positions, -1);
  const std::unique_ptr<Kernel> kernel = joint.prepare({.count = positions, .summed = group});
  ASSERT_TRUE(kernel) << a.to_string() << b.to_string();
  const std::vector<Elements> terms = joint.one_by_one();
  std::vector<const std::byte*> inputs;
  for (const Elements& term : terms) inputs.push_back(slice_of(term).data);
  Elements expected(static_cast<size_t>(output.size()));
  prepare_reduction(reduction_tree(group), DType::kFloat32, Reduction::kSum)
      ->reduce(inputs, 0, output.size(), slice_of(expected).data);
  for (const auto& cuts : {std::vector<int64_t>{0, kernel->tasks()}, all_cuts(*kernel)})
    ASSERT_TRUE(same_bits(joint.together(*kernel, 1, cuts)[0], expected))
        << a.to_string() << b.to_string() << " " << positions << " positions";
}

TEST(SummedProducts, HaveTheBitsOfAReductionOfSeparateProducts) {
  const Dimension batch{"batch", 16}, length{"length", 5}, in{"in", 180}, out{"out", 700}, heads{"heads", 4},
      size{"size", 24};
  with_instruction_sets([&] {
    expect_sum_together({batch, in}, {batch, out}, {in, out}, {8});
    expect_sum_together({batch, out}, {batch, in}, {in, out}, {3});
    expect_sum_together({batch, length, in}, {batch, length, out}, {in, out}, {2, 3});
    expect_sum_together({batch, in, length}, {batch, length, out}, {in, out}, {7});
    expect_sum_together({batch, heads, size}, {batch, in}, {heads, size, in}, {5});
    expect_sum_together({in, batch}, {out, batch}, {in, out}, {2});
    expect_sum_together({heads, batch, in}, {batch, out}, {in, heads, out}, {4});
    for (int i = 0; i < tries(30); ++i) {
      const Dimension m{"m", random_size(1, 200)}, k{"k", random_size(1, i % 4 ? 40 : 128)},
          n{"n", random_size(2, 300)};
      expect_sum_together({k, m}, {k, n}, {m, n}, {random_size(2, 9)});
    }
  });
}

TEST(SummedProducts, AreLeftAloneWhereTheyGainNothing) {
  const Dimension few{"few", 16}, many{"many", 500}, in{"in", 30}, out{"out", 70};
  const auto joins = [](const Dimension& depth, const Dimension& in, const Dimension& out,
                        MatmulPrecision precision) {
    return JointEinsum({depth, in}, {depth, out}, {in, out}, 2, -1, precision)
               .prepare({.count = 2, .summed = {2}}) != nullptr;
  };
  EXPECT_TRUE(joins(few, in, out, MatmulPrecision::kFull));
  EXPECT_FALSE(joins(few, in, out, MatmulPrecision::kBFloat16));
  EXPECT_FALSE(joins(many, in, out, MatmulPrecision::kFull));
  EXPECT_FALSE(joins(few, {"in", 800}, {"out", 700}, MatmulPrecision::kFull));  // a large total
}

}  // namespace
}  // namespace mtf::testing
