// Tests what run.mode=calibrate refuses before it measures.
#include "trainer/calibrate/calibrate.h"

#include <gmock/gmock.h>

namespace mtf {
namespace {

using ::testing::HasSubstr;

TEST(Calibrate, LooksForTheDirectoryOfItsOutputFirst) {
  const auto problem = [](const std::string& output) {
    Config config;
    config.run.mode = RunMode::kCalibrate;
    config.calibrate.output.text = output;
    try {
      calibrate(config, *one_process());
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2) << output;
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(problem("/absent/c.yaml"),
            "cannot write /absent/c.yaml: No such file or directory; a file in a "
            "directory that exists and can be written");
  EXPECT_THAT(problem("/"), HasSubstr("cannot write /: it is a directory"));
  EXPECT_THAT(problem(""), HasSubstr("`calibrate.output` names no file"));
}

}  // namespace
}  // namespace mtf
