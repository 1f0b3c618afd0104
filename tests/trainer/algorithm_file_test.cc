// Measured algorithms are recorded in the run's directory, and taken from there.
#include "trainer/session/algorithm_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <memory>
#include <string>

#include "engine/base/error.h"
#include "tests/support/failure.h"
#include "trainer/session/model_dir.h"

namespace mtf {
namespace {

using ::testing::HasSubstr;

class AlgorithmFileTest : public ::testing::Test {
 protected:
  int choose(const std::string& problem, int measured, const std::string& instruction_set = "sm_90") {
    AlgorithmFile file(path, instruction_set, *processes);
    return file.choose(problem, [&] {
      ++measurements;
      return measured;
    });
  }

  ~AlgorithmFileTest() override { std::remove(path.c_str()); }

  const std::string path = ::testing::TempDir() + "algorithms." + std::to_string(::getpid()) + ".json";
  const std::unique_ptr<ProcessGroup> processes = one_process();
  int measurements = 0;
};

TEST_F(AlgorithmFileTest, MeasuresEachProblemOnce) {
  EXPECT_EQ(choose("a", 3), 3);
  EXPECT_EQ(choose("b", 1), 1);
  EXPECT_EQ(choose("a", 5), 3);
  EXPECT_EQ(measurements, 2);
  EXPECT_THAT(read_text(path), HasSubstr("\"a\": 3"));
}

TEST_F(AlgorithmFileTest, MeasuresAgainForOtherDevices) {
  EXPECT_EQ(choose("a", 3), 3);
  EXPECT_EQ(choose("a", 5, "sm_80"), 5);
  EXPECT_EQ(choose("a", 6, "sm_80"), 5);
}

TEST_F(AlgorithmFileTest, RefusesDamagedFiles) {
  for (const char* text : {"{", "[]", R"({"instruction_set": "sm_90", "choices": {"a": "b"}})"}) {
    std::ofstream(path) << text;
    EXPECT_THAT(failure([&] { choose("a", 1); }, ErrorKind::kData), HasSubstr(path + ": ")) << text;
  }
}

}  // namespace
}  // namespace mtf
