#include "trainer/train/utilization.h"

#include <gtest/gtest.h>

namespace mtf {
namespace {

/// Returns the FLOPs of a step on a batch of 48 with layers 16 x 32, 32 x 24, 24 x 32 and 32 x 16.
double flops_of_a_step(std::vector<std::string> arguments) {
  arguments.insert(
      arguments.end(),
      {"model.layers=[{dense: {name: first, output: {hidden_odd: 32}, activation: relu}}, {residual: {name: "
       "block, layers: [{dense: {name: even, output: {hidden_even: 24}}}, {dense: {name: odd, output: "
       "{hidden_odd: 32}}}]}}, {dense: {name: last, output: {io: 16}}}]",
       "train.batch_size=48", "train.steps=3", "run.model_dir=never_written"});
  Diagnostics diagnostics;
  const Session session = open_session({MTF_SOURCE_DIR "/configs/models/toy.yaml"}, arguments, diagnostics);
  const TrainStepOptions options = train_step_options(session.config, session.layouts, 3);
  const std::optional<TrainStep> step = build_step(session, options, diagnostics);
  diagnostics.throw_if_errors();
  return model_flops(compile(session, *step->graph));
}

TEST(ModelFlops, AreThoseOfForwardAndBackwardOnce) {
  // Multiply-adds of the forward pass, of the weights' and of the inputs' gradients; the first layer's input
  // has no gradient.
  const double expected = 2.0 * 48 * (2 * 16 * 32 + 3 * (32 * 24 + 24 * 32 + 32 * 16));
  EXPECT_EQ(flops_of_a_step({}), expected);
  EXPECT_EQ(flops_of_a_step({"train.recompute=block"}), expected);
  EXPECT_EQ(flops_of_a_step({"train.recompute=block", "precision.activation=bfloat16"}), expected);
  EXPECT_EQ(flops_of_a_step({"train.microbatches=4"}), expected);
  EXPECT_EQ(flops_of_a_step({"mesh=rows:2;cols:2", "layout=batch:rows;hidden_odd:cols"}), expected);
  EXPECT_EQ(flops_of_a_step({"mesh=rows:2;cols:2", "layout=batch:rows"}), expected) << "cols repeat the work";
}

TEST(PeakFlops, AreThoseOfTheDeviceAndTheType) {
  const Precision full, half{.activation = DType::kBFloat16}, tf32{.matmul = MatmulPrecision::kTf32},
      bf16{.matmul = MatmulPrecision::kBFloat16};
  EXPECT_EQ(peak_flops_of("NVIDIA H100 80GB HBM3", half), 989.4e12);
  EXPECT_EQ(peak_flops_of("NVIDIA H200", tf32), 494.7e12);
  EXPECT_EQ(peak_flops_of("NVIDIA H200", bf16), 989.4e12);
  EXPECT_EQ(peak_flops_of("NVIDIA A100-SXM4-80GB", full), 19.5e12);
  EXPECT_EQ(peak_flops_of("NVIDIA A100-PCIE-40GB", half), 312e12);
  EXPECT_EQ(peak_flops_of("NVIDIA H100 PCIe", tf32), 378e12);
  EXPECT_FALSE(peak_flops_of("NVIDIA H200 NVL", half)) << "another device";
  EXPECT_FALSE(peak_flops_of("NVIDIA H100 80GB HBM3 MIG 1g.10gb", half)) << "a part of one";
  EXPECT_FALSE(peak_flops_of("NVIDIA L40S", half));
  EXPECT_FALSE(peak_flops_of("emulated GPU", half));
}

TEST(MemoryInUse, IsThatOfTheProcess) {
  const int64_t bytes = memory_in_use(*make_cpu_backend());
  EXPECT_GT(bytes, 1 << 20);
  EXPECT_LT(bytes, int64_t{64} << 30);
}

}  // namespace
}  // namespace mtf
