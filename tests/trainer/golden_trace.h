// Runs run.mode=trace on a recorded case and compares what it wrote.
#pragma once

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <string>
#include <vector>

#include "engine/safetensors/safetensors.h"
#include "tests/support/golden.h"
#include "trainer/programs/run.h"

namespace mtf::testing {

/// A path for the running test's files.
inline std::string path_of_test(const std::string& ending) {
  const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
  return (std::filesystem::temp_directory_path() /
          fmt::format("{}_{}_{}{}", test->test_suite_name(), test->name(), getpid(), ending))
      .string();
}

/// Traces `config` on the tensors in file `input` and compares all results of the case in `folder` that the output has;
/// expects `compared` of them.
inline void expect_traced(const std::string& config, const std::string& folder, const std::string& input,
                          int steps, const std::vector<std::string>& arguments, int compared) {
  const std::string output = path_of_test(".out.safetensors");
  std::vector<std::string> words = {config,
                                    "run.mode=trace",
                                    "run.check_replicas=true",
                                    fmt::format("trace.steps={}", steps),
                                    "trace.input=" + input,
                                    "trace.output=" + output};
  words.insert(words.end(), arguments.begin(), arguments.end());
  ASSERT_EQ(run_main(words), 0);
  const SafetensorsFile actual(output);
  const GoldenCase golden(folder);
  const std::vector<std::pair<std::string, double>> tolerances = {
      {"loss", 1e-5}, {"output/", 1e-5}, {"grad/", 1e-4}, {"trajectory/", 1e-4}, {"final_weight/", 1e-3}};
  int found = 0;
  for (const auto& [prefix, tolerance] : tolerances) {
    for (const auto& [key, expected] : golden.tensors()) {
      if (!key.starts_with(prefix) || !actual.find(key)) continue;
      const std::vector<float> values = actual.at(key).values<float>();
      expect_close(key, Values(values.begin(), values.end()), expected.values, tolerance, 1e-8);
      ++found;
    }
  }
  EXPECT_EQ(found, compared);
  std::filesystem::remove(output);
}

}  // namespace mtf::testing
