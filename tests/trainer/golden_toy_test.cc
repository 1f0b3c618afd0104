// Compares the toy model with recorded results of Mesh TensorFlow: run.mode=trace reads the recorded files
// unchanged.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>

#include "engine/safetensors/safetensors.h"
#include "tests/support/golden.h"
#include "trainer/programs/run.h"

namespace mtf::testing {
namespace {

std::string output_path() {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  return (std::filesystem::temp_directory_path() /
          fmt::format("{}_{}_{}.safetensors", test->test_suite_name(), test->name(), getpid()))
      .string();
}

void expect_case(const std::string& name, std::vector<std::string> arguments) {
  const std::string folder = MTF_SOURCE_DIR "/tests/golden/" + name;
  const std::string output = output_path();
  std::vector<std::string> words = {MTF_SOURCE_DIR "/configs/models/toy.yaml",
                                    "vars.io_size=6",
                                    "vars.hidden_size=12",
                                    "run.mode=trace",
                                    "run.check_replicas=true",
                                    "trace.steps=20",
                                    "trace.input=" + folder + "/tensors.safetensors",
                                    "trace.output=" + output};
  words.insert(words.end(), arguments.begin(), arguments.end());
  ASSERT_EQ(run_main(words), 0);
  const SafetensorsFile actual(output);
  const GoldenCase golden(folder);
  const std::vector<std::pair<std::string, double>> tolerances = {
      {"loss", 1e-5}, {"output/", 1e-5}, {"grad/", 1e-4}, {"trajectory/", 1e-4}, {"final_weight/", 1e-3}};
  int compared = 0;
  for (const auto& [prefix, tolerance] : tolerances) {
    for (const auto& [key, expected] : golden.tensors()) {
      if (!key.starts_with(prefix)) continue;
      const std::vector<float> values = actual.at(key).values<float>();
      expect_close(key, Values(values.begin(), values.end()), expected.values, tolerance, 1e-8);
      ++compared;
    }
  }
  EXPECT_EQ(compared, 7) << "loss, output/y, two gradients, trajectory/loss, two final weights";
  std::filesystem::remove(output);
}

/// Layouts: no mesh, and 2x2 meshes with every kind of rule.
const std::vector<std::vector<std::string>> kToyLayouts = {
    {},
    {"mesh=x:2;y:2", "layout=batch:x;hidden_odd:y"},
    {"mesh=x:2;y:2", "layout=batch:x;io:y"},
    {"mesh=x:2;y:2", "layout.batch=[x, y]"},
    {"mesh=x:2;y:2", "layout=batch:x", "parameter_layout=hidden_odd:x;io:y"},
    {"mesh=x:2;y:2", "layout=batch:x", "optimizer_layout=hidden_odd:x"},
    {"mesh=x:2;y:2", "layout=batch:x;hidden_odd:y", "train.microbatches=2"},
};

TEST(GoldenToy, Sgd) {
  for (std::vector<std::string> layout : kToyLayouts) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(layout, " ")));
    layout.push_back("learning_rate=0.05");
    expect_case("02_toy_sgd", layout);
  }
}

TEST(GoldenToy, Adafactor) {
  for (std::vector<std::string> layout : kToyLayouts) {
    SCOPED_TRACE(fmt::format("{}", fmt::join(layout, " ")));
    layout.push_back("optimizer=adafactor");
    layout.push_back("learning_rate=null");
    expect_case("02_toy_adafactor", layout);
  }
}

}  // namespace
}  // namespace mtf::testing
