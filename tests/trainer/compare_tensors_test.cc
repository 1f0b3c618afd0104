#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <limits>

#include "engine/safetensors/safetensors.h"
#include "trainer/programs/compare/tensors.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

/// A fixture that writes tensors to two files and compares them.
class CompareTensors : public ::testing::Test {
 protected:
  CompareTensors() {
    std::string name = (std::filesystem::temp_directory_path() / "mtf_compare_tensors_XXXXXX").string();
    directory_ = mkdtemp(name.data());
  }
  ~CompareTensors() override { std::filesystem::remove_all(directory_); }

  TensorsComparison compare(const std::vector<StoredTensor>& a, const std::vector<StoredTensor>& b,
                            double tolerance = 0) const {
    const std::string file_a = (directory_ / "a.safetensors").string();
    const std::string file_b = (directory_ / "b.safetensors").string();
    write_safetensors(file_a, a);
    write_safetensors(file_b, b);
    return compare_tensors(file_a, file_b, tolerance);
  }

 private:
  std::filesystem::path directory_;
};

template <class T>
StoredTensor tensor(const std::string& name, const std::vector<int64_t>& shape, const std::vector<T>& values,
                    const std::vector<std::string>& dimensions = {}) {
  return {.name = name,
          .dtype = DTypeOf<T>::value,
          .shape = shape,
          .dimensions = dimensions,
          .data = std::as_bytes(std::span(values))};
}

TEST_F(CompareTensors, ElementByElement) {
  const std::vector<float> a{1, 2, 3, 4, 5, 6}, b{1, 2, 3, 4, 5.5, 7};
  const TensorsComparison tensors =
      compare({tensor("kernel", {2, 3}, a, {"io", "hidden"}), tensor("same", {6}, a)},
              {tensor("kernel", {2, 3}, b, {"io", "hidden"}), tensor("same", {6}, a)});
  EXPECT_EQ(tensors.compared, 2);
  EXPECT_FALSE(tensors.same());
  ASSERT_EQ(tensors.differences.size(), 1u);
  const TensorDifference& kernel = tensors.differences[0];
  EXPECT_EQ(kernel.name, "kernel");
  EXPECT_EQ(kernel.elements, 6);
  EXPECT_EQ(kernel.differing, 2);
  EXPECT_EQ(kernel.first_place, "[io=1, hidden=1]");
  EXPECT_EQ(kernel.first_values, "5 against 5.5");
  EXPECT_EQ(kernel.largest_absolute, 1);
  EXPECT_DOUBLE_EQ(kernel.largest_relative, 1.0 / 7);
}

TEST_F(CompareTensors, NaNEqualsNaNWhateverItsBits) {
  const std::vector<float> a{1, std::bit_cast<float>(0x7fc00000u)}, b{1, std::bit_cast<float>(0xffc00001u)};
  EXPECT_TRUE(compare({tensor("x", {2}, a)}, {tensor("x", {2}, b)}).same());
  const std::vector<float> number{1, 2};
  const TensorsComparison tensors = compare({tensor("x", {2}, a)}, {tensor("x", {2}, number)}, 0.5);
  ASSERT_EQ(tensors.differences.size(), 1u);
  EXPECT_EQ(tensors.differences[0].first_values, "nan against 2");
  EXPECT_EQ(tensors.differences[0].largest_relative, std::numeric_limits<double>::infinity());
}

TEST_F(CompareTensors, RoundingInAnElementNearZeroIsNoLargeDifference) {
  const std::vector<float> a{1, -1, 1e-9f}, b{1, -1, 2e-9f};
  const TensorsComparison tensors = compare({tensor("x", {3}, a)}, {tensor("x", {3}, b)}, 1e-6);
  EXPECT_TRUE(tensors.same());
  EXPECT_NEAR(tensors.largest_relative, 1e-9 / std::sqrt(2.0 / 3), 1e-15);
  EXPECT_EQ(tensors.largest_in, "x");
  EXPECT_FALSE(compare({tensor("x", {3}, a)}, {tensor("x", {3}, b)}).same());
}

TEST_F(CompareTensors, WithoutToleranceBitsCount) {
  const std::vector<float> a{0.0f}, b{-0.0f};
  const TensorsComparison tensors = compare({tensor("x", {1}, a)}, {tensor("x", {1}, b)});
  ASSERT_EQ(tensors.differences.size(), 1u);
  EXPECT_EQ(tensors.differences[0].first_values, "0 against -0");
  EXPECT_TRUE(compare({tensor("x", {1}, a)}, {tensor("x", {1}, b)}, 1e-12).same());
}

TEST_F(CompareTensors, EveryElementType) {
  const std::vector<BFloat16> bf16_a{BFloat16(1.0f)}, bf16_b{BFloat16(1.5f)};
  const std::vector<double> f64_a{1e300}, f64_b{-1e300};
  const std::vector<int32_t> i32_a{1000000}, i32_b{1000001};
  const std::vector<int64_t> i64_a{int64_t{1} << 60}, i64_b{(int64_t{1} << 60) + 1};
  const std::byte yes[] = {std::byte{1}}, no[] = {std::byte{0}};
  const TensorsComparison tensors =
      compare({tensor("bf16", {1}, bf16_a),
               tensor("f64", {1}, f64_a),
               tensor("i32", {1}, i32_a),
               tensor("i64", {}, i64_a),
               {.name = "bool", .dtype = DType::kBool, .shape = {1}, .data = yes}},
              {tensor("bf16", {1}, bf16_b),
               tensor("f64", {1}, f64_b),
               tensor("i32", {1}, i32_b),
               tensor("i64", {}, i64_b),
               {.name = "bool", .dtype = DType::kBool, .shape = {1}, .data = no}},
              1e-5);
  std::vector<std::string> values;
  for (const TensorDifference& difference : tensors.differences)
    values.push_back(difference.name + " " + difference.first_values);
  EXPECT_THAT(values, UnorderedElementsAre(
                          "bf16 1 against 1.5", "f64 1e+300 against -1e+300", "i32 1000000 against 1000001",
                          "i64 1152921504606846976 against 1152921504606846977", "bool 1 against 0"))
      << "integers must be equal whatever the tolerance";
}

TEST_F(CompareTensors, OfAnotherForm) {
  const std::vector<float> four{1, 2, 3, 4};
  const std::vector<int32_t> integers{1, 2, 3, 4};
  const TensorsComparison tensors =
      compare({tensor("only_a", {4}, four), tensor("shape", {4}, four), tensor("dtype", {4}, four),
               tensor("names", {2, 2}, four, {"io", "hidden"}), tensor("unnamed", {4}, four, {"io"})},
              {tensor("only_b", {4}, four), tensor("shape", {2, 2}, four), tensor("dtype", {4}, integers),
               tensor("names", {2, 2}, four, {"hidden", "io"}), tensor("unnamed", {4}, four)});
  EXPECT_THAT(tensors.only_a, ElementsAre("only_a"));
  EXPECT_THAT(tensors.only_b, ElementsAre("only_b"));
  EXPECT_EQ(tensors.compared, 1);
  EXPECT_FALSE(tensors.same());
  std::vector<std::string> mismatches;
  for (const TensorMismatch& mismatch : tensors.mismatches)
    mismatches.push_back(mismatch.name + ": " + mismatch.a + " / " + mismatch.b);
  EXPECT_THAT(mismatches,
              UnorderedElementsAre("shape: float32 [4] / float32 [2, 2]", "dtype: float32 [4] / int32 [4]",
                                   "names: float32 [io=2, hidden=2] / float32 [hidden=2, io=2]"));
}

}  // namespace
}  // namespace mtf
