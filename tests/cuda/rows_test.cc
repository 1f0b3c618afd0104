// Softmax, cross-entropy and norms, with every way in which the kernels choose threads for rows.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/ops/cross_entropy.h"
#include "engine/ops/normalization.h"
#include "engine/ops/softmax.h"
#include "tests/cuda/kernel_comparison.h"
#include "tests/support/evaluate_tensors.h"

namespace mtf::testing {
namespace {

DType statistic(DType dtype) { return dtype == DType::kBFloat16 ? DType::kFloat32 : dtype; }

/// A tensor and the dimension `n` along which its rows run.
struct RowShape {
  Shape shape;

  const Dimension& along() const { return shape[*shape.find("n")]; }
  Shape rows() const { return shape - along(); }
};
void PrintTo(const RowShape& rows, std::ostream* out) { *out << rows.shape.to_string(); }

/// Provides inputs of operations along `n`.
class RowFunctions : public ::testing::TestWithParam<RowShape> {
 protected:
  Tensor whole(const std::string& name, DType dtype) { return graph.input(name, GetParam().shape, dtype); }
  Tensor per_row(const std::string& name, DType dtype) {
    return graph.input(name, GetParam().rows(), statistic(dtype));
  }
  Tensor per_column(const std::string& name, DType dtype) {
    return graph.input(name, Shape{GetParam().along()}, dtype);
  }
  /// Compares both out of place and in place.
  void expect_same(KernelComparison comparison, DType dtype) {
    comparison.tolerance = dtype == DType::kFloat64 ? 1e-11 : 5e-5;
    comparison.expect_same();
    comparison.in_place = true;
    comparison.expect_same();
  }
  void expect_same(const Tensor& output, DType dtype) { expect_same(KernelComparison(output), dtype); }

  Graph graph;
};

RowShape contiguous(int64_t rows, int64_t n) { return {{{"a", rows}, {"n", n}}}; }

const auto kShortRows = ::testing::Values(
    RowShape{{{"n", 1}}}, RowShape{{{"n", 40}}}, contiguous(7, 1), contiguous(70, 3), contiguous(33, 8),
    contiguous(5, 24), contiguous(6, 50), contiguous(9, 64), contiguous(3, 257), contiguous(3, 512),
    contiguous(2, 1000), contiguous(2, 2056), contiguous(1, 4099), RowShape{{{"n", 3}, {"a", 2}}},
    RowShape{{{"a", 3}, {"n", 5}, {"b", 3}}}, RowShape{{{"a", 2}, {"n", 70}, {"b", 40}}},
    RowShape{{{"n", 1500}, {"b", 5}}}, RowShape{{{"b", 2}, {"n", 200}, {"a", 1}}});
/// The first is kept in the registers of 1024 threads; the last is divided among groups and not aligned.
const auto kLongRows = ::testing::Values(contiguous(1, 16384), contiguous(1, 33000), contiguous(1, 70001));

class NotFinite : public RowFunctions {};
INSTANTIATE_TEST_SUITE_P(Short, RowFunctions, kShortRows);
INSTANTIATE_TEST_SUITE_P(Long, RowFunctions, kLongRows);
INSTANTIATE_TEST_SUITE_P(Short, NotFinite, kShortRows);

TEST_P(RowFunctions, Softmax) {
  for (DType dtype : kFloatingTypes) {
    const Tensor x = whole("x", dtype);
    expect_same(softmax(x, "n"), dtype);
    expect_same(softmax(x, "n", 0.5), dtype);
    expect_same(log_softmax(x, "n"), dtype);
    expect_same(log_softmax(x, "n", -1.0), dtype);
    expect_same(reduce_logsumexp(x, "n"), dtype);
    expect_same(reduce_logsumexp(x, "n", 2.0), dtype);
  }
}

TEST_P(RowFunctions, SoftmaxGradients) {
  for (DType dtype : kFloatingTypes) {
    const Tensor x = whole("x", dtype), y = whole("y", dtype), dy = whole("dy", dtype);
    KernelComparison of_softmax(graph.add<SoftmaxGradient>(y, dy, "n").output());
    KernelComparison of_logarithm(graph.add<LogSoftmaxGradient>(y, dy, "n").output());
    Values& p = of_softmax.inputs[0].values = random_normal_values(GetParam().shape.size(), 5);
    for (double& value : p) value = std::abs(value) / static_cast<double>(GetParam().along().size);
    for (const double value : p) of_logarithm.inputs[0].values.push_back(std::log(value));
    expect_same(of_softmax, dtype);
    expect_same(of_logarithm, dtype);
    expect_same(graph.add<LogSumExpGradient>(x, per_row("z", dtype), per_row("dz", dtype), "n").output(),
                dtype);
  }
}

TEST_P(NotFinite, GivesWhatTheHostGives) {
  const Shape& shape = GetParam().shape;
  const int64_t n = GetParam().along().size, stride = shape.strides()[*shape.find("n")];
  for (DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const Tensor x = whole("x", dtype);
    for (const double bad : {kNaN, kInfinity, -kInfinity}) {
      for (const bool all : {false, true}) {
        Values values = random_normal_values(shape.size(), 3);
        for (int64_t i = 0; i < (all ? n : 1); ++i)
          values[static_cast<size_t>((all ? i : n / 2) * stride)] = bad;
        const auto expect = [&](const Tensor& output) {
          KernelComparison comparison(output);
          comparison.inputs[0].values = values;
          expect_same(comparison, dtype);
        };
        expect(softmax(x, "n"));
        expect(log_softmax(x, "n"));
        expect(reduce_logsumexp(x, "n"));
        expect(softmax_cross_entropy(x, graph.input("ids", GetParam().rows(), DType::kInt32), "n").loss);
        expect(rms_norm(x, "n", per_column("scale", dtype)));
        if (std::isnan(bad))
          expect(layer_norm(x, "n", per_column("scale", dtype), per_column("bias", dtype)));
      }
    }
  }
}

TEST_P(RowFunctions, CrossEntropy) {
  const Shape rows = GetParam().rows();
  const int64_t n = GetParam().along().size;
  for (DType dtype : kFloatingTypes) {
    const Tensor logits = whole("x", dtype), values = whole("t", dtype),
                 ids = graph.input("ids", rows, DType::kInt32);
    for (const Tensor& targets : {ids, values}) {
      const CrossEntropyOptions options{1e-2, is_floating(targets.dtype()) ? 0 : 0.1};
      for (const CrossEntropyOptions& o : {CrossEntropyOptions(), options}) {
        const auto set = [&](const Tensor& output) {
          KernelComparison comparison(output);
          for (double& x : comparison.inputs[0].values = random_normal_values(GetParam().shape.size(), 1))
            x += 30;
          Values& of_targets = comparison.inputs[1].values;
          if (is_floating(targets.dtype())) {  // weights of classes: sums of both signs would cancel
            for (double& x : of_targets = random_normal_values(GetParam().shape.size(), 2)) x = std::abs(x);
          } else {  // some ids are out of range
            of_targets = random_whole_values(rows.size(), -1, n + 1, 2);
          }
          return comparison;
        };
        expect_same(set(softmax_cross_entropy(logits, targets, "n", o).loss), dtype);
        KernelComparison sums =
            set(graph.add<CrossEntropySums>(logits, targets, per_row("top", dtype), "n", o.label_smoothing)
                    .output());
        sums.inputs[2].values = Values(static_cast<size_t>(rows.size()), 36.0);
        expect_same(sums, dtype);
        KernelComparison gradient =
            set(graph
                    .add<SoftmaxCrossEntropyGradient>(
                        Tensors{logits, targets, per_row("z", dtype), per_row("w", dtype),
                                per_row("dl", dtype), per_row("dz", dtype)},
                        "n", o)
                    .output());
        gradient.inputs[2].values = Values(static_cast<size_t>(rows.size()), 36.0);
        expect_same(gradient, dtype);
      }
    }
  }
}

TEST_P(RowFunctions, Norms) {
  for (DType dtype : kFloatingTypes) {
    const Tensor x = whole("x", dtype), dy = whole("dy", dtype), scale = per_column("s", dtype);
    const Tensor bias = per_column("b", dtype), rstd = per_row("r", dtype), mean = per_row("m", dtype);
    for (const double offset : {0.0, 5.0}) {
      for (const Tensor& y : {layer_norm(x, "n", scale, bias, 1e-2), rms_norm(x, "n", scale, 1e-2)}) {
        KernelComparison comparison(y);
        for (double& value : comparison.inputs[0].values = random_normal_values(x.shape().size(), 9))
          value += offset;
        expect_same(comparison, dtype);
      }
    }
    expect_same(graph.add<NormalizationGradient>(Tensors{x, scale, dy, rstd, mean}, "n").output(), dtype);
    expect_same(graph.add<NormalizationGradient>(Tensors{x, scale, dy, rstd}, "n").output(), dtype);
    expect_same(graph.add<NormalizationParameterGradient>(Tensors{x, dy, rstd, mean}, "n").output(), dtype);
    expect_same(graph.add<NormalizationParameterGradient>(Tensors{x, dy, rstd}, "n").output(), dtype);
  }
}

/// Masks are 0 or 1 here, so that results that differ by one rounding do so after the mask, too.
TEST_P(RowFunctions, NormsWithMasksAndAddends) {
  const Shape rows = GetParam().rows();
  for (DType dtype : kFloatingTypes) {
    const Tensor x = whole("x", dtype), dy = whole("dy", dtype), scale = per_column("s", dtype);
    const Tensor bias = per_column("b", dtype), rstd = per_row("r", dtype), mean = per_row("m", dtype);
    const Tensor mask = graph.input("mask", rows, dtype), addend = whole("addend", dtype);
    const auto expect_same_with = [&](const Tensor& output, size_t of_mask) {
      KernelComparison comparison(output);
      comparison.inputs[of_mask].values = random_whole_values(rows.size(), 0, 2, 4);
      expect_same(comparison, dtype);
    };
    const FusedIntoNorm masked{.mask = true}, added{.mask = true, .addend = true};
    expect_same_with(graph.add<Normalization>(Tensors{x, scale, bias, mask}, "n", 1e-2, masked).output(), 3);
    expect_same_with(graph.add<Normalization>(Tensors{x, scale, mask}, "n", 1e-2, masked).output(), 2);
    expect_same_with(
        graph.add<NormalizationGradient>(Tensors{x, scale, dy, rstd, mean, mask}, "n", masked).output(), 5);
    expect_same_with(
        graph.add<NormalizationParameterGradient>(Tensors{x, dy, rstd, mean, mask}, "n", masked).output(), 4);
    // A rounding of dx may be large beside its sum with the addend.
    if (dtype == DType::kBFloat16) continue;
    expect_same_with(
        graph.add<NormalizationGradient>(Tensors{x, scale, dy, rstd, mask, addend}, "n", added).output(), 4);
  }
}

TEST(Norms, ParameterGradientsOfManyRows) {
  for (DType dtype : kFloatingTypes) {
    for (const Shape& shape :
         {Shape{{"a", 3000}, {"n", 12}}, Shape{{"a", 1030}, {"n", 264}}, Shape{{"a", 600}, {"n", 7}},
          Shape{{"a", 50}, {"n", 3}, {"b", 700}}, Shape{{"n", 2}, {"b", 20000}}}) {
      Graph graph;
      const Shape rows = shape - shape[*shape.find("n")];
      const Tensor x = graph.input("x", shape, dtype), dy = graph.input("dy", shape, dtype);
      const Tensor rstd = graph.input("r", rows, statistic(dtype)),
                   mean = graph.input("m", rows, statistic(dtype));
      for (const Tensors& inputs : {Tensors{x, dy, rstd, mean}, Tensors{x, dy, rstd}}) {
        KernelComparison comparison(graph.add<NormalizationParameterGradient>(inputs, "n").output());
        comparison.tolerance = dtype == DType::kFloat64 ? 1e-10 : 1e-4;
        comparison.expect_same();
      }
    }
  }
}

/// Ids count from the begin of the whole vocabulary.
TEST(CrossEntropy, OnASliceOfTheVocabulary) {
  for (DType dtype : kFloatingTypes) {
    Graph graph;
    const Shape shape{{"a", 6}, {"n", 48}}, rows{{"a", 6}};
    const Tensor logits = graph.input("x", shape, dtype), ids = graph.input("ids", rows, DType::kInt32);
    const auto statistics = [&](const std::string& name) {
      return graph.input(name, rows, statistic(dtype));
    };
    for (const double label_smoothing : {0.0, 0.1}) {
      const Tensor sums =
          graph.add<CrossEntropySums>(logits, ids, statistics("top"), "n", label_smoothing).output();
      const Tensor gradient =
          graph
              .add<SoftmaxCrossEntropyGradient>(
                  Tensors{logits, ids, statistics("z"), statistics("w"), statistics("dl"), statistics("dz")},
                  "n", CrossEntropyOptions{0, label_smoothing})
              .output();
      for (const Tensor& output : {sums, gradient}) {
        KernelComparison comparison(output);
        comparison.tolerance = 1e-5;
        comparison.inputs[0].take({{"a", 6}, {"n", 16}}, {0, 32});
        comparison.inputs[1].values = {31, 32, 40, 47, 48, 0};
        comparison.inputs[2].values = {5, 4, 4.5, 6, 5, 4};  // the largest logit, or z: not below any logit
        if (output == gradient) comparison.outputs[0].take({{"a", 6}, {"n", 16}}, {0, 32});
        comparison.expect_same();
      }
    }
  }
}

}  // namespace
}  // namespace mtf::testing
