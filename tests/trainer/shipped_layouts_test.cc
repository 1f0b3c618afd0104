// Tests the shipped layouts with the shipped models: initial values and losses are those of one position; the
// work and the bytes that the kernels and the communicator count are those that the program predicts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "models/model.h"
#include "tests/support/run_on_mesh.h"
#include "tests/support/test_backend.h"
#include "trainer/config/config.h"
#include "trainer/session/step.h"

namespace mtf::testing {
namespace {

constexpr int64_t kSteps = 12;

std::string config_path(const std::string& name) {
  return std::string(MTF_SOURCE_DIR) + "/configs/" + name + ".yaml";
}

/// Returns images of stripes whose width depends on the label, and the features of the toy data.
Values feature_values(const Feature& feature, int64_t batch, int64_t step) {
  Values values;
  const int64_t size = feature.shape.size();
  for (int64_t i = 0; i < batch; ++i) {
    const int64_t label = (i * 7 + step) % 10;
    for (int64_t k = 0; k < size; ++k) {
      values.push_back(
          feature.name == "labels"
              ? static_cast<double>(label)
              : 0.5 + 0.5 * std::sin(static_cast<double>(k * (label + 1)) * 0.05 + static_cast<double>(i)));
    }
  }
  return values;
}

struct TrainedRun {
  std::map<std::string, Values> initial;
  std::vector<double> losses;
  Counters counters;
  double predicted_bytes = 0;
  int64_t positions = 1;
};

double predicted(const Program& program, const std::vector<Instruction>& block) {
  double bytes = 0;
  for (const Instruction& instruction : block) {
    if (instruction.is_collective()) bytes += bytes_sent(program, instruction);
    bytes += static_cast<double>(instruction.count()) * predicted(program, instruction.body());
  }
  return bytes;
}

TrainedRun train(const std::string& model_name, const std::string& layout,
                 const std::vector<Feature>& features, int64_t batch_size) {
  Diagnostics diagnostics;
  const Config config = load_config({config_path("models/" + model_name), config_path("layouts/" + layout)},
                                    {fmt::format("train.batch_size={}", batch_size)}, diagnostics);
  const std::unique_ptr<Model> model =
      make_model(config::parse<ModelChoice>(config.model, diagnostics, "model"), diagnostics);
  diagnostics.throw_if_errors();
  const Layouts layouts = make_layouts(config);
  const TrainStep step = build_train_step(*model, features, train_step_options(config, layouts, kSteps));
  check_layouts(*step.graph, layouts, diagnostics);
  diagnostics.throw_if_errors();
  const Program program = partition(*step.graph, layouts);
  const std::shared_ptr<Backend> backend = test_backend();
  VariableStore variables(*backend, layouts.mesh, program.variables);
  variables.initialize(1);
  TrainedRun run;
  for (const std::string& name : variables.names()) run.initial[name] = from_host(variables.get(name));
  Executor executor(program, *backend, variables, {.threads = 2});
  for (int64_t i = 0; i < kSteps; ++i) {
    for (const Feature& f : features) {
      const Shape whole = Shape{{"batch", batch_size}} + f.shape;
      executor.feed(f.name, to_host(whole, f.dtype, feature_values(f, batch_size, i)).bytes.data());
    }
    for (const StepScalar& scalar : step.scalars) executor.feed_scalar(scalar.input, scalar.value(i));
    executor.run(static_cast<uint64_t>(i));
    run.losses.push_back(executor.scalar("loss"));
  }
  run.counters = executor.counters();
  run.predicted_bytes = predicted(program, program.instructions) * kSteps;
  run.positions = layouts.mesh.size();
  return run;
}

struct ShippedModel {
  std::string name;
  std::vector<Feature> features;
  int64_t batch_size;
};
std::ostream& operator<<(std::ostream& out, const ShippedModel& model) { return out << model.name; }

class ShippedLayouts : public ::testing::TestWithParam<ShippedModel> {};

TEST_P(ShippedLayouts, TrainAsOnePositionDoes) {
  const auto& [name, features, batch_size] = GetParam();
  const TrainedRun one = train(name, "single", features, batch_size);
  EXPECT_EQ(one.counters.bytes_per_position, 0);
  for (const std::string layout :
       {"data_parallel", "model_parallel", "data_and_model_parallel", "fsdp", "zero1", "data_parallel_4",
        "model_parallel_4", "data_and_model_parallel_4", "fsdp_4", "zero1_4"}) {
    SCOPED_TRACE(name + " " + layout);
    const TrainedRun run = train(name, layout, features, batch_size);
    EXPECT_EQ(run.initial, one.initial);
    for (int64_t i = 0; i < kSteps; ++i)
      EXPECT_NEAR(run.losses[i], one.losses[i], 1e-5 * std::abs(one.losses[i])) << i;
    // Every contraction is split over all positions: together they do the work of one.
    EXPECT_NEAR(run.counters.flops_per_position * static_cast<double>(run.positions),
                one.counters.flops_per_position, 0.01 * one.counters.flops_per_position);
    EXPECT_GT(run.counters.bytes_per_position, 0);
    EXPECT_NEAR(run.counters.bytes_per_position, run.predicted_bytes, 1e-9 * run.predicted_bytes);
  }
}

const std::vector<Feature> kPictures = {{"image", Shape{{"rows", 28}, {"cols", 28}}, DType::kFloat32},
                                        {"labels", Shape{}, DType::kInt32}};

INSTANTIATE_TEST_SUITE_P(Models, ShippedLayouts,
                         ::testing::Values(ShippedModel{"mnist", kPictures, 64},
                                           ShippedModel{"mnist_dropout", kPictures, 64},
                                           ShippedModel{"toy",
                                                        {{"x", Shape{{"io", 16}}, DType::kFloat32},
                                                         {"y", Shape{{"io", 16}}, DType::kFloat32}},
                                                        64}),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace mtf::testing
