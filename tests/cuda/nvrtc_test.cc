// NVRTC takes the text of every step, for every architecture that the backend is built for. Needs no GPU.
#include "engine/backend/cuda/nvidia/nvrtc.h"

#include <gtest/gtest.h>

#include "engine/backend/cuda/chains/chain_source.h"
#include "engine/base/error.h"
#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/broadcast.h"
#include "engine/ops/cast.h"
#include "engine/ops/component_wise.h"
#include "engine/ops/random.h"
#include "tests/support/component_wise_functions.h"

namespace mtf::cuda {
namespace {

using Kind = Chain::Step::Kind;
constexpr DType kFloating[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64};
constexpr DType kIntegers[] = {DType::kInt32, DType::kInt64};
constexpr DType kAll[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat64,
                          DType::kInt32,   DType::kInt64,    DType::kBool};

/// Operations of a graph, each from inputs of its own, some of them smaller.
class Chains {
 public:
  Graph graph;
  Shape shape{{"a", 4}, {"b", 8}};

  Tensor input(DType dtype, bool is_smaller = false) {
    return graph.input("x" + std::to_string(inputs_++), is_smaller ? Shape{{"b", 8}} : shape, dtype);
  }
  void add(const Tensor& output) { operations_.push_back(&output.operation()); }

  /// A kernel for each operation, every fifth one for batches.
  std::string text() const {
    std::vector<ChainKernelSource> kernels;
    for (const Operation* operation : operations_)
      kernels.push_back(
          {"chain_" + std::to_string(kernels.size()), source(*operation), kernels.size() % 5 == 0});
    return chain_program(kernels);
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
    return chain_source(Chain(fused, walks));
  }

  std::vector<const Operation*> operations_;
  int inputs_ = 0;
};

void add_functions(Chains& chains) {
  Graph& graph = chains.graph;
  for (DType dtype : kFloating) {
    for (const auto function : mtf::testing::kComponentWiseFunctions)
      chains.add(function(chains.input(dtype)));
    for (int f = static_cast<int>(UnaryFunction::kRelu); f <= static_cast<int>(UnaryFunction::kSquaredRelu);
         ++f) {
      chains.add(graph
                     .add<ComponentWiseGradient>(static_cast<UnaryFunction>(f), chains.input(dtype),
                                                 chains.input(dtype), 0.3)
                     .output());
    }
  }
  for (DType dtype : kIntegers) {
    for (const auto function : {negative, square, mtf::abs, sign}) chains.add(function(chains.input(dtype)));
    chains.add(scalar_multiply(chains.input(dtype), 3));
    chains.add(scalar_add(chains.input(dtype), 3));
  }
  chains.add(logical_not(chains.input(DType::kBool)));
}

void add_others(Chains& chains) {
  for (DType dtype : kAll) {
    for (int f = 0; f <= static_cast<int>(BinaryFunction::kLogicalOr); ++f) {
      const auto function = static_cast<BinaryFunction>(f);
      try {
        const Tensor a = chains.input(dtype), b = chains.input(dtype, f % 2 == 0);
        chains.add(chains.graph.add<Binary>(function, a, b, chains.shape).output());
      } catch (const Error&) {  // not defined for the type
      }
    }
    for (DType to : kAll) {
      if (to != dtype) chains.add(cast(chains.input(dtype), to));
    }
    chains.add(
        where(chains.input(DType::kBool, true), chains.input(dtype), chains.input(dtype), chains.shape));
    chains.add(broadcast(chains.input(dtype, true), chains.shape));
    chains.add(chains.graph.constant(1, dtype, chains.shape));
    if (dtype == DType::kInt64 || dtype == DType::kBool) continue;
    chains.add(dropout(chains.input(dtype), 0.5));
    chains.add(dropout(chains.input(dtype), 0.5, {{"b", 8}}));
    chains.add(add_n({chains.input(dtype), chains.input(dtype), chains.input(dtype)}));
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
  for (void (*add)(Chains&) : {add_functions, add_others}) {
    Chains chains;
    add(chains);
    EXPECT_FALSE(compiler->compile(chains.text()).empty());
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

}  // namespace
}  // namespace mtf::cuda
