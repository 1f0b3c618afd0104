// Training steps with fused elementwise operations and multi-tensor updates give the same bits as steps
// without.
#include <gtest/gtest.h>

#include "engine/runtime/memory_plan.h"
#include "engine/spmd/passes/passes.h"
#include "tests/cuda/run_on.h"
#include "tests/support/gpu_gate.h"
#include "tests/support/parse_model.h"
#include "tests/support/parse_optimizer.h"
#include "trainer/session/step.h"

namespace mtf::testing {
namespace {

/// The losses and variables of three steps of a small language model.
Results train(const TrainStep& step, const Program& program) {
  VariableStore variables(cuda_device(), program.mesh, program.variables);
  variables.initialize(1);
  Executor executor(program, cuda_device(), variables, {});
  for (const auto& [name, id] : program.inputs) {
    const Value& value = program.values[id];
    if (value.shape.rank() == 0) continue;
    Values values;
    for (int64_t i = 0; i < value.shape.size(); ++i)
      values.push_back(name == "targets"            ? static_cast<double>(1 + i * 7 % 20)
                       : name == "targets_position" ? static_cast<double>(i % 8)
                                                    : 1);
    executor.feed(name, to_host(value.shape, value.dtype, values).bytes.data());
  }
  Results result;
  for (uint64_t i = 0; i < 3; ++i) {
    for (const StepScalar& scalar : step.scalars)
      executor.feed_scalar(scalar.input, scalar.value(static_cast<int64_t>(i)));
    executor.run(i);
    result.emplace("loss " + std::to_string(i), executor.fetch("loss"));
  }
  for (const std::string& name : variables.names()) result.emplace(name, variables.get(name));
  return result;
}

std::unique_ptr<Model> small_language_model() {
  return parse_model(
      "{type: lm, d_model: 16, num_layers: 1, max_length: 8, vocab_divisor: 8, dropout: 0.1, block: "
      "[SelfAttention: {num_heads: 4, key_value_size: 4, dropout: 0.1}, DenseReluDense: {hidden_size: 32, "
      "dropout: 0.1}]}");
}

TrainStep build_step(const Model& model, const Optimizer& optimizer, const Precision& precision,
                     std::optional<double> ema_decay, DType slot_type = DType::kFloat32) {
  const Shape length{{"length", 8}};
  const std::vector<Feature> features = {{"targets", length, DType::kInt32, 24},
                                         {"targets_segmentation", length, DType::kInt32},
                                         {"targets_position", length, DType::kInt32}};
  TrainStepOptions options;
  options.batch_size = 4;
  options.precision = precision;
  options.update = UpdateOptions{.optimizer = optimizer,
                                 .learning_rate = {0.01},
                                 .total_steps = 1000,
                                 .ema_decay = ema_decay,
                                 .slot_type = slot_type};
  return build_train_step(model, features, options);
}

TEST(FusedTraining, OfLanguageModelsHasTheSameBits) {
  if (!cuda_device().fuses_elementwise()) {
    ASSERT_FALSE(is_gpu_required()) << "the device compiles no kernels";
    GTEST_SKIP() << "the device compiles no kernels";
  }
  const auto model = small_language_model();
  for (const DType activation : {DType::kFloat32, DType::kBFloat16}) {
    for (const Optimizer& optimizer : {parse_optimizer("adafactor"), parse_optimizer("adam")}) {
      const TrainStep step = build_step(*model, optimizer, {.activation = activation}, 0.9);
      for (const auto& [mesh, layout] : {std::pair("p:1", ""), std::pair("p:2", "batch:p")}) {
        const Program plain = partition(*step.graph, layouts(mesh, layout)),
                      fused = partition(*step.graph, layouts(mesh, layout), {.fuse_elementwise = true});
        EXPECT_LT(fused.instructions.size() + 15, plain.instructions.size());
        EXPECT_LE(plan_memory(fused).position().temporaries,
                  plan_memory(plain).position().temporaries * 1.01);
        expect_same_bits(train(step, fused), train(step, plain));
      }
    }
  }
}

TEST(GroupedUpdates, OfAllOptimizersHaveTheSameBits) {
  const auto model = small_language_model();
  for (const std::string optimizer : {"adafactor", "{type: adafactor, min_dim_size_to_factor: 8, beta1: 0.9}",
                                      "{type: adam_weight_decay, clip_norm: 0.1, weight_decay: 0.1}",
                                      "{type: momentum, weight_decay: 0.1}", "sgd"}) {
    for (const auto& [weights, slots] :
         {std::pair(DType::kFloat32, DType::kFloat32), std::pair(DType::kBFloat16, DType::kFloat32),
          std::pair(DType::kFloat32, DType::kBFloat16), std::pair(DType::kFloat32, DType::kInt8)}) {
      const TrainStep step =
          build_step(*model, parse_optimizer(optimizer), {.slice = weights}, std::nullopt, slots);
      for (const auto& [mesh, layout] : {std::pair("p:1", ""), std::pair("p:2", "batch:p;d_ff:p")}) {
        SCOPED_TRACE(::testing::Message() << optimizer << ", " << mesh);
        const Program plain = partition(*step.graph, layouts(mesh, layout)),
                      grouped = partition(
                          *step.graph, layouts(mesh, layout),
                          {.fuse_elementwise = cuda_device().fuses_elementwise(), .group_variables = true});
        EXPECT_LT(grouped.instructions.size() + 5, plain.instructions.size());
        EXPECT_LE(plan_memory(grouped).position().temporaries,
                  plan_memory(plain).position().temporaries + kGroupBytes);
        expect_same_bits(train(step, grouped), train(step, plain));
      }
    }
  }
}

}  // namespace
}  // namespace mtf::testing
