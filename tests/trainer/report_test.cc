// Tests run.mode=report: what is read from the directories of runs, within bounds, however these look.
#include "trainer/programs/report/report.h"

#include <gmock/gmock.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/base/error.h"
#include "tests/support/failure.h"
#include "trainer/html/page.h"
#include "trainer/programs/report/curves.h"
#include "trainer/programs/report/json_lines.h"
#include "trainer/programs/report/samples.h"
#include "trainer/programs/report/time_use.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using ::testing::StartsWith;

using OrderedJson = nlohmann::ordered_json;

/// A fixture with a directory of runs.
class Report : public ::testing::Test {
 protected:
  Report() {
    std::string name = (std::filesystem::temp_directory_path() / "mtf_report_XXXXXX").string();
    directory_ = mkdtemp(name.data());
  }
  ~Report() override { std::filesystem::remove_all(directory_); }

  std::string path(const std::string& name) const { return (directory_ / name).string(); }
  std::string write(const std::string& name, const std::string& text) const {
    const std::filesystem::path file = directory_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << text;
    return file.string();
  }
  /// Writes a run that has logged `steps` steps.
  std::string run(const std::string& name, int64_t steps,
                  const std::string& config = "{train: {steps: 9}}\n") const {
    write(name + "/config.yaml", config);
    std::string lines;
    for (int64_t step = 1; step <= steps; ++step)
      lines += fmt::format("{{\"step\":{},\"time\":{},\"loss\":{}}}\n", step, 0.5 * static_cast<double>(step),
                           1.0 / static_cast<double>(step));
    write(name + "/metrics.jsonl", lines);
    return path(name);
  }

  std::filesystem::path directory_;
};

std::vector<std::string> lines_of(const std::string& path, size_t longest) {
  std::vector<std::string> lines;
  for_each_line(path, longest, [&](std::string_view line) { lines.emplace_back(line); });
  return lines;
}

TEST_F(Report, ReadsWholeLinesOnly) {
  EXPECT_THAT(lines_of(write("a", "one\n\ntwo\nhalf"), 100), ElementsAre("one", "", "two"));
  EXPECT_THAT(lines_of(path("absent"), 100), IsEmpty());
}

TEST_F(Report, LeavesOutLinesThatAreTooLong) {
  const std::string file =
      write("a", std::string(200'000, 'x') + "\nok\n" + std::string(11, 'y') + "\nend\n");
  EXPECT_THAT(lines_of(file, 10), ElementsAre("ok", "end"));
}

TEST(FlatObject, HasTheNumbersAndTextsOfALine) {
  FlatObject object;
  ASSERT_TRUE(parse_flat(
      R"({"dataset":"dev","step":3,"loss":null,"list":[{"a":1}],"map":{"b":[2]},"more":2.5})", object));
  EXPECT_EQ(object.text("dataset"), "dev");
  EXPECT_EQ(object.number("step", 0), 3);
  EXPECT_TRUE(std::isnan(object.number("loss", 0)));
  EXPECT_EQ(object.number("more", 0), 2.5);
  EXPECT_THAT(object.numbers, SizeIs(3));
  EXPECT_EQ(object.number("absent", -1), -1);
}

TEST(FlatObject, RefusesWhatIsNoObject) {
  FlatObject object;
  for (const char* line : {"", "3", "[1]", "{\"a\":", "{} {}", "null", "{\"a\":1}x", "\"text\""})
    EXPECT_FALSE(parse_flat(line, object)) << line;
}

TEST(Curves, KeepsAShortRunAsItIs) {
  Curves curves(10);
  for (int step = 1; step <= 3; ++step) curves.add({{"step", step}, {"loss", 1.0 / step}});
  const OrderedJson json = curves.json();
  EXPECT_EQ(json["step"], OrderedJson({1, 2, 3}));
  EXPECT_EQ(json["metrics"]["loss"]["mean"], OrderedJson({1, 0.5, 0.333333}));
  EXPECT_FALSE(json["metrics"]["loss"].contains("low"));
  EXPECT_EQ(json["lines"], 3);
}

TEST(Curves, KeepsMeanAndRangeOfALongRun) {
  Curves curves(8);
  for (int step = 1; step <= 1000; ++step) curves.add({{"step", step}, {"loss", step == 500 ? 100 : 1}});
  curves.thin(8);
  EXPECT_LE(curves.points(), 8U);
  EXPECT_GE(curves.points(), 4U);
  const OrderedJson json = curves.json();
  EXPECT_EQ(json["step"].back(), 1000);
  double highest = 0;
  for (const OrderedJson& high : json["metrics"]["loss"]["high"])
    highest = std::max(highest, high.get<double>());
  EXPECT_EQ(highest, 100);
  EXPECT_EQ(json["metrics"]["loss"]["low"][0], 1);
  EXPECT_EQ(curves.last("step"), 1000);
}

TEST(Curves, LeavesOutWhatIsNotFinite) {
  Curves curves(8);
  curves.add({{"step", 1}, {"loss", NAN}});
  curves.add({{"step", 2}, {"loss", 2}, {"new", 3}});
  const OrderedJson json = curves.json();
  EXPECT_EQ(json["metrics"]["loss"]["mean"], OrderedJson({nullptr, 2}));
  EXPECT_EQ(json["metrics"]["new"]["mean"], OrderedJson({nullptr, 3}));
  EXPECT_EQ(json["not_finite"], OrderedJson({{"loss", 1}}));
}

TEST(Curves, BoundsTheNumberOfMetrics) {
  Curves curves(8);
  for (int i = 0; i < 1000; ++i) curves.add({{"step", i}, {fmt::format("metric{}", i), i}});
  EXPECT_LT(curves.json()["metrics"].size(), 200U);
}

TEST_F(Report, ReadsARunThatIsBeingWritten) {
  run("a", 3);
  std::ofstream(path("a/metrics.jsonl"), std::ios::app) << "{\"step\":4,\"lo";
  write("a/evaluate.jsonl",
        "{\"dataset\":\"dev\",\"step\":2,\"accuracy\":0.5,\"seconds\":3}\n"
        "damaged\n"
        "{\"dataset\":\"dev\",\"step\":3,\"accuracy\":0.25,\"seconds\":4}\n");
  const OrderedJson run = report_document({path("a")}, {})["runs"][0];
  EXPECT_EQ(run["step"], 3);
  EXPECT_EQ(run["training_seconds"], 1.5);
  EXPECT_EQ(run["evaluation_seconds"], 7);
  EXPECT_EQ(run["evaluations"][0]["last"]["accuracy"], 0.25);
  EXPECT_EQ(run["evaluations"][0]["best"]["accuracy"], OrderedJson({0.5, 2}));
}

TEST_F(Report, ReadsARunThatHasNotLoggedYet) {
  write("a/config.yaml", "{}\n");
  const OrderedJson run = report_document({path("a")}, {})["runs"][0];
  EXPECT_TRUE(run["step"].is_null());
  EXPECT_TRUE(run["curves"]["metrics"].empty());
}

TEST_F(Report, NamesRunsByWhatTellsThemApart) {
  run("x/one/try", 1);
  run("x/two/try", 1);
  const OrderedJson runs = report_document({path("x/one/try"), path("x/two/try")}, {})["runs"];
  EXPECT_EQ(runs[0]["name"], "one/try");
  EXPECT_EQ(runs[1]["name"], "two/try");
  EXPECT_EQ(report_document({path("x/one/try")}, {})["runs"][0]["name"], "try");
}

TEST_F(Report, HasTheKeysThatDifferBetweenAnyRuns) {
  run("a", 1, "{train: {steps: 9, batch_size: 4}, optimizer: {type: sgd}}\n");
  run("b", 1, "{train: {steps: 9, batch_size: 8}, optimizer: {type: adam, beta1: 0.5}}\n");
  run("c", 1, "{train: {steps: 7, batch_size: 4}, optimizer: {type: sgd}}\n");
  const OrderedJson differences = report_document({path("a"), path("b"), path("c")}, {})["differences"];
  EXPECT_EQ(differences, OrderedJson::parse(R"([
    {"key": "train.batch_size", "values": ["4", "8", "4"]},
    {"key": "optimizer.type", "values": ["sgd", "adam", "sgd"]},
    {"key": "train.steps", "values": ["9", "9", "7"]}])"));
}

TEST_F(Report, GoesOnWithoutAConfigurationThatIsDamaged) {
  run("a", 1);
  run("b", 1, "{train: {steps: 9\n");
  const OrderedJson document = report_document({path("a"), path("b")}, {});
  EXPECT_THAT(document["notes"][0].get<std::string>(), HasSubstr("a and b cannot be compared"));
}

TEST_F(Report, RefusesADirectoryThatIsNoRun) {
  write("empty/notes.txt", "");
  EXPECT_THAT(failure([&] { report_document({path("empty")}, {}); }),
              HasSubstr("holds no run: it has no config.yaml"));
  EXPECT_THAT(failure([&] { report_document({path("none")}, {}); }), HasSubstr("is no directory of a run"));
}

TEST_F(Report, StaysBelowTwoMegabytes) {
  std::vector<std::string> runs;
  for (int i = 0; i < 12; ++i) {
    std::string lines;
    for (int step = 1; step <= 1500; ++step) {
      lines += fmt::format("{{\"step\":{}", step);
      for (int metric = 0; metric < 30; ++metric)
        lines += fmt::format(",\"m{}\":{}", metric, std::sin(step * metric + i));
      lines += "}\n";
    }
    runs.push_back(run(fmt::format("r{}", i), 1));
    write(fmt::format("r{}/metrics.jsonl", i), lines);
  }
  const OrderedJson document = report_document(runs, {});
  EXPECT_LT(script_json(document).size(), 1'950'000U);
  EXPECT_EQ(document["runs"][11]["step"], 1500);
}

TEST_F(Report, ReadsSamples) {
  const std::string png = "\x89PNG\r\n\x1a\nrest";
  write("a/samples/x.png", png);
  write("a/secret.png", png);
  const std::string file =
      write("a/samples/dev.jsonl",
            "{\"dataset\":\"dev\",\"step\":5,\"label\":\"boot\",\"prediction\":\"bag\",\"probability\":0.5,"
            "\"image\":\"x.png\"}\n"
            "{\"label\":1,\"prediction\":2,\"image\":\"data:image/png;base64,iVBORw0KGgo=\"}\n"
            "{\"prediction\":\"out\",\"image\":\"../secret.png\"}\n"
            "{\"prediction\":\"out\",\"image\":\"/etc/passwd\"}\n"
            "{\"prediction\":\"out\",\"image\":\"dev.jsonl\"}\n"
            "{\"prediction\":\"out\",\"image\":\"data:image/png;base64,\\\"><script>\"}\n"
            "{\"input\":\"ein\",\"target\":\"one\",\"prediction\":\"two\"}\n"
            "{\"line\":7,\"text\":\"drei\",\"score\":-0.5}\n"
            "{\"nothing\":1}\n");
  const OrderedJson samples = read_samples({file}, {});
  ASSERT_THAT(samples["images"], SizeIs(2));
  EXPECT_EQ(samples["images"][0]["image"], "data:image/png;base64,iVBORw0KGgpyZXN0");
  EXPECT_EQ(samples["images"][0]["label"], "boot");
  EXPECT_EQ(samples["images"][1]["prediction"], 2);
  ASSERT_THAT(samples["texts"], SizeIs(2));
  EXPECT_EQ(samples["texts"][0]["target"], "one");
  EXPECT_EQ(samples["texts"][1]["prediction"], "drei");
  EXPECT_EQ(samples["texts"][1]["example"], 7);
  EXPECT_EQ(samples["left_out"], 5);
}

TEST_F(Report, KeepsTheNewestSamples) {
  std::string lines;
  for (int i = 0; i < 100; ++i) lines += fmt::format("{{\"prediction\":\"text {}\"}}\n", i);
  const OrderedJson samples = read_samples({write("s.jsonl", lines)}, {.texts = 3});
  ASSERT_THAT(samples["texts"], SizeIs(3));
  EXPECT_EQ(samples["texts"][2]["prediction"], "text 99");
  EXPECT_EQ(samples["left_out"], 97);
  EXPECT_EQ(read_samples({write("out.txt", "one\ntwo\n")}, {})["texts"][1]["prediction"], "two");
}

TEST_F(Report, SharesProfiledTimeOutAmongTheInnermostSpans) {
  const std::string file = write("profile.json", R"({"displayTimeUnit": "ms", "traceEvents": [
{"ph": "M", "pid": 0, "tid": 3, "name": "thread_name", "args": {"name": "main thread"}},
{"ph": "X", "pid": 0, "tid": 3, "name": "step", "cat": "step", "ts": 0, "dur": 1000, "args": {}},
{"ph": "X", "pid": 0, "tid": 3, "name": "wait for data", "cat": "data", "ts": 100, "dur": 300, "args": {}},
{"ph": "X", "pid": 0, "tid": 3, "name": "einsum", "cat": "compute", "ts": 500, "dur": 400, "args": {}},
{"ph": "X", "pid": 0, "tid": 4, "name": "einsum", "cat": "compute", "ts": 500, "dur": 400, "args": {}}
]}
)");
  const OrderedJson use = time_use_of(file);
  EXPECT_DOUBLE_EQ(use["seconds"], 1e-3);
  EXPECT_EQ(use["steps"], 1);
  EXPECT_NEAR(use["categories"]["compute"].get<double>(), 4e-4, 1e-9);
  EXPECT_NEAR(use["categories"]["data"].get<double>(), 3e-4, 1e-9);
  EXPECT_NEAR(use["categories"]["step"].get<double>(), 3e-4, 1e-9);
  EXPECT_EQ(use["longest"][0]["name"], "einsum");
  EXPECT_TRUE(time_use_of(path("absent")).is_null());
}

TEST_F(Report, TakesDirectoriesFromTheCommandLine) {
  const std::string a = run("a", 1), b = run("b", 1);
  const auto request =
      report_request({a, b + "/config.yaml"}, {"run.mode=report", "report.output=page.html"});
  ASSERT_TRUE(request);
  EXPECT_THAT(request->runs, ElementsAre(a, b));
  EXPECT_EQ(request->options.output.text, "page.html");
  EXPECT_FALSE(report_request({a + "/config.yaml"}, {"run.mode=report"}));
  EXPECT_FALSE(report_request({a}, {}));
  EXPECT_THAT(failure([&] {
                report_request({a}, {"run.mode=report", "train.steps=3"});
              }),
              StartsWith("argument 3: a report of directories does not take `train`"));
}

TEST_F(Report, SaysWhichSamplesAreNotThere) {
  const std::string of_run = run("a", 3);
  const auto problem = [&](const std::vector<std::string>& files) {
    ReportOptions options;
    for (size_t i = 0; i < files.size(); ++i)
      options.samples.push_back({files[i], Mark{fmt::format("argument {}", i + 2), 0, 0, 1, {}}});
    try {
      write_report({of_run}, options);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string there = write("out.txt", "one\n");
  EXPECT_THAT(problem({there, path("absent.txt")}),
              StartsWith("argument 3: there is no file " + path("absent.txt")));
  EXPECT_THAT(problem({path("*.none")}), StartsWith("argument 2: no file matches " + path("*.none")));
  EXPECT_THAT(problem({of_run}), StartsWith("argument 2: " + of_run + " is a directory"));
  EXPECT_THAT(problem({""}), StartsWith("argument 2: `report.samples` names no file"));
  EXPECT_FALSE(std::filesystem::exists(path("a/report.html")));
  EXPECT_EQ(problem({path("o*.txt")}), "");
  EXPECT_TRUE(std::filesystem::exists(path("a/report.html")));
}

}  // namespace
}  // namespace mtf
