#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/checkpoint/testing.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Runs as user nobody while it exists, if the test is run by root, who may write everywhere.
class Unprivileged {
 public:
  Unprivileged() { become(user_ == 0 ? 65534 : user_); }
  ~Unprivileged() { become(user_); }

 private:
  static void become(uid_t user) { EXPECT_EQ(::seteuid(user), 0); }
  const uid_t user_ = ::geteuid();
};

/// Saves step 1 without faults; the tests inject faults into what follows.
class InterruptedSave : public CheckpointTest {
 protected:
  InterruptedSave() { save(1, old_); }

  void save(int64_t step, const SourceVariable& variable) const {
    write_checkpoint(directory(), small_manifest(step),
                     std::vector<CheckpointFile>{{"weights.safetensors", {whole_tensor(variable)}},
                                                 {"optimizer.safetensors", {whole_tensor(slot_)}}});
  }

  /// Runs `action` with MTF_FAULT in a child process. Returns true if it was killed, false if it ended.
  template <class Action>
  static bool is_killed(const std::string& fault, const Action& action) {
    const pid_t child = ::fork();
    if (child == 0) {
      const ScopedFault scoped(fault);
      action();
      ::_exit(0);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0) << fault;
    return WIFSIGNALED(status);
  }

  /// Returns the listed steps; each checkpoint must be complete and contain the old or the new variable.
  std::vector<int64_t> complete_steps() const {
    std::vector<int64_t> steps;
    for (const SavedCheckpoint& saved : list_checkpoints(directory())) {
      CheckpointReader reader(saved.path);
      reader.verify();
      for (const SourceVariable* variable : {&old_, &new_})
        if (reader.find(variable->name) != nullptr) {
          EXPECT_EQ(read_elements(reader, variable->name, variable->whole()), variable->elements);
        }
      steps.push_back(saved.step);
    }
    return steps;
  }

  bool holds(int64_t step, const SourceVariable& variable) const {
    return CheckpointReader(path_of(step)).find(variable.name) != nullptr;
  }

  static const std::vector<std::string>& points_before_rename() {
    static const std::vector<std::string> points = {
        "checkpoint.begin",     "checkpoint.create",    "checkpoint.write",    "checkpoint.write@2",
        "checkpoint.write@5",   "checkpoint.written",   "checkpoint.file",     "checkpoint.file@2",
        "checkpoint.written@2", "checkpoint.written@3", "checkpoint.manifest", "checkpoint.sync"};
    return points;
  }
  static const std::vector<std::string>& points_after_rename() {
    static const std::vector<std::string> points = {"checkpoint.rename", "checkpoint.parent"};
    return points;
  }

  const SourceVariable old_ = random_variable("old", DType::kFloat32, Shape::parse("a:50"), random_);
  const SourceVariable new_ = random_variable("new", DType::kFloat32, Shape::parse("a:60"), random_);
  const SourceVariable slot_ = random_variable("slot", DType::kFloat32, Shape::parse("a:3"), random_);
};

TEST_F(InterruptedSave, KilledBeforeTheRenameLeavesTheOldCheckpoints) {
  for (const std::string& fault : points_before_rename()) {
    EXPECT_TRUE(is_killed(fault, [&] { save(2, new_); })) << fault;
    EXPECT_THAT(complete_steps(), ElementsAre(1)) << fault;
    remove_unfinished(directory());
    EXPECT_THAT(names_in(directory()), ElementsAre("step-00000001")) << fault;
  }
}

TEST_F(InterruptedSave, KilledAfterTheRenameLeavesTheNewCheckpoint) {
  for (const std::string& fault : points_after_rename()) {
    EXPECT_TRUE(is_killed(fault, [&] { save(2, new_); })) << fault;
    EXPECT_THAT(complete_steps(), ElementsAre(1, 2)) << fault;
    EXPECT_TRUE(holds(2, new_));
    remove_checkpoint({2, path_of(2)});
  }
}

TEST_F(InterruptedSave, KilledWhileItReplacesLeavesTheOldOrTheNewOne) {
  for (const std::string& fault : points_before_rename()) {
    EXPECT_TRUE(is_killed(fault, [&] { save(1, new_); })) << fault;
    EXPECT_THAT(complete_steps(), ElementsAre(1)) << fault;
    EXPECT_TRUE(holds(1, old_)) << fault;
  }
  std::vector<std::string> after = points_after_rename();
  after.insert(after.end(), {"checkpoint.remove", "checkpoint.remove@2", "checkpoint.remove@3"});
  for (const std::string& fault : after) {
    remove_unfinished(directory());
    save(1, old_);
    EXPECT_TRUE(is_killed(fault, [&] { save(1, new_); })) << fault;
    EXPECT_THAT(complete_steps(), ElementsAre(1)) << fault;
    EXPECT_TRUE(holds(1, new_)) << fault;
  }
  remove_unfinished(directory());
  EXPECT_THAT(names_in(directory()), ElementsAre("step-00000001"));
}

TEST_F(InterruptedSave, KilledTwiceInARowAndSavedTheThirdTime) {
  EXPECT_TRUE(is_killed("checkpoint.file", [&] { save(2, new_); }));
  EXPECT_TRUE(is_killed("checkpoint.manifest", [&] { save(2, new_); }));
  save(2, new_);
  EXPECT_THAT(complete_steps(), ElementsAre(1, 2));
  EXPECT_THAT(names_in(directory()), ElementsAre("step-00000001", "step-00000002"));
}

TEST_F(InterruptedSave, KilledWhileItRemovesMakesTheCheckpointInvisible) {
  save(2, new_);
  for (const std::string fault : {"checkpoint.remove", "checkpoint.remove@2", "checkpoint.remove@3"}) {
    save(1, old_);
    EXPECT_TRUE(is_killed(fault, [&] { remove_checkpoint({1, path_of(1)}); })) << fault;
    EXPECT_THAT(complete_steps(), ElementsAre(2)) << fault;
  }
  remove_unfinished(directory());
  EXPECT_THAT(names_in(directory()), ElementsAre("step-00000002"));
}

TEST_F(InterruptedSave, FailingCallsAreReportedAndNothingIsLeftBehind) {
  std::vector<std::string> points = points_before_rename();
  points.emplace_back("checkpoint.rename");  // here the fault is in syncing the directory
  for (const std::string& point : points)
    for (const int64_t step : {1, 2}) {
      const ScopedFault fault(point + "=ENOSPC");
      EXPECT_EQ(message_of([&] { save(step, new_); }, ErrorKind::kSystem),
                "cannot write " + path_of(step) + ": No space left on device")
          << point;
      EXPECT_THAT(names_in(directory()), ElementsAre("step-00000001")) << point;
      EXPECT_TRUE(holds(1, old_)) << point;
    }
  EXPECT_THAT(complete_steps(), ElementsAre(1));
}

TEST_F(InterruptedSave, TheReasonIsTheSystems) {
  const auto message = [&](const std::string& value) {
    const ScopedFault fault(value);
    return message_of([&] { save(2, new_); }, ErrorKind::kSystem);
  };
  EXPECT_THAT(message("checkpoint.begin=EROFS"), HasSubstr("Read-only file system"));
  EXPECT_THAT(message("checkpoint.create=EACCES"), HasSubstr("Permission denied"));
  EXPECT_THAT(message("checkpoint.written=EIO"), HasSubstr("Input/output error"));
  EXPECT_THAT(message("checkpoint.write@3=EFBIG"), HasSubstr("File too large"));
}

TEST_F(InterruptedSave, APathThatCannotHoldCheckpointsIsNamed) {
  const std::string file = path_of(1) + "/weights.safetensors";
  EXPECT_THAT(message_of([&] { write_checkpoint(file, small_manifest(3), {}); }, ErrorKind::kSystem),
              HasSubstr("cannot write " + file + "/step-00000003: "));
}

TEST_F(InterruptedSave, AReadOnlyDirectoryIsNamed) {
  std::filesystem::permissions(directory(),
                               std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  {
    const Unprivileged user;
    EXPECT_EQ(message_of([&] { save(2, new_); }, ErrorKind::kSystem),
              "cannot write " + path_of(2) + ": Permission denied");
  }
  std::filesystem::permissions(directory(), std::filesystem::perms::owner_all);
}

TEST_F(InterruptedSave, RemovalThatFailsIsReported) {
  const ScopedFault fault("checkpoint.remove=EIO");
  EXPECT_EQ(message_of(
                [&] {
                  remove_checkpoint({1, path_of(1)});
                },
                ErrorKind::kSystem),
            "cannot remove " + path_of(1) + ": Input/output error");
  EXPECT_THAT(complete_steps(), ElementsAre());
}

}  // namespace
}  // namespace mtf
