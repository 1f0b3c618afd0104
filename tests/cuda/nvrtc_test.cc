// NVRTC compiles the text of every step for every architecture for which the backend is built. No GPU is
// needed.
#include "engine/backend/cuda/nvidia/nvrtc.h"

#include <gtest/gtest.h>

#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "engine/backend/cuda/fusion/fusion_source.h"
#include "engine/base/error.h"
#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/cast.h"
#include "engine/ops/fused_elementwise.h"
#include "engine/ops/random.h"
#include "engine/ops/unary.h"
#include "engine/spmd/partition/partition.h"
#include "tests/support/random_fusions.h"
#include "tests/support/unary_cases.h"

namespace mtf::cuda {
namespace {

using Kind = Fusion::Step::Kind;
constexpr DType kFloating[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64};
constexpr DType kIntegers[] = {DType::kInt32, DType::kInt64};
constexpr DType kAll[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64,
                          DType::kInt32,   DType::kInt64,    DType::kBool};

/// Operations of a graph, each with its own inputs, some of them smaller than the result.
class Fusions {
 public:
  Graph graph;
  Shape shape{{"a", 4}, {"b", 8}};

  Tensor input(DType dtype, bool is_smaller = false) {
    return graph.input("x" + std::to_string(inputs_++), is_smaller ? Shape{{"b", 8}} : shape, dtype);
  }
  void add(const Tensor& output) { operations_.push_back(&output.operation()); }

  /// The text of a kernel for each operation; every fifth kernel is for batches.
  std::string text() const {
    std::vector<FusionKernelSource> kernels;
    for (const Operation* operation : operations_)
      kernels.push_back(
          {"fusion_" + std::to_string(kernels.size()), source(*operation), kernels.size() % 5 == 0});
    return fusion_program(kernels);
  }

 private:
  std::string source(const Operation& operation) const {
    std::vector<int> operands;
    std::vector<bool> walks;
    for (const Tensor& x : operation.inputs()) {
      operands.push_back(static_cast<int>(operands.size()));
      walks.push_back(x.shape() != shape);
    }
    const int result = static_cast<int>(operands.size());
    const FusedElementwise fused(operation.inputs(),
                                 {{std::shared_ptr<const Operation>(operation.clone()), operands}},
                                 {{result, {}}});
    return fusion_source(Fusion(fused, walks));
  }

  std::vector<const Operation*> operations_;
  int inputs_ = 0;
};

void add_functions(Fusions& fusions) {
  Graph& graph = fusions.graph;
  for (DType dtype : kFloating) {
    for (const auto function : mtf::testing::kUnaryCases) fusions.add(function(fusions.input(dtype)));
    for (const UnaryFunction function : mtf::testing::kWithGradientKernel)
      fusions.add(
          graph.add<UnaryGradient>(function, fusions.input(dtype), fusions.input(dtype), 0.3).output());
  }
  for (DType dtype : kIntegers) {
    for (const auto function : {negative, square, mtf::abs, sign})
      fusions.add(function(fusions.input(dtype)));
    fusions.add(scalar_multiply(fusions.input(dtype), 3));
    fusions.add(scalar_add(fusions.input(dtype), 3));
  }
  fusions.add(logical_not(fusions.input(DType::kBool)));
}

void add_others(Fusions& fusions) {
  for (DType dtype : kAll) {
    for (int f = 0; f <= static_cast<int>(BinaryFunction::kLogicalOr); ++f) {
      const auto function = static_cast<BinaryFunction>(f);
      try {
        const Tensor a = fusions.input(dtype), b = fusions.input(dtype, f % 2 == 0);
        fusions.add(fusions.graph.add<Binary>(function, a, b, fusions.shape).output());
      } catch (const Error&) {  // the function is not defined for the type
      }
    }
    for (DType to : kAll) {
      if (to != dtype) fusions.add(cast(fusions.input(dtype), to));
    }
    fusions.add(
        where(fusions.input(DType::kBool, true), fusions.input(dtype), fusions.input(dtype), fusions.shape));
    fusions.add(broadcast(fusions.input(dtype, true), fusions.shape));
    fusions.add(fusions.graph.constant(1, dtype, fusions.shape));
    if (dtype == DType::kInt64 || dtype == DType::kBool) continue;
    fusions.add(dropout(fusions.input(dtype), 0.5));
    fusions.add(dropout(fusions.input(dtype), 0.5, {{"b", 8}}));
    fusions.add(add_n({fusions.input(dtype), fusions.input(dtype), fusions.input(dtype)}));
  }
}

class Nvrtc : public ::testing::TestWithParam<const char*> {};

TEST_P(Nvrtc, CompilesEveryStep) {
  std::unique_ptr<KernelCompiler> compiler;
  try {
    compiler = std::make_unique<KernelCompiler>(13, GetParam());
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  EXPECT_TRUE(compiler->version().starts_with("nvrtc 13.")) << compiler->version();
  for (void (*add)(Fusions&) : {add_functions, add_others}) {
    Fusions fusions;
    add(fusions);
    EXPECT_FALSE(compiler->compile(fusions.text()).empty());
  }
}

/// ptxas contracts products and sums that PTX leaves without a rounding (`mul.f32` instead of `mul.rn.f32`).
/// Where none is left, a step has the same bits alone and in any fusion.
TEST_P(Nvrtc, LeavesNothingToBeContracted) {
  std::optional<KernelCompiler> compiler;
  try {
    compiler.emplace(13, GetParam());
  } catch (const Error& error) {
    GTEST_SKIP() << error.what();
  }
  Fusions functions;
  add_functions(functions);
  std::vector<std::string> programs = {functions.text()};
  for (uint32_t seed = 0; seed < 2; ++seed) {
    const auto random = mtf::testing::random_fusions(seed, {{"a", 4}, {"b", 6}, {"c", 16}}, 60);
    const Program program = partition(*random.graph, Layouts::single(), {.fuse_elementwise = true});
    std::vector<FusionKernelSource> kernels;
    for (const Instruction& instruction : program.instructions) {
      const auto* fused = dynamic_cast<const FusedElementwise*>(instruction.operation());
      if (fused == nullptr) continue;
      const Fusion fusion(*fused, std::vector<bool>(fused->inputs().size()));
      kernels.push_back({"fusion_" + std::to_string(kernels.size()), fusion_source(fusion), false});
    }
    ASSERT_GT(kernels.size(), 3u);
    programs.push_back(fusion_program(kernels));
  }
  for (const std::string& text : programs) {
    const std::string ptx = compiler->ptx(text);
    int rounded = 0;
    std::istringstream lines(ptx);
    for (std::string line; std::getline(lines, line);) {
      rounded += line.find("mul.rn.f") != std::string::npos || line.find("add.rn.f") != std::string::npos;
      for (const char* loose :
           {"\tmul.f", "\tadd.f", "\tsub.f", "\tmul.ftz", "\tadd.ftz", "\tsub.ftz", "\tmad.f"})
        EXPECT_EQ(line.find(loose), std::string::npos) << line;
    }
    EXPECT_GT(rounded, 50);
  }
}

INSTANTIATE_TEST_SUITE_P(Architectures, Nvrtc, ::testing::Values("sm_80", "sm_90"),
                         [](const auto& info) { return std::string(info.param); });

TEST(NvrtcErrors, SayWhatIsWrong) {
  EXPECT_THROW(KernelCompiler(1, "sm_90"), Error);
  try {
    const KernelCompiler compiler(13, "sm_90");
    compiler.compile("no kernel");
    FAIL() << "compiled what is no kernel";
  } catch (const Error& error) {
    const std::string text = error.what();
    if (text.find("generated.cu") == std::string::npos) GTEST_SKIP() << text;
    EXPECT_NE(text.find("NVRTC, compiling"), std::string::npos) << text;
  }
  EXPECT_THROW(KernelCompiler(13, "sm_10"), Error);
}

TEST(NvrtcRelease, IsComparedWithThatOfTheKernels) {
  EXPECT_FALSE(release_warning(13000, 13000));
  EXPECT_EQ(release_warning(13020, 13000).value_or("").substr(0, 70),
            "nvrtc 13.2 compiles the fusions of kernels that were built by nvcc 13.");
}

}  // namespace
}  // namespace mtf::cuda
