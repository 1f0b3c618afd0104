// Tests collectives against definitions with index sets: which member's element at which multi-index each
// element of a result comes from.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <random>

#include "engine/comm/communicator.h"
#include "engine/spmd/exchange.h"

namespace mtf {
namespace {

using Kind = Collective::Kind;
using Sizes = std::vector<int64_t>;
using Bytes = std::vector<std::byte>;

int64_t product(const Sizes& sizes) {
  int64_t n = 1;
  for (int64_t size : sizes) n *= size;
  return n;
}

Sizes index_of(int64_t element, const Sizes& sizes) {
  Sizes index(sizes.size());
  for (size_t i = sizes.size(); i-- > 0;) {
    index[i] = element % sizes[i];
    element /= sizes[i];
  }
  return index;
}

int64_t element_of(const Sizes& index, const Sizes& sizes) {
  int64_t element = 0;
  for (size_t i = 0; i < sizes.size(); ++i) element = element * sizes[i] + index[i];
  return element;
}

Sizes result_sizes(const Collective& c) {
  Sizes sizes = c.input;
  const int64_t n = c.members();
  if (c.kind == Kind::kReduceScatter || c.kind == Kind::kAllToAll) sizes[c.dimension] /= n;
  if (c.kind == Kind::kAllGather) sizes[c.dimension] *= n;
  if (c.kind == Kind::kAllToAll) sizes[c.concat_dimension] *= n;
  return sizes;
}

struct Outcome {
  std::vector<Bytes> results;  ///< result of each member
  std::vector<double> bytes;   ///< received by each member
};

/// Runs the collective for all members, with the tasks in random order, into memory that is not zero.
Outcome run(const Collective& c, const std::vector<Bytes>& inputs) {
  const std::unique_ptr<PreparedCollective> prepared = prepare_in_process(c);
  std::vector<const std::byte*> pointers;
  for (const Bytes& input : inputs) pointers.push_back(input.data());
  Outcome outcome;
  for (int64_t member = 0; member < c.members(); ++member) {
    Bytes result(product(result_sizes(c)) * size_of(c.dtype), std::byte{0x5a});
    double bytes = 0;
    for (int64_t task = prepared->tasks(); task-- > 0;) {
      bytes += prepared->run(pointers, member, result.data(), task, task + 1);
    }
    Bytes at_once(result.size(), std::byte{0xa5});
    EXPECT_DOUBLE_EQ(prepared->run(pointers, member, at_once.data(), 0, prepared->tasks()), bytes);
    EXPECT_EQ(result, at_once) << "task by task and at once";
    outcome.results.push_back(std::move(result));
    outcome.bytes.push_back(bytes);
  }
  return outcome;
}

template <class T>
std::vector<Bytes> random_inputs(const Collective& c, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<Bytes> inputs;
  for (int64_t m = 0; m < c.members(); ++m) {
    Bytes bytes(product(c.input) * sizeof(T));
    T* data = reinterpret_cast<T*>(bytes.data());
    for (int64_t i = 0; i < product(c.input); ++i) {
      const double x = std::normal_distribution<>(0, 3)(random);
      if constexpr (std::is_same_v<T, BFloat16>) {
        data[i] = BFloat16(static_cast<float>(x));
      } else if constexpr (std::is_same_v<T, bool>) {
        data[i] = x > 0;
      } else if constexpr (std::is_integral_v<T>) {
        data[i] = static_cast<T>(x * 100);
      } else {
        data[i] = static_cast<T>(x);
      }
    }
    inputs.push_back(std::move(bytes));
  }
  return inputs;
}

template <class T>
T at(const Bytes& bytes, int64_t element) {
  T value;
  std::memcpy(&value, bytes.data() + element * sizeof(T), sizeof(T));
  return value;
}

/// Returns the sum of the members [base, ...) of one subgroup by the recursive definition in docs/numerics.md
/// "Sums over mesh dimensions".
template <class A>
A tree_sum(const Sizes& group, size_t level, int64_t base, const std::function<A(int64_t)>& value) {
  if (level == group.size()) return value(base);
  const std::function<A(int64_t, int64_t)> sum = [&](int64_t low, int64_t high) -> A {
    if (high - low == 1) return tree_sum<A>(group, level + 1, base * group[level] + low, value);
    int64_t power = 1;
    while (power * 2 < high - low) power *= 2;
    return sum(low, low + power) + sum(low + power, high);
  };
  return sum(0, group[level]);
}

/// Returns the index of the input element that becomes `index` of a member's result of a reduction.
Sizes source_index(const Collective& c, Sizes index, int64_t member) {
  if (c.kind == Kind::kReduceScatter) index[c.dimension] += member * (c.input[c.dimension] / c.members());
  return index;
}

template <class T, class A>
void expect_sums(const Collective& c) {
  const std::vector<Bytes> inputs = random_inputs<T>(c, 7);
  const Outcome got = run(c, inputs);
  const Sizes sizes = result_sizes(c);
  for (int64_t member = 0; member < c.members(); ++member) {
    for (int64_t i = 0; i < product(sizes); ++i) {
      const int64_t element = element_of(source_index(c, index_of(i, sizes), member), c.input);
      const std::function<A(int64_t)> value = [&](int64_t m) {
        return static_cast<A>(at<T>(inputs[m], element));
      };
      const T expected = T(tree_sum<A>(c.group, 0, 0, value));
      const T actual = at<T>(got.results[member], i);
      ASSERT_EQ(std::memcmp(&actual, &expected, sizeof(T)), 0) << "member " << member << " element " << i;
    }
  }
}

/// Checks that every element of every result comes from (member, element) `source`, or is zero (member -1).
template <class T>
void expect_moves(const Collective& c,
                  const std::function<std::pair<int64_t, Sizes>(int64_t member, Sizes index)>& source) {
  const std::vector<Bytes> inputs = random_inputs<T>(c, 3);
  const Outcome got = run(c, inputs);
  const Sizes sizes = result_sizes(c);
  for (int64_t member = 0; member < c.members(); ++member) {
    double received = 0;
    for (int64_t i = 0; i < product(sizes); ++i) {
      const auto [from, index] = source(member, index_of(i, sizes));
      const T expected = from < 0 ? T() : at<T>(inputs[from], element_of(index, c.input));
      const T actual = at<T>(got.results[member], i);
      ASSERT_EQ(std::memcmp(&actual, &expected, sizeof(T)), 0) << "member " << member << " element " << i;
      if (from >= 0 && from != member) received += sizeof(T);
    }
    EXPECT_DOUBLE_EQ(got.bytes[member], received);
  }
}

Collective collective(Kind kind, DType dtype, Sizes group, Sizes input, int dimension = -1, int concat = -1) {
  Collective c;
  c.kind = kind;
  c.dtype = dtype;
  c.group = std::move(group);
  c.input = std::move(input);
  c.dimension = dimension;
  c.concat_dimension = concat;
  return c;
}

const std::vector<Sizes> kGroups = {{1}, {2}, {3}, {5}, {7}, {8}, {2, 3}, {3, 2}, {2, 2, 2}};

TEST(AllReduce, FollowsTheTreeBitForBit) {
  for (const Sizes& group : kGroups) {
    expect_sums<float, float>(collective(Kind::kAllReduce, DType::kFloat32, group, {3, 1, 17}));
    expect_sums<double, double>(collective(Kind::kAllReduce, DType::kFloat64, group, {3, 17}));
    expect_sums<BFloat16, float>(collective(Kind::kAllReduce, DType::kBFloat16, group, {51}));
    expect_sums<int32_t, int32_t>(collective(Kind::kAllReduce, DType::kInt32, group, {51}));
    expect_sums<int64_t, int64_t>(collective(Kind::kAllReduce, DType::kInt64, group, {51}));
  }
}

TEST(AllReduce, OfScalarsAndOfManyTasks) {
  expect_sums<float, float>(collective(Kind::kAllReduce, DType::kFloat32, {3}, {}));
  expect_sums<float, float>(collective(Kind::kAllReduce, DType::kFloat32, {3}, {70001}));
}

TEST(ReduceScatter, FollowsTheTreeAlongEveryAxis) {
  for (const Sizes& group : kGroups) {
    const int64_t n = product(group);
    for (int axis = 0; axis < 3; ++axis) {
      Sizes input{2, 3, 4};
      input[axis] = 2 * n;
      expect_sums<float, float>(collective(Kind::kReduceScatter, DType::kFloat32, group, input, axis));
      expect_sums<BFloat16, float>(collective(Kind::kReduceScatter, DType::kBFloat16, group, input, axis));
      expect_sums<double, double>(collective(Kind::kReduceScatter, DType::kFloat64, group, input, axis));
      expect_sums<int32_t, int32_t>(collective(Kind::kReduceScatter, DType::kInt32, group, input, axis));
    }
  }
  expect_sums<float, float>(collective(Kind::kReduceScatter, DType::kFloat32, {3}, {5, 30, 1001}, 1));
}

TEST(AllReduce, AddsInt32Exactly) {
  Collective c = collective(Kind::kAllReduce, DType::kInt32, {2}, {1});
  std::vector<Bytes> inputs(2, Bytes(4));
  const int32_t a = (1 << 30) + 1, b = 2, expected = (1 << 30) + 3;  // not representable in float32
  std::memcpy(inputs[0].data(), &a, 4);
  std::memcpy(inputs[1].data(), &b, 4);
  EXPECT_EQ(at<int32_t>(run(c, inputs).results[1], 0), expected);
}

TEST(AllReduce, SumsOfBFloat16RoundOnce) {
  Collective c = collective(Kind::kAllReduce, DType::kBFloat16, {4}, {1});
  std::vector<Bytes> inputs(4, Bytes(2));
  const float terms[] = {256, 1, 1, 1};  // 256 + 1 is 256 in bfloat16; 259 rounds to 260
  for (int m = 0; m < 4; ++m) {
    const BFloat16 x(terms[m]);
    std::memcpy(inputs[m].data(), &x, 2);
  }
  EXPECT_EQ(static_cast<float>(at<BFloat16>(run(c, inputs).results[0], 0)), 260);
}

TEST(AllReduce, MaxAndMinOfBoolAreAnyAndAll) {
  for (const Sizes& group : kGroups) {
    for (const Reduction reduction : {Reduction::kMax, Reduction::kMin}) {
      Collective c = collective(Kind::kAllReduce, DType::kBool, group, {64});
      c.reduction = reduction;
      const std::vector<Bytes> inputs = random_inputs<bool>(c, 11);
      const Outcome got = run(c, inputs);
      for (int64_t i = 0; i < 64; ++i) {
        bool any = false, all = true;
        for (const Bytes& input : inputs) {
          any |= at<bool>(input, i);
          all &= at<bool>(input, i);
        }
        EXPECT_EQ(at<bool>(got.results[0], i), reduction == Reduction::kMax ? any : all);
      }
    }
  }
}

template <class T>
void expect_extrema(DType dtype) {
  for (const Sizes& group : kGroups) {
    Collective c = collective(Kind::kReduceScatter, dtype, group, {2, 2 * product(group)}, 1);
    for (const Reduction reduction : {Reduction::kMax, Reduction::kMin}) {
      c.reduction = reduction;
      const std::vector<Bytes> inputs = random_inputs<T>(c, 5);
      const Outcome got = run(c, inputs);
      for (int64_t member = 0; member < c.members(); ++member) {
        for (int64_t i = 0; i < 4; ++i) {
          const int64_t element = element_of(source_index(c, index_of(i, {2, 2}), member), c.input);
          double expected = static_cast<double>(at<T>(inputs[0], element));
          for (const Bytes& input : inputs) {
            const auto x = static_cast<double>(at<T>(input, element));
            expected = reduction == Reduction::kMax ? std::max(expected, x) : std::min(expected, x);
          }
          EXPECT_EQ(static_cast<double>(at<T>(got.results[member], i)), expected);
        }
      }
    }
  }
}

TEST(ReduceScatter, OfMaximaAndMinima) {
  expect_extrema<float>(DType::kFloat32);
  expect_extrema<double>(DType::kFloat64);
  expect_extrema<int32_t>(DType::kInt32);
}

TEST(AllReduce, ANanStaysInItsElementAndWinsEveryMaximum) {
  for (const Reduction reduction : {Reduction::kSum, Reduction::kMax, Reduction::kMin}) {
    for (int64_t culprit = 0; culprit < 5; ++culprit) {
      Collective c = collective(Kind::kAllReduce, DType::kFloat32, {5}, {3});
      c.reduction = reduction;
      std::vector<Bytes> inputs = random_inputs<float>(c, 2);
      reinterpret_cast<float*>(inputs[culprit].data())[1] = std::numeric_limits<float>::quiet_NaN();
      const Outcome got = run(c, inputs);
      for (const Bytes& result : got.results) {
        EXPECT_TRUE(std::isfinite(at<float>(result, 0)));
        EXPECT_TRUE(std::isnan(at<float>(result, 1)));
        EXPECT_TRUE(std::isfinite(at<float>(result, 2)));
      }
    }
  }
}

TEST(Reductions, BytesAreThoseOfReduceScatterAndAllGather) {
  Collective c = collective(Kind::kAllReduce, DType::kFloat32, {2, 3}, {12, 5});
  double total = 0;
  for (double bytes : run(c, random_inputs<float>(c, 1)).bytes) total += bytes;
  EXPECT_NEAR(total, 6 * 2 * 5.0 / 6 * 12 * 5 * 4, 1e-6);
  c = collective(Kind::kReduceScatter, DType::kBFloat16, {2, 3}, {12, 5}, 0);
  for (double bytes : run(c, random_inputs<BFloat16>(c, 1)).bytes) EXPECT_DOUBLE_EQ(bytes, 5 * 2 * 5 * 2);
  c = collective(Kind::kAllReduce, DType::kFloat32, {1}, {7});
  EXPECT_EQ(run(c, random_inputs<float>(c, 1)).bytes[0], 0);
}

template <class T>
void expect_gathers(DType dtype) {
  for (const Sizes& group : kGroups) {
    for (int axis = 0; axis < 3; ++axis) {
      const Collective c = collective(Kind::kAllGather, dtype, group, {2, 3, 5}, axis);
      expect_moves<T>(c, [&](int64_t, Sizes index) {
        const int64_t from = index[axis] / c.input[axis];
        index[axis] %= c.input[axis];
        return std::pair(from, index);
      });
    }
  }
}

TEST(AllGather, ConcatenatesAlongEveryAxis) {
  expect_gathers<float>(DType::kFloat32);
  expect_gathers<BFloat16>(DType::kBFloat16);
  expect_gathers<double>(DType::kFloat64);
  expect_gathers<int32_t>(DType::kInt32);
  expect_gathers<int64_t>(DType::kInt64);
  expect_gathers<bool>(DType::kBool);
}

template <class T>
void expect_all_to_alls(DType dtype) {
  for (const Sizes& group : kGroups) {
    const int64_t n = product(group);
    for (int split = 0; split < 3; ++split) {
      for (int concat = 0; concat < 3; ++concat) {
        if (split == concat) continue;
        Sizes input{2, 3, 5};
        input[split] *= n;
        const Collective c = collective(Kind::kAllToAll, dtype, group, input, split, concat);
        expect_moves<T>(c, [&](int64_t member, Sizes index) {
          const int64_t from = index[concat] / input[concat];
          index[concat] %= input[concat];
          index[split] += member * (input[split] / n);
          return std::pair(from, index);
        });
      }
    }
  }
}

TEST(AllToAll, MovesTheSplitBetweenEveryPairOfAxes) {
  expect_all_to_alls<float>(DType::kFloat32);
  expect_all_to_alls<BFloat16>(DType::kBFloat16);
  expect_all_to_alls<double>(DType::kFloat64);
  expect_all_to_alls<int32_t>(DType::kInt32);
  expect_all_to_alls<bool>(DType::kBool);
}

template <class T>
void expect_shifts(DType dtype) {
  for (const int64_t n : {1, 2, 3, 5}) {
    for (int axis = 0; axis < 3; ++axis) {
      for (const bool wrap : {false, true}) {
        for (int64_t offset = -13; offset <= 13; ++offset) {
          Collective c = collective(Kind::kExchange, dtype, {n}, {2, 3, 2}, axis);
          const int64_t part = c.input[axis], size = n * part;
          for (int64_t m = 0; m < n; ++m) c.transfers.push_back(shift_transfers(n, part, offset, wrap, m));
          double moved = 0;
          expect_moves<T>(c, [&](int64_t member, Sizes index) {
            int64_t from = member * part + index[axis] - offset;
            if (wrap) from = (from % size + size) % size;
            if (from < 0 || from >= size) return std::pair(int64_t{-1}, index);
            index[axis] = from % part;
            if (from / part != member) ++moved;
            return std::pair(from / part, index);
          });
          EXPECT_EQ(static_cast<double>(exchanged_entries(n, part, offset, wrap)),
                    moved * static_cast<double>(part) / 12);
        }
      }
    }
  }
}

TEST(Exchange, ShiftsByEveryOffsetAlongEveryAxis) {
  expect_shifts<float>(DType::kFloat32);
  expect_shifts<BFloat16>(DType::kBFloat16);
  expect_shifts<int32_t>(DType::kInt32);
  expect_shifts<bool>(DType::kBool);
}

TEST(Collectives, TasksDependOnShapesAlone) {
  const Collective c = collective(Kind::kAllReduce, DType::kFloat32, {4}, {1 << 20});
  const std::unique_ptr<PreparedCollective> prepared = prepare_in_process(c);
  EXPECT_EQ(prepared->tasks(), (1 << 20) / (1 << 15));
}

}  // namespace
}  // namespace mtf
