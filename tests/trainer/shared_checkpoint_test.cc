// Tests checkpoints that several processes write together; the processes are threads, or children that can be
// killed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <thread>

#include "engine/comm/rendezvous/tcp_store.h"
#include "tests/checkpoint/testing.h"
#include "tests/support/test_backend.h"
#include "trainer/checkpoint/checkpoints.h"
#include "trainer/checkpoint/restore.h"
#include "trainer/optimizer/averages.h"
#include "trainer/session/model_dir.h"
#include "trainer/train/run_log.h"

namespace mtf {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A mesh, and the number of processes that share its positions.
struct Place {
  std::string mesh;
  int processes = 1;
};

/// Returns a layout in which axes[i] gives the mesh dimensions that split axis i of a variable: "first",
/// "last" or "all", as far as they exist.
Layout along(const Mesh& mesh, const std::vector<std::string>& axes) {
  Layout layout = Layout::replicated(static_cast<int>(axes.size()));
  const int last = mesh.rank() - 1;
  for (size_t axis = 0; axis < axes.size() && last >= 0; ++axis) {
    if (axes[axis] == "first") layout.split.change()[axis] = {0};
    if (axes[axis] == "last" && last > 0) layout.split.change()[axis] = {last};
    if (axes[axis] == "all") {
      for (int i = 0; i <= last; ++i) layout.split.change()[axis].push_back(i);
    }
  }
  return layout;
}

std::vector<ProgramVariable> variables_on(const Mesh& mesh) {
  using enum Variable::Kind;
  const auto variable = [&](const char* name, const char* shape, const std::vector<std::string>& axes,
                            Variable::Kind kind = kWeight, DType dtype = DType::kFloat32) {
    return ProgramVariable{
        {name, Shape::parse(shape), dtype, Initializer::normal(1), kind}, along(mesh, axes), kNoValue};
  };
  return {variable("bias", "b:24", {"last"}),
          variable("kernel", "a:24;b:24", {"first", "last"}),
          variable("kernel/ema", "a:24;b:24", {"all", ""}, kSlot),
          variable("kernel/m", "a:24;b:24", {"all", ""}, kSlot),
          variable("mean", "a:24", {""}, kStatistic),
          variable("narrow", "a:24;b:24", {"all", ""}, kWeight, DType::kBFloat16),
          variable("scale", "", {}),
          variable("scale/m", "b:24", {"first"}, kSlot)};
}

/// The objects of a process of a run, in the order of their construction.
struct Process {
  Process(const Place& place, const std::string& model_dir, std::shared_ptr<ProcessGroup> group,
          bool replicate = false)
      : session{{}, std::move(group), {}, testing::test_backend(), nullptr, {}, {}, nullptr} {
    session.config.run.model_dir.text = model_dir;
    session.layouts.mesh = Mesh(Shape::parse(place.mesh));
    session.train_data = std::make_shared<DeclaredSource>(std::vector<Feature>{});
    session.processes->agree({});
    variables.emplace(
        *session.backend, session.layouts.mesh, variables_on(session.layouts.mesh),
        VariableStoreOptions{.replicate = replicate, .communicator = &session.processes->communicator()});
  }

  ProcessGroup& group() { return *session.processes; }

  Session session;
  std::optional<VariableStore> variables;
};

/// A fixture whose processes connect at a store of the test.
class SharedCheckpoint : public CheckpointTest {
 protected:
  SharedCheckpoint() { std::filesystem::create_directories(model_dir()); }

  std::string model_dir() const { return directory_of(directory()); }

  static std::shared_ptr<ProcessGroup> join(int rank, int size, int port) {
    Launch launch;
    launch.rank = rank;
    launch.size = size;
    launch.host = "127.0.0.1";
    launch.port = port;
    launch.store_is_served = true;
    return connect_processes(launch, {.connect_timeout = Milliseconds(60'000),
                                      .collective_timeout = Milliseconds(60'000),
                                      .flight_record = {},
                                      .build = "test",
                                      .log = {}});
  }

  /// Runs `action` in each process and returns their errors, by rank.
  static std::vector<std::string> run(int size,
                                      const std::function<void(std::shared_ptr<ProcessGroup>)>& action) {
    TcpStoreServer server;
    std::vector<std::string> errors(static_cast<size_t>(size));
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < size; ++rank) {
      threads.emplace_back([&, rank] {
        const std::shared_ptr<ProcessGroup> group = join(rank, size, server.port());
        try {
          action(group);
          group->leave();
        } catch (const Error& error) {
          errors[static_cast<size_t>(rank)] = group->fail(error).what();
        }
      });
    }
    threads.clear();
    return errors;
  }

  /// Saves the initial values of all variables as step `step`.
  std::vector<std::string> save(const Place& place, int64_t step, bool replicate = false) const {
    return run(place.processes, [&](const std::shared_ptr<ProcessGroup>& group) {
      Process process(place, model_dir(), group, replicate);
      process.variables->initialize(kSeed);
      save(process, step);
    });
  }

  static void save(Process& process, int64_t step) {
    RunState state;
    Checkpoints checkpoints(process.session, *process.variables, state);
    state.step = step;
    checkpoints.save(state, {{"test/loss", 0.5}});
    checkpoints.wait();
  }

  /// Reads a checkpoint on another mesh, where each process expects the values that were saved.
  void expect_readable(const Place& place, int64_t step) const {
    EXPECT_THAT(run(place.processes,
                    [&](const std::shared_ptr<ProcessGroup>& group) {
                      Process process(place, model_dir(), group);
                      CheckpointReader reader(path_of(step));
                      EXPECT_THAT(restore_variables(reader, *process.variables, Restore::kAll).kept,
                                  IsEmpty());
                      expect_saved_values(*process.variables);
                    }),
                Each(""));
  }

  static void expect_saved_values(const VariableStore& variables) {
    const std::shared_ptr<Backend> backend = testing::test_backend();
    VariableStore expected(*backend, Mesh(), variables_on(Mesh()));
    expected.initialize(kSeed);
    for (const std::string& name : expected.names())
      EXPECT_EQ(variables.get(name).bytes, expected.get(name).bytes) << name;
  }

  /// Expects that nothing is left of an unsuccessful save and its messages.
  void expect_nothing_saved() const {
    EXPECT_THAT(list_checkpoints(directory()), IsEmpty());
    if (std::filesystem::exists(directory())) {
      EXPECT_THAT(names_in(directory()), IsEmpty());
    }
  }

  static constexpr uint64_t kSeed = 17;
};

TEST_F(SharedCheckpoint, SavedByAnyProcessesIsReadByAnyOthers) {
  const std::vector<Place> places = {{"x:2;y:2", 4}, {"x:4", 4},     {"x:2;y:2", 2}, {"x:3;y:2", 2},
                                     {"x:3;y:2", 3}, {"y:2;x:3", 2}, {"x:4;y:2", 2}, {"", 1}};
  int64_t step = 0;
  for (const Place& place : places) {
    SCOPED_TRACE(fmt::format("{} on {}", place.mesh, place.processes));
    EXPECT_THAT(save(place, ++step), Each(""));
    CheckpointReader reader(path_of(step));
    reader.verify();
    EXPECT_EQ(reader.manifest().variables.size(), variables_on(Mesh()).size());
    EXPECT_EQ(reader.find("narrow")->dtype, DType::kFloat32);
    EXPECT_EQ(reader.manifest().metrics.at("test/loss"), 0.5);
    for (const Place& reading : std::vector<Place>{{"", 1}, {"x:8", 1}, {"x:2", 2}, {"y:3", 3}})
      expect_readable(reading, step);
  }
}

TEST_F(SharedCheckpoint, EachSliceIsWrittenOnceByTheFirstProcessThatHoldsIt) {
  const Place place{"x:2;y:2", 2};
  EXPECT_THAT(save(place, 1), Each(""));
  CheckpointReader reader(path_of(1));
  const auto files_of = [&](const char* name) {
    std::vector<std::string> files;
    for (const CheckpointBlock& block : reader.find(name)->blocks) files.push_back(block.file);
    return files;
  };
  const std::string first = "weights-00001-of-00002.safetensors",
                    second = "weights-00002-of-00002.safetensors";
  EXPECT_THAT(files_of("kernel"), ElementsAre(first, first, second, second));
  EXPECT_THAT(files_of("bias"), ElementsAre(first, first));
  EXPECT_THAT(files_of("mean"), ElementsAre(first));
  EXPECT_THAT(files_of("scale/m"),
              ElementsAre("optimizer-00001-of-00002.safetensors", "optimizer-00002-of-00002.safetensors"));
  EXPECT_THAT(names_in(path_of(1)),
              ElementsAre("averages-00001-of-00002.safetensors", "averages-00002-of-00002.safetensors",
                          "manifest.json", "optimizer-00001-of-00002.safetensors",
                          "optimizer-00002-of-00002.safetensors", first, second));
}

TEST_F(SharedCheckpoint, OneProcessWritesWholeTensors) {
  EXPECT_THAT(save({"x:2;y:2", 1}, 1), Each(""));
  EXPECT_THAT(names_in(path_of(1)), ElementsAre("averages.safetensors", "manifest.json",
                                                "optimizer.safetensors", "weights.safetensors"));
  const CheckpointReader reader(path_of(1));
  for (const CheckpointVariable& variable : reader.manifest().variables)
    EXPECT_EQ(variable.blocks.size(), 1u) << variable.name;
}

TEST_F(SharedCheckpoint, ReplicasThatEveryPositionHoldsAreWrittenOnce) {
  EXPECT_THAT(save({"x:2;y:2", 2}, 1, true), Each(""));
  expect_readable({"x:3", 1}, 1);
}

TEST_F(SharedCheckpoint, IsReplacedAndOldOnesAreRemoved) {
  EXPECT_THAT(run(2,
                  [&](const std::shared_ptr<ProcessGroup>& group) {
                    Process process({"x:2", 2}, model_dir(), group);
                    process.variables->initialize(kSeed);
                    process.session.config.checkpoint.keep_last = 2;
                    RunState state;
                    Checkpoints checkpoints(process.session, *process.variables, state);
                    for (const int64_t step : {1, 2, 2, 3}) {
                      state.step = step;
                      checkpoints.save(state, {});
                      checkpoints.check();
                    }
                    checkpoints.wait();
                    // The others see the directory as process 0 has left it.
                    EXPECT_THAT(names_in(directory()), ElementsAre("step-00000002", "step-00000003"));
                  }),
              Each(""));
}

TEST_F(SharedCheckpoint, ProcessesAgreeOnTheBestSoFar) {
  const auto run_with = [&](const std::function<void(Checkpoints&)>& action) {
    EXPECT_THAT(run(2,
                    [&](const std::shared_ptr<ProcessGroup>& group) {
                      Process process({"x:2", 2}, model_dir(), group);
                      process.variables->initialize(kSeed);
                      process.session.config.checkpoint.keep_best = KeepBestOptions{"test/loss", 1};
                      Checkpoints checkpoints(process.session, *process.variables, {});
                      action(checkpoints);
                    }),
                Each(""));
  };
  run_with([](Checkpoints& checkpoints) {
    RunState state;
    state.step = 1;
    checkpoints.save(state, {{"test/loss", 1.0 / 3}});
    checkpoints.wait();
  });
  run_with([](Checkpoints& checkpoints) {
    EXPECT_FALSE(checkpoints.is_best({{"test/loss", 0.34}}));
    EXPECT_FALSE(checkpoints.is_best({{"test/loss", 1.0 / 3}}));
    EXPECT_TRUE(checkpoints.is_best({{"test/loss", 0.33}}));
  });
}

TEST_F(SharedCheckpoint, FailsInAllProcessesWhenItFailsInOne) {
  const std::vector<std::pair<std::string, int>> faults = {
      {"checkpoint.begin=EACCES", EACCES},    {"checkpoint.create=ENOSPC", ENOSPC},
      {"checkpoint.create@2=ENOSPC", ENOSPC}, {"checkpoint.write=ENOSPC", ENOSPC},
      {"checkpoint.write@3=ENOSPC", ENOSPC},  {"checkpoint.written@3=EIO", EIO},
      {"checkpoint.file@2=ENOSPC", ENOSPC},   {"checkpoint.manifest=EIO", EIO},
      {"checkpoint.sync=EROFS", EROFS},       {"checkpoint.rename=EIO", EIO}};
  for (const auto& [fault, error] : faults) {
    SCOPED_TRACE(fault);
    const ScopedFault scoped(fault);
    EXPECT_THAT(save({"x:2;y:2", 2}, 1),
                Each(HasSubstr(fmt::format("cannot write {}: {}", path_of(1), system_message(error)))));
    expect_nothing_saved();
  }
}

TEST_F(SharedCheckpoint, FailsInAllProcessesWhenOneHasNoMemoryLeft) {
  const ScopedFault scoped("checkpoint.written@3=bad_alloc");
  EXPECT_THAT(save({"x:2;y:2", 2}, 1), Each(HasSubstr("mtf-train: there is not enough memory")));
  expect_nothing_saved();
}

TEST_F(SharedCheckpoint, NeedsADirectoryThatAllProcessesSee) {
  const auto check = [&](const std::function<std::string(int)>& model_dir_of) {
    return run(3, [&](const std::shared_ptr<ProcessGroup>& group) {
      Process process({"x:3", 3}, model_dir_of(group->rank()), group);
      check_model_dir_is_shared(process.session.config, *group);
    });
  };
  EXPECT_THAT(check([&](int) { return model_dir(); }), Each(""));
  EXPECT_THAT(names_in(model_dir()), IsEmpty());

  const std::string other = model_dir() + "/other";
  std::filesystem::create_directories(other);
  for (const std::string& elsewhere : {other, model_dir() + "/none"}) {
    EXPECT_THAT(check([&](int rank) { return rank == 1 ? elsewhere : model_dir(); }),
                Each(AllOf(HasSubstr("rank 1 ("), HasSubstr(" does not see " + model_dir() + " of rank 0"),
                           HasSubstr("on a disk that all processes share"))));
  }
  EXPECT_THAT(names_in(other), IsEmpty());
  EXPECT_THAT(names_in(model_dir()), ElementsAre("other"));
}

TEST_F(SharedCheckpoint, RunningMeansStartAtWeightsThatOtherProcessesHold) {
  for (const Place& place : std::vector<Place>{{"", 1}, {"x:2;y:2", 1}, {"x:2", 2}, {"x:2;y:2", 4}}) {
    EXPECT_THAT(
        run(place.processes,
            [&](const std::shared_ptr<ProcessGroup>& group) {
              Process process(place, model_dir(), group);
              process.variables->initialize(kSeed);
              EXPECT_NE(process.variables->get("kernel/ema").bytes, process.variables->get("kernel").bytes);
              start_averages(*process.variables);
              EXPECT_EQ(process.variables->get("kernel/ema").bytes, process.variables->get("kernel").bytes);
            }),
        Each(""));
  }
}

TEST_F(SharedCheckpoint, OnlyTheFirstProcessTellsOfTheRun) {
  Config config;
  config.run.model_dir.text = model_dir();
  {
    RunLog log(config, {}, 1);
    ::testing::internal::CaptureStderr();
    log.info("a message");
    log.warning("a warning");
    log.step({{"step", 1}, {"loss", 0.5}});
    log.evaluation(1, {"test", {{"loss", 0.25}}, 10, {}, 1});
    log.progress({.step = 1});
    log.cut_back({});
    EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
  }
  EXPECT_THAT(names_in(model_dir()), ElementsAre("log.rank-1.txt"));
  EXPECT_THAT(contents_of(model_dir() + "/log.rank-1.txt"),
              AllOf(HasSubstr("info: a message"), HasSubstr("warning: a warning"),
                    HasSubstr("evaluation at step 1:  test  loss 0.2500")));
}

/// A fixture whose processes are children of the test; the one of rank `victim` is killed at a fault point of
/// its second save. The results are the exit codes by rank; -1: killed.
class KilledInASave : public SharedCheckpoint {
 protected:
  std::vector<int> run_and_kill(int size, int victim, const std::string& fault) const {
    std::vector<pid_t> children;
    int ports[2];
    EXPECT_EQ(::pipe(ports), 0);
    for (int rank = 0; rank < size; ++rank) {
      children.push_back(::fork());
      if (children.back() == 0) ::_exit(child(rank, size, ports[0], rank == victim ? fault : ""));
    }
    const TcpStoreServer server;
    const int port = server.port();
    for (int rank = 0; rank < size; ++rank) EXPECT_EQ(::write(ports[1], &port, sizeof port), sizeof port);
    std::vector<int> codes;
    for (const pid_t pid : children) {
      int status = 0;
      EXPECT_EQ(::waitpid(pid, &status, 0), pid);
      codes.push_back(WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
    ::close(ports[0]);
    ::close(ports[1]);
    return codes;
  }

  int child(int rank, int size, int pipe, const std::string& fault) const {
    int port = 0;
    if (::read(pipe, &port, sizeof port) != sizeof port) return 100;
    const std::shared_ptr<ProcessGroup> group = join(rank, size, port);
    try {
      Process process({fmt::format("x:{}", size), size}, model_dir(), group);
      process.variables->initialize(kSeed);
      save(process, 1);
      if (!fault.empty()) ::setenv("MTF_FAULT", fault.c_str(), 1);
      save(process, 2);
      group->leave();
      return 0;
    } catch (const Error& error) {
      return group->fail(error).exit_code();
    }
  }

  std::vector<int64_t> steps() const {
    std::vector<int64_t> steps;
    for (const SavedCheckpoint& saved : list_checkpoints(directory())) {
      CheckpointReader(saved.path).verify();
      steps.push_back(saved.step);
    }
    return steps;
  }
};

TEST_F(KilledInASave, LeavesTheCheckpointsBefore) {
  struct Case {
    int victim;
    const char* fault;
  };
  for (const auto& [victim, fault] : std::vector<Case>{{1, "checkpoint.create"},
                                                       {1, "checkpoint.write@2"},
                                                       {2, "checkpoint.written@2"},
                                                       {0, "checkpoint.begin"},
                                                       {0, "checkpoint.write@2"},
                                                       {0, "checkpoint.manifest"}}) {
    SCOPED_TRACE(fmt::format("rank {} at {}", victim, fault));
    const auto begin = std::chrono::steady_clock::now();
    std::vector<int> expected(3, 75);
    expected[static_cast<size_t>(victim)] = -1;
    EXPECT_EQ(run_and_kill(3, victim, fault), expected);
    // The others notice it at once; they do not wait for the timeout.
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(40));
    EXPECT_EQ(steps(), std::vector<int64_t>{1});
    remove_unfinished(directory());
    EXPECT_THAT(names_in(directory()), ElementsAre("step-00000001"));
  }
}

}  // namespace
}  // namespace mtf
