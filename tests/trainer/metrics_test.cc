#include "trainer/report/metrics.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "tests/support/failure.h"

namespace mtf {
namespace {

using ::testing::HasSubstr;

namespace fs = std::filesystem;

class MetricsFile : public ::testing::Test {
 protected:
  void SetUp() override { fs::create_directories(directory_); }
  void TearDown() override { fs::remove_all(directory_); }

  void put(const std::string& text) const { std::ofstream(path_, std::ios::binary) << text; }
  std::string text() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string directory_ =
      ::testing::TempDir() + ::testing::UnitTest::GetInstance()->current_test_info()->name() + "/";
  std::string path_ = directory_ + "metrics.jsonl";
};

std::string lines(std::initializer_list<int> steps) {
  std::string text;
  for (const int step : steps) text += json_line({{"step", step}, {"loss", 0.5}}, {}) + '\n';
  return text;
}

TEST(Metrics, LinesAreJsonInTheOrderGiven) {
  EXPECT_EQ(json_line({{"step", 100}, {"loss", 0.5}}, {{"dataset", "test"}}),
            R"({"dataset":"test","step":100,"loss":0.5})");
  EXPECT_EQ(json_line({{"loss", 0.1f}}, {}), R"({"loss":0.10000000149011612})");
  EXPECT_EQ(json_line({{"step", 1}}, {}, {metric_list("loads", {0.25, 0.75, 0.1f, 0.9f}, 2)}),
            R"({"step":1,"loads":[0.175,0.825]})");
  EXPECT_EQ(json_line({{"loss", std::numeric_limits<double>::quiet_NaN()}}, {}), R"({"loss":null})");
  EXPECT_EQ(json_line({}, {{"dataset", "a\"b"}}), R"({"dataset":"a\"b"})");
}

TEST(Metrics, APathThatCannotBeWrittenIsNamed) {
  try {
    JsonLines("/nowhere/metrics.jsonl");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 1);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("/nowhere/metrics.jsonl"));
  }
}

TEST(Metrics, NumbersReadBackAsTheSameDouble) {
  uint64_t bits = 1;
  for (int i = 0; i < 20000; ++i) {
    bits = bits * 6364136223846793005 + 1442695040888963407;
    const auto number = std::bit_cast<double>(bits ^ bits >> 31);
    if (!std::isnormal(number)) continue;  // denormal numbers are zero in threads that compute
    const std::string line = json_line({{"x", number}}, {});
    EXPECT_EQ(std::bit_cast<uint64_t>(nlohmann::json::parse(line)["x"].get<double>()),
              std::bit_cast<uint64_t>(number))
        << line;
  }
  EXPECT_EQ(json_line({{"x", 9007199254740991.0}, {"y", -0.0}, {"z", -3}}, {}),
            R"({"x":9007199254740991,"y":-0.0,"z":-3})");
}

TEST_F(MetricsFile, LinesAreAppended) {
  JsonLines(path_).write({{"step", 1}});
  JsonLines(path_).write({{"step", 2}}, {{"dataset", "test"}});
  EXPECT_EQ(text(), "{\"step\":1}\n{\"dataset\":\"test\",\"step\":2}\n");
}

TEST_F(MetricsFile, BeginsAnewWhereSomebodyHasRemovedIt) {
  JsonLines file(path_);
  file.write({{"step", 1}});
  std::filesystem::rename(path_, path_ + ".1");
  file.write({{"step", 2}});
  EXPECT_EQ(text(), "{\"step\":2}\n");
  put("");  // the same file
  file.write({{"step", 3}});
  EXPECT_EQ(text(), "{\"step\":3}\n");
  std::filesystem::remove(path_);
  file.write({{"step", 4}});
  EXPECT_EQ(text(), "{\"step\":4}\n");
}

TEST_F(MetricsFile, AFullDiskIsOneClearLine) {
  JsonLines full("/dev/full");
  EXPECT_EQ(failure([&] {
              full.write({{"step", 1}});
            }),
            "/dev/full: cannot be written: No space left on device");
}

TEST_F(MetricsFile, CutRemovesLaterAndTornLines) {
  put(lines({1, 10, 20, 30, 40}) + R"({"step":50,"lo)");
  cut_json_lines(path_, 20);
  EXPECT_EQ(text(), lines({1, 10, 20}));
  cut_json_lines(path_, 20);
  EXPECT_EQ(text(), lines({1, 10, 20}));
  cut_json_lines(path_, 0);
  EXPECT_EQ(text(), "");
}

TEST_F(MetricsFile, CutFindsTheStepWhereverItStands) {
  const std::string kept = R"({"dataset":"a \"step\":99","step":20,"loss":null})"
                           "\n";
  put(kept + R"({"dataset":"test","loss":1,"step":21})"
             "\n");
  cut_json_lines(path_, 20);
  EXPECT_EQ(text(), kept);
}

TEST_F(MetricsFile, CutMendsEveryTornEnd) {
  const std::string whole = lines({1, 2, 3});
  const std::vector<size_t> ends = {0, lines({1}).size(), lines({1, 2}).size(), whole.size()};
  for (size_t size = 0; size <= whole.size(); ++size) {
    put(whole.substr(0, size));
    cut_json_lines(path_, 100);
    EXPECT_EQ(text(), whole.substr(0, *std::prev(std::ranges::upper_bound(ends, size)))) << size;
  }
  put(whole + std::string(4096, '\0'));  // as some file systems leave it after a loss of power
  cut_json_lines(path_, 100);
  EXPECT_EQ(text(), whole);
}

TEST_F(MetricsFile, CutKeepsWhatStandsAfterALineThatGoes) {
  put(lines({1, 30, 10}) + "torn\n" + lines({31, 20}));
  std::ofstream(directory_ + "cut.tmp") << "of a cut that was killed";
  cut_json_lines(path_, 20);
  EXPECT_EQ(text(), lines({1, 10, 20}));
  EXPECT_FALSE(fs::exists(directory_ + "cut.tmp"));
}

TEST_F(MetricsFile, CutOfAMissingFileIsNothing) {
  cut_json_lines(path_, 5);
  EXPECT_FALSE(fs::exists(path_));
  EXPECT_THAT(failure([&] { cut_json_lines(directory_, 5); }), HasSubstr("cannot be read: Is a directory"));
}

TEST_F(MetricsFile, CutOfALargeFileTakesSeconds) {
  std::string block;
  for (int step = 1; step <= 1000; ++step)
    block +=
        json_line({{"step", step}, {"epoch", 1.0 / step}, {"loss", 1 / (step + 0.1)}, {"rate", 1e-3 / step}},
                  {}) +
        '\n';
  {
    std::ofstream file(path_, std::ios::binary);
    for (int i = 0; i < 600; ++i) file << block;
  }
  const auto size = fs::file_size(path_);
  std::ofstream(path_, std::ios::binary | std::ios::app) << json_line({{"step", 1001}}, {}) << '\n';
  const auto start = std::chrono::steady_clock::now();
  cut_json_lines(path_, 1000);
  EXPECT_EQ(fs::file_size(path_), size);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10)) << size << " bytes";
}

}  // namespace
}  // namespace mtf
