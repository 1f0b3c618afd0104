#include "trainer/report/event_file.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <tuple>

#include "data/text/tfrecord.h"
#include "engine/base/error.h"
#include "trainer/report/event.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

namespace fs = std::filesystem;

using Scalar = std::tuple<int64_t, std::string, float>;  // step, tag, value

KeepEvent up_to(int64_t last) {
  return [last](int64_t step, std::string_view) { return step <= last; };
}

class EventFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::remove_all(directory_);
    fs::create_directories(directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::vector<std::string> files() const {
    std::vector<std::string> paths;
    for (const auto& entry : fs::directory_iterator(directory_)) paths.push_back(entry.path().string());
    std::ranges::sort(paths);
    return paths;
  }

  /// Returns the events of all files, in the order of the files.
  std::vector<Event> events() const {
    std::vector<Event> result;
    for (const std::string& path : files()) {
      TFRecordReader reader(path);
      while (const auto record = reader.next()) result.push_back(parse_event(*record).value());
    }
    return result;
  }

  std::vector<Scalar> scalars() const {
    std::vector<Scalar> result;
    for (const Event& event : events()) {
      for (const auto& [tag, value] : event.scalars) result.emplace_back(event.step, tag, value);
    }
    return result;
  }

  /// Writes a file with the loss of these steps.
  void write(std::initializer_list<int64_t> steps) const {
    EventFile file(directory_, 0);
    for (const int64_t step : steps) file.write(step, {{"loss", 1.0 / static_cast<double>(step)}});
  }

  std::string directory_ =
      ::testing::TempDir() + ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(EventFiles, HoldTheScalarsWithStepAndTime) {
  EventFile file(directory_, 0);
  EXPECT_THAT(files(), IsEmpty());
  file.write(1, {{"train/loss", 0.1}, {"train/grad_norm", 0}});
  file.write(100, {{"train/loss", std::numeric_limits<double>::infinity()}});
  EXPECT_THAT(scalars(), ElementsAre(Scalar(1, "train/loss", 0.1f), Scalar(1, "train/grad_norm", 0),
                                     Scalar(100, "train/loss", std::numeric_limits<float>::infinity())));
  // Zeros are written, too.
  EXPECT_TRUE(event_bytes({.scalars = {{"a", 0.0f}}}).ends_with(std::string("\x15\0\0\0\0", 5)));
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  for (const Event& event : events()) EXPECT_NEAR(event.wall_time, now.count(), 60);
}

TEST_F(EventFiles, HoldHistogramsOfLists) {
  EventFile(directory_, 0)
      .write(1, {{"loss", 1}}, {{"loads", {2}, {1, 3, 1, 2}}, {"equal", {5}, {5, 5}}, {"nan", {}, {NAN}}});
  const Event event = events().back();
  ASSERT_EQ(event.scalars.size(), 1u);
  ASSERT_EQ(event.histograms.size(), 2u);
  EXPECT_EQ(event.histograms[0].first, "loads");
  EXPECT_EQ(event.histograms[0].second, (Histogram{.min = 1,
                                                   .max = 3,
                                                   .count = 4,
                                                   .sum = 7,
                                                   .sum_of_squares = 15,
                                                   .limits = {1.5, 2, 2.5, 3},
                                                   .buckets = {2, 1, 0, 1}}));
  EXPECT_THAT(event.histograms[1].second.limits, ElementsAre(5));
  EXPECT_THAT(event.histograms[1].second.buckets, ElementsAre(2));
}

TEST_F(EventFiles, BeginWithTheVersionAndTheFirstStepThatCounts) {
  EventFile(directory_, 100).write(150, {{"loss", 1}});
  EXPECT_EQ(events()[0].file_version, "brain.Event:2");
  EXPECT_TRUE(events()[1].session_start);
  EXPECT_EQ(events()[1].step, 101);
}

TEST_F(EventFiles, BeginAnewWhereSomebodyHasRemovedThem) {
  EventFile file(directory_, 0);
  file.write(1, {{"loss", 1}});
  fs::remove(files().at(0));
  file.write(2, {{"loss", 0.5}});
  file.write(3, {{"loss", 0.25}});
  EXPECT_THAT(scalars(), ElementsAre(Scalar(2, "loss", 0.5f), Scalar(3, "loss", 0.25f)));
  EXPECT_EQ(events()[0].file_version, "brain.Event:2");
  EXPECT_EQ(events()[1].step, 2);
}

TEST_F(EventFiles, AreNamedByTimeHostAndProcess) {
  write({1});
  char host[256];
  gethostname(host, sizeof host);
  EXPECT_THAT(fs::path(files().at(0)).filename().string(),
              ::testing::AllOf(::testing::StartsWith("events.out.tfevents."),
                               ::testing::EndsWith(fmt::format(".{}.{}.0", host, getpid()))));
}

TEST_F(EventFiles, FollowEachOtherByNameHoweverFastTheyAreMade) {
  std::ofstream(directory_ + "/events.out.tfevents.9999999999.other.1.0");  // from a clock that was wrong
  for (const int64_t step : {1, 2, 3}) write({step});
  fs::remove(directory_ + "/events.out.tfevents.9999999999.other.1.0");
  EXPECT_THAT(scalars(),
              ElementsAre(Scalar(1, "loss", 1), Scalar(2, "loss", 0.5f), Scalar(3, "loss", 1 / 3.0f)));
}

TEST_F(EventFiles, ACutRemovesLaterEventsAndFilesWithoutAny) {
  write({1, 10, 20});
  write({21, 30});
  cut_event_files(directory_, up_to(10));
  EXPECT_EQ(files().size(), 1);
  EXPECT_THAT(scalars(), ElementsAre(Scalar(1, "loss", 1), Scalar(10, "loss", 0.1f)));
  EXPECT_EQ(events()[0].file_version, "brain.Event:2");
  cut_event_files(directory_, up_to(0));
  EXPECT_THAT(files(), IsEmpty());
}

TEST_F(EventFiles, ACutMendsEveryTornEnd) {
  write({1, 2});
  const std::string path = files()[0];
  std::string bytes;
  {
    std::ifstream stream(path, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(stream), {});
  }
  for (size_t size = 0; size <= bytes.size(); ++size) {
    std::ofstream(path, std::ios::binary) << bytes.substr(0, size);
    cut_event_files(directory_, up_to(100));
    const size_t count = scalars().size();  // would throw at an incomplete record
    EXPECT_EQ(files().empty(), count == 0) << size;
    EXPECT_EQ(count == 2, size == bytes.size()) << size;
  }
  std::ofstream(path, std::ios::binary) << bytes << std::string(100, '\0');
  cut_event_files(directory_, up_to(100));
  EXPECT_EQ(fs::file_size(path), bytes.size());
}

TEST_F(EventFiles, ACutKeepsWhatStandsAfterAnEventThatGoes) {
  write({1, 30, 2, 31, 3});
  cut_event_files(directory_, up_to(3));
  EXPECT_EQ(files().size(), 1);
  EXPECT_THAT(scalars(),
              ElementsAre(Scalar(1, "loss", 1), Scalar(2, "loss", 0.5f), Scalar(3, "loss", 1 / 3.0f)));
}

TEST_F(EventFiles, ACutCanGoByTags) {
  EventFile file(directory_, 0);
  file.write(10, {{"train/loss", 1}, {"train/grad_norm", 2}});
  file.write(10, {{"test/loss", 3}});
  cut_event_files(directory_, [](int64_t, std::string_view tag) { return tag == "train/loss"; });
  EXPECT_THAT(scalars(), ElementsAre(Scalar(10, "train/loss", 1), Scalar(10, "train/grad_norm", 2)));
}

TEST_F(EventFiles, ACutLeavesOtherFilesAlone) {
  fs::create_directory(directory_ + "/events.out.tfevents.directory");
  std::ofstream(directory_ + "/log.txt") << "text";
  cut_event_files(directory_, up_to(0));
  EXPECT_THAT(files(), ElementsAre(directory_ + "/events.out.tfevents.directory", directory_ + "/log.txt"));
}

TEST_F(EventFiles, ADirectoryThatIsGoneIsNamed) {
  fs::remove_all(directory_);
  EXPECT_THROW(EventFile(directory_, 0).write(1, {{"loss", 1}}), Error);
  EXPECT_THROW(cut_event_files(directory_, up_to(1)), Error);
}

}  // namespace
}  // namespace mtf
