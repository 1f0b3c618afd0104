// Tests what a run finds in its directory when it resumes: its configuration, its newest checkpoint, foreign
// files.
#include "trainer/train/continuation.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <cmath>
#include <limits>
#include <thread>

#include "engine/base/hash.h"
#include "tests/checkpoint/testing.h"
#include "tests/support/failure.h"
#include "tests/support/toy_run.h"
#include "trainer/checkpoint/checkpoints.h"
#include "trainer/session/model_dir.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A fixture of a run's directory with a configuration and checkpoints of one weight.
class ContinuationTest : public CheckpointTest {
 protected:
  ContinuationTest() {
    std::ofstream(run_ + ".yaml") << testing::kToyRun;
    fs::create_directories(run_);
  }
  ~ContinuationTest() override { fs::remove(run_ + ".yaml"); }

  Config load(const std::string& file, std::vector<std::string> arguments = {}) const {
    arguments.push_back("run.model_dir=" + run_);
    Diagnostics diagnostics;
    Config config = load_config({file}, arguments, diagnostics);
    diagnostics.throw_if_errors();
    return config;
  }
  Config toy(const std::vector<std::string>& arguments = {}) const { return load(run_ + ".yaml", arguments); }
  /// Loads the run's own file, with some texts replaced.
  Config edited(const std::vector<std::pair<std::string, std::string>>& edits,
                const std::vector<std::string>& arguments = {}) const {
    std::string text = read_text(run_ + "/config.yaml");
    for (const auto& [from, to] : edits) {
      EXPECT_NE(text.find(from), std::string::npos) << from << " in " << text;
      text.replace(text.find(from), from.size(), to);
    }
    write_contents(run_ + "/config.yaml", text);
    return load(run_ + "/config.yaml", arguments);
  }
  void save(int64_t step, const Config& config, const std::function<void(Manifest&)>& change = {}) {
    Manifest manifest = small_manifest(step);
    manifest.seed = static_cast<uint64_t>(config.run.seed);
    manifest.config = resolved_yaml(config);
    if (change) change(manifest);
    const bool other = manifest.config.empty() && !manifest.config_hash.empty();
    if (!other) manifest.config_hash = hash128_hex(manifest.config);
    write_checkpoint(directory(), manifest,
                     std::vector<CheckpointFile>{{"weights.safetensors", {whole_tensor(weight_)}}});
  }
  void damage(int64_t step, const std::string& file) const {
    fs::resize_file(path_of(step) + "/" + file, 50);
  }
  /// Returns the errors of resuming; empty if there are none.
  std::string refusal(Config config) {
    Diagnostics diagnostics;
    continuation_ = find_continuation(config, diagnostics);
    return failure([&] { diagnostics.throw_if_errors(); }) == "no error"
               ? ""
               : failure([&] { diagnostics.throw_if_errors(); }, ErrorKind::kConfig);
  }

  const std::string run_ = fs::path(directory()).parent_path().string();
  const SourceVariable weight_ = random_variable("w", DType::kFloat32, Shape::parse("io:4"), random_);
  std::optional<Continuation> continuation_;
};

TEST_F(ContinuationTest, WhatIsEditedInItsOwnConfigYamlIsComparedWithWhatTrainedTheCheckpoint) {
  write_config(toy(), 0, "");
  save(10, toy());
  EXPECT_EQ(refusal(load(run_ + "/config.yaml")), "");
  EXPECT_THAT(continuation_->changes, IsEmpty());
  EXPECT_THAT(refusal(edited({{"seed: 1", "seed: 7"}, {"batch_size: 40", "batch_size: 20"}})),
              AllOf(HasSubstr("config.yaml:"), HasSubstr("`run.seed` was 1 and is now 7, which a run"),
                    HasSubstr("`train.batch_size` was 40 and is now 20, which a run"),
                    HasSubstr("`run.allow_change: [run.seed]`")));
  const Config allowed = edited({}, {"run.allow_change=[run.seed, train.batch_size]"});
  EXPECT_EQ(refusal(allowed), "");
  EXPECT_THAT(continuation_->changes,
              ElementsAre("`run.seed` was 1 and is now 7", "`train.batch_size` was 40 and is now 20"));
  write_config(allowed, 10, continuation_->trained_with);
  EXPECT_EQ(read_text(run_ + "/config.step-10.yaml"), resolved_yaml(toy()));
  EXPECT_EQ(read_text(run_ + "/config.yaml"), resolved_yaml(allowed));
}

TEST_F(ContinuationTest, AChangeOfTheModelOrFewerStepsInConfigYamlAreFoundToo) {
  write_config(toy(), 0, "");
  save(10, toy());
  EXPECT_THAT(refusal(edited({{"steps: 30", "steps: 20"}})),
              HasSubstr("`train.steps` was 30 in the run that is continued and is now 20"));
  EXPECT_THAT(refusal(edited({{"io: 4", "io: 5"}})), HasSubstr("was 4 and is now 5"));
}

TEST_F(ContinuationTest, AnOptionOfTheModelThatIsGivenItsDefaultHasNotChanged) {
  write_config(toy(), 0, "");
  save(10, toy());
  EXPECT_EQ(refusal(toy({"model.loss=mean_squared_error"})), "");
  EXPECT_THAT(continuation_->changes, IsEmpty());
  EXPECT_THAT(refusal(toy({"model.loss=mean_absolute_error"})),
              HasSubstr("`model.loss` was mean_squared_error and is now mean_absolute_error"));
  EXPECT_THAT(refusal(toy({"model.layers.0.dense.bias=false"})),
              HasSubstr("`model.layers.0.dense.bias` was not given and is now false"));
}

TEST_F(ContinuationTest, OfACheckpointOfAnOlderVersionTheSeedIsCompared) {
  write_config(toy(), 0, "");
  save(10, toy(), [&](Manifest& manifest) {
    manifest.config_hash = hash128_hex(manifest.config);
    manifest.config.clear();
  });
  EXPECT_EQ(refusal(load(run_ + "/config.yaml")), "");
  EXPECT_THAT(continuation_->changes, IsEmpty());
  EXPECT_THAT(refusal(edited({{"seed: 1", "seed: 7"}})), HasSubstr("`run.seed` was 1 and is now 7"));
  EXPECT_THAT(
      continuation_->changes,
      ElementsAre(HasSubstr("config.yaml has changed since step-00000010 was saved, by an older version")));
}

TEST_F(ContinuationTest, BehindADamagedCheckpointWithoutAnotherTheRunEndsWithAnError) {
  EXPECT_THAT(failure([&] { older_continuation(toy()); }, ErrorKind::kCheckpoint),
              HasSubstr("holds no checkpoint any more"));  // the directory holds no run
  write_config(toy(), 0, "");
  EXPECT_THAT(failure([&] { older_continuation(toy()); }, ErrorKind::kCheckpoint),
              HasSubstr("holds no checkpoint any more"));
  save(10, toy());
  EXPECT_EQ(older_continuation(toy()).checkpoint->step, 10);
  EXPECT_THAT(failure([&] { older_continuation(toy({"run.on_existing=fail"})); }, ErrorKind::kConfig),
              HasSubstr("holds a run already"));
}

TEST_F(ContinuationTest, AutomaticMicrobatchesAreThoseOfTheRunSoFar) {
  write_config(toy({"train.microbatches=4"}), 0, "");
  save(10, toy({"train.microbatches=4"}));
  Config config = toy({"train.microbatches=auto"});
  Diagnostics diagnostics;
  const auto old = find_continuation(config, diagnostics);
  ASSERT_TRUE(old);
  EXPECT_EQ(config.train.microbatches.value, 4);
  EXPECT_THAT(old->changes, IsEmpty());
  Config other = toy({"train.microbatches=2"});
  EXPECT_THAT(find_continuation(other, diagnostics)->changes,
              ElementsAre("`train.microbatches` was 4 and is now 2"));
}

TEST_F(ContinuationTest, ADamagedNewestCheckpointEndsARunThatMayNotGoBackAndSaysHowItMay) {
  write_config(toy(), 0, "");
  for (const int64_t step : {10, 20, 30}) save(step, toy());
  damage(30, "manifest.json");
  EXPECT_THAT(failure([&] { newest_checkpoint(toy()); }, ErrorKind::kCheckpoint),
              AllOf(HasSubstr("step-00000030/manifest.json: it does not end with its checksum"),
                    HasSubstr("`checkpoint.on_damage=previous`, which goes on from step 20")));
  const Config goes_back = toy({"checkpoint.on_damage=previous"});
  damage(20, "weights.safetensors");
  const NewestCheckpoint newest = newest_checkpoint(goes_back);
  EXPECT_EQ(newest.checkpoint.value().step, 10);
  ASSERT_EQ(newest.damaged.size(), 2u);
  EXPECT_THAT(newest.damaged[1].reason, HasSubstr("weights.safetensors: it has 50 bytes, the manifest says"));
  EXPECT_THAT(set_aside(newest.damaged[1]),
              AllOf(HasSubstr("the checkpoint of step 20 is damaged and set aside as "),
                    HasSubstr("/damaged-step-00000020: ")));
  EXPECT_EQ(list_checkpoints(directory()).size(), 2u);
  damage(10, "manifest.json");
  EXPECT_THAT(failure([&] { newest_checkpoint(goes_back); }, ErrorKind::kCheckpoint),
              HasSubstr("step-00000010/manifest.json: it does not end"))
      << "never from step 0";
}

TEST_F(ContinuationTest, WhoHasStartedTheRunAgainLetsItGoBack) {
  Config config = toy();
  EXPECT_FALSE(goes_back_behind_damage(config));
  config.launch.restarts = 1;
  EXPECT_TRUE(goes_back_behind_damage(config));
  config.checkpoint.on_damage = OnDamage::kFail;
  EXPECT_FALSE(goes_back_behind_damage(config));
}

TEST_F(ContinuationTest, NumbersThatNoRunCanReachAreDamage) {
  write_config(toy(), 0, "");
  const auto wrong = [&](const std::function<void(Manifest&)>& change) {
    save(10, toy(), change);
    return failure([&] { newest_checkpoint(toy()); }, ErrorKind::kCheckpoint);
  };
  EXPECT_THAT(wrong([](Manifest& m) { m.next_rows["train"] = std::numeric_limits<int64_t>::max(); }),
              AllOf(HasSubstr("manifest.json: `train` of `next_rows` is 9.22"), HasSubstr("is damaged")));
  EXPECT_THAT(wrong([](Manifest& m) { m.state["tokens"] = 1e300; }), HasSubstr("`tokens` is 1e+300"));
  EXPECT_THAT(wrong([](Manifest& m) { m.state["seconds"] = -1; }), HasSubstr("`seconds` is -1"));
  EXPECT_THAT(wrong([](Manifest& m) { m.next_rows.clear(); }), HasSubstr("no place in the training data"));
  EXPECT_EQ(wrong([](Manifest& m) { m.state["best"] = -1e300; }), "no error");
}

TEST_F(ContinuationTest, ARunDoesNotWriteThroughLinksAndPipesInItsDirectory) {
  write_config(toy(), 0, "");
  write_contents(run_ + "/precious", "text");
  for (const char* name : {"metrics.jsonl", "evaluate.jsonl", "log.txt", "log.rank-3.txt",
                           "events.out.tfevents.1.host.1.0", "profile.json"}) {
    fs::create_symlink(run_ + "/precious", run_ + "/" + name);
    EXPECT_THAT(refusal(toy()), AllOf(HasSubstr(std::string("/") + name + " is a symbolic link (to "),
                                      HasSubstr("remove the link")));
    fs::remove(run_ + "/" + name);
  }
  for (const char* name : {"metrics.jsonl", "config.yaml"}) {
    fs::remove(run_ + "/" + name);
    ASSERT_EQ(::mkfifo((run_ + "/" + name).c_str(), 0600), 0);
    EXPECT_THAT(refusal(toy()), HasSubstr(std::string("/") + name + " is no regular file"));
    fs::remove(run_ + "/" + name);
  }
  write_config(toy(), 0, "");
  fs::create_directory_symlink(run_, run_ + "/checkpoints");
  EXPECT_EQ(refusal(toy()), "") << "another disk for the checkpoints";
}

TEST_F(ContinuationTest, TheLockOfAProcessThatIsAboutToEndIsWaitedFor) {
  const Config config = toy();
  std::optional<ModelDirLock> lock(config);
  std::thread ends([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    lock.reset();
  });
  EXPECT_EQ(failure([&] { ModelDirLock again(config); }), "no error");
  ends.join();
}

TEST_F(ContinuationTest, TheOwnerOfTheLockRemovesWhatAKilledOneLeft) {
  for (const char* name : {"config.yaml", "config.yaml.partial-7", "config.step-4.yaml.partial-9",
                           "data.json.partial-7", "mine.partial-7"})
    write_contents(run_ + "/" + name, "text");
  const ModelDirLock lock(toy());
  EXPECT_THAT(names_in(run_), ElementsAre("config.yaml", "mine.partial-7"));
}

TEST_F(ContinuationTest, ADirectoryWithoutLocksIsNamedInAWarning) {
  EXPECT_EQ(ModelDirLock(toy()).warning(), "");
  ::setenv("MTF_FAULT", "directory.lock=EINVAL", 1);
  EXPECT_EQ(ModelDirLock(toy()).warning(),
            run_ +
                ": its file system has no locks (Invalid argument), so that no run notices another one that "
                "trains in it");
  ::unsetenv("MTF_FAULT");
}

TEST_F(ContinuationTest, FlightRecordsGoAndNothingElse) {
  for (const char* name : {"flight.rank-0.json", "flight.rank-12.json", "flight.yaml"})
    write_contents(run_ + "/" + name, "{}");
  remove_flight_records(toy());
  EXPECT_THAT(names_in(run_), ElementsAre("flight.yaml"));
}

}  // namespace
}  // namespace mtf
