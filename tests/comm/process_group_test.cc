#include "engine/comm/process/process_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <thread>
#include <tuple>

#include "engine/comm/rendezvous/handshake.h"
#include "engine/comm/rendezvous/tcp_store.h"
#include "engine/comm/sockets/socket.h"
#include "tests/support/failure.h"
#include "tests/support/process_entries.h"

namespace mtf {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

constexpr Milliseconds kEnough(20'000);

/// How a process ended.
struct Ending {
  std::string text;  ///< empty: successfully
  int exit_code = 0;
};

std::vector<std::string> texts_of(const std::vector<Ending>& endings) {
  std::vector<std::string> texts;
  for (const Ending& ending : endings) texts.push_back(ending.text);
  return texts;
}

/// What a process of a run does; it returns or throws Error.
using Work = std::function<void(ProcessGroup&)>;

struct TestProcess {
  Launch launch;
  ProcessGroupOptions options;
  Work work;

  /// Runs the process as a program's main() does.
  Ending run() const {
    try {
      const std::unique_ptr<ProcessGroup> group = connect_processes(launch, options);
      try {
        work(*group);
        return {};
      } catch (const Error& error) {
        const Error printed = group->fail(error);
        return {printed.what(), printed.exit_code()};
      }
    } catch (const Error& error) {
      return {error.what(), error.exit_code()};
    }
  }
};

std::vector<Ending> run_all(const std::vector<TestProcess>& processes) {
  std::vector<Ending> endings(processes.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < processes.size(); ++i) {
    threads.emplace_back([&, i] { endings[i] = processes[i].run(); });
  }
  for (std::thread& thread : threads) thread.join();
  return endings;
}

int free_port() { return port_of(listen_at({"127.0.0.1"}, 0).sockets.front()); }

/// Returns the processes of a run, which all do the same work and meet at a port of their own.
std::vector<TestProcess> processes(int size, const Work& work) {
  const int port = free_port();
  std::vector<TestProcess> result(size);
  for (int rank = 0; rank < size; ++rank) {
    Launch& launch = result[rank].launch;
    launch.rank = rank;
    launch.size = size;
    launch.host = "127.0.0.1";
    launch.port = port;
    ProcessGroupOptions& options = result[rank].options;
    options.connect_timeout = options.collective_timeout = kEnough;
    options.build = "1.0 abc";
    result[rank].work = work;
  }
  return result;
}

/// Returns the same processes with a launcher that serves the store.
std::vector<TestProcess> served_by(const TcpStoreServer& server, std::vector<TestProcess> run) {
  for (TestProcess& process : run) {
    process.launch.port = server.port();
    process.launch.store_is_served = true;
  }
  return run;
}

void do_nothing(ProcessGroup& group) { group.leave(); }

std::string this_process(int rank) {
  Launch launch;
  launch.rank = rank;
  return process_name(launch);
}

TEST(ProcessGroup, TheProcessesOfARunMeetAgreeAndPart) {
  for (const int size : {1, 2, 4}) {
    std::atomic<int> order = 0;
    std::vector<std::string> collected;
    const auto endings = run_all(processes(size, [&](ProcessGroup& group) {
      EXPECT_EQ(group.size(), size);
      group.first_then_others("directory", [&] { EXPECT_EQ(order++ == 0, group.is_first()); });
      group.agree({{"mesh", "rows=2"}, {"seed", "7"}});
      EXPECT_EQ(group.communicator().process(), group.rank());
      EXPECT_EQ(group.communicator().processes(), size);
      const auto texts = group.collect("result", std::to_string(group.rank()));
      if (group.is_first())
        collected = texts;
      else
        EXPECT_THAT(texts, IsEmpty());
      group.leave();
    }));
    EXPECT_THAT(texts_of(endings), Each("")) << size;
    ASSERT_EQ(collected.size(), static_cast<size_t>(size));
    for (int rank = 0; rank < size; ++rank) EXPECT_EQ(collected[rank], std::to_string(rank));
  }
}

TEST(ProcessGroup, ALauncherMayServeTheStore) {
  const TcpStoreServer server;
  for (const char* job : {"run/0", "run/1"}) {  // two runs that use the same store, one after the other
    auto run = served_by(server, processes(3, [](ProcessGroup& group) {
                           group.agree({});
                           group.leave();
                         }));
    for (TestProcess& process : run) process.launch.job = job;
    EXPECT_THAT(texts_of(run_all(run)), Each(""));
  }
}

TEST(ProcessGroup, ARankThatTwoProcessesClaimEndsThemAll) {
  auto run = processes(3, do_nothing);
  run[2].launch.rank = 1;
  for (const Ending& ending : run_all(run)) {
    EXPECT_EQ(ending.text, "rank 1 is claimed by two processes: " + this_process(1) + " and " +
                               this_process(1) + "; a rank of its own for each process");
    EXPECT_EQ(ending.exit_code, 2);
  }
}

TEST(ProcessGroup, TwoProcessesOfRank0EndThemAll) {
  auto run = processes(3, do_nothing);
  run[2].launch.rank = 0;
  for (const Ending& ending : run_all(run)) {
    EXPECT_THAT(ending.text, StartsWith("rank 0 is claimed by two processes: "));
    EXPECT_EQ(ending.exit_code, 2);
  }
}

TEST(ProcessGroup, AnotherNumberOfProcessesEndsThemAll) {
  for (const int other : {2, 4}) {
    auto run = processes(3, do_nothing);
    run[1].launch.size = other;
    for (const Ending& ending : run_all(run)) {
      EXPECT_EQ(ending.text, this_process(1) + " was started as one of " + std::to_string(other) +
                                 " processes, but " + this_process(0) + " as one of 3");
      EXPECT_EQ(ending.exit_code, 2);
    }
  }
}

TEST(ProcessGroup, ARankThatDoesNotComeIsNamed) {
  for (const int missing : {0, 2}) {
    const TcpStoreServer server;
    auto run = served_by(server, processes(3, do_nothing));
    for (TestProcess& process : run) process.options.connect_timeout = Milliseconds(500);
    run.erase(run.begin() + missing);
    for (const Ending& ending : run_all(run)) {
      EXPECT_EQ(ending.text, "rank " + std::to_string(missing) +
                                 " of 3 has not come to 127.0.0.1:" + std::to_string(server.port()) +
                                 " within 0.5 s; are all processes started, with the same address?");
      EXPECT_EQ(ending.exit_code, 75);
    }
  }
}

TEST(ProcessGroup, AnotherBuildOfTheProgramEndsThemAll) {
  auto run = processes(3, do_nothing);
  run[2].options.build = "1.0 def";
  for (const Ending& ending : run_all(run)) {
    EXPECT_EQ(ending.text, this_process(2) + " runs another build of the program (1.0 def) than " +
                               this_process(0) + " (1.0 abc)");
    EXPECT_EQ(ending.exit_code, 2);
  }
}

TEST(ProcessGroup, AFieldThatDiffersIsNamedWithBothValues) {
  const auto endings = run_all(processes(3, [](ProcessGroup& group) {
    group.agree({{"seed", "7"}, {"mesh", group.rank() == 2 ? "rows=4" : "rows=2 cols=2"}});
    group.leave();
  }));
  for (const Ending& ending : endings) {
    EXPECT_EQ(ending.text,
              this_process(2) + " differs from " + this_process(0) +
                  " in mesh: rows=4 instead of rows=2 cols=2; the same program, configuration and files in "
                  "all processes");
    EXPECT_EQ(ending.exit_code, 2);
  }
}

TEST(Handshake, TheFirstDifferenceCounts) {
  ProcessHello first, other;
  other.rank = 1;
  const Fields fields = {{"seed", "7"}, {"mesh", "a=2"}};
  EXPECT_EQ(difference(first, fields, other, fields), "");
  EXPECT_THAT(difference(first, fields, other, {{"seed", "8"}, {"mesh", "a=4"}}),
              HasSubstr("in seed: 8 instead of 7"));
  EXPECT_THAT(difference(first, fields, other, {{"seed", "7"}}),
              HasSubstr("in mesh: nothing instead of a=2"));
  EXPECT_THAT(difference(first, {}, other, {{"seed", "7"}}), HasSubstr("in seed: 7 instead of nothing"));
  EXPECT_EQ(fields_from_text(to_text(fields)), fields);
}

std::vector<std::string> replaced(const std::vector<std::pair<std::string, std::string>>& addresses) {
  std::vector<ProcessHello> members(addresses.size());
  for (size_t i = 0; i < members.size(); ++i)
    std::tie(members[i].address, members[i].store_address) = addresses[i];
  replace_loopback_addresses(members);
  std::vector<std::string> result;
  for (const ProcessHello& member : members) result.push_back(member.address);
  return result;
}

TEST(Handshake, AnEarlierBuildIsNamedAsAnotherBuild) {
  const ProcessHello earlier = hello_from_text(
      R"({"protocol": 1, "rank": 1, "size": 2, "build": "0.9 abc", "host": "b", "process": 7, "address": "10.0.0.2"})");
  ProcessHello first;
  first.size = 2;
  first.build = "1.0 def";
  EXPECT_THAT(difference(first, earlier), HasSubstr("another build of the program (0.9 abc)"));
}

TEST(Handshake, AMachineWithALoopbackNameIsReachedWhereItsStoreIs) {
  // On the first machine /etc/hosts has "127.0.1.1 node-a"; the third process is on another machine.
  EXPECT_THAT(replaced({{"127.0.1.1", "127.0.1.1"}, {"127.0.1.1", "127.0.1.1"}, {"10.0.0.2", "10.0.0.1"}}),
              ElementsAre("10.0.0.1", "10.0.0.1", "10.0.0.2"));
  EXPECT_THAT(replaced({{"::1", "::1"}, {"fd00::2", "fd00::1"}}), ElementsAre("fd00::1", "fd00::2"));
  EXPECT_THAT(replaced({{"127.0.0.1", "127.0.0.1"}, {"127.0.0.1", "127.0.0.1"}}),
              ElementsAre("127.0.0.1", "127.0.0.1"))
      << "all on one machine";
  EXPECT_THAT(replaced({{"10.0.0.1", "10.0.0.1"}, {"10.0.0.2", "10.0.0.1"}}),
              ElementsAre("10.0.0.1", "10.0.0.2"));
}

TEST(ProcessGroup, AWrongConfigurationInOneProcessEndsTheOthersWithItsNameAndWords) {
  const Mark mark{.file = "run.yaml", .line = 3, .column = 7, .text = "steps: many"};
  const Error wrong(ErrorKind::kConfig, mark, "`train.steps` is no number", "such as 100");
  for (const int culprit : {0, 1}) {
    const auto endings = run_all(processes(3, [&](ProcessGroup& group) {
      if (group.rank() == culprit) throw wrong;
      group.agree({});
      group.leave();
    }));
    for (int rank = 0; rank < 3; ++rank) {
      const std::string before = rank == culprit ? "" : this_process(culprit) + ": ";
      EXPECT_EQ(endings[rank].text, before + wrong.what());
      EXPECT_EQ(endings[rank].exit_code, 2);
    }
  }
}

TEST(ProcessGroup, AProcessThatDoesNotTakePartTellsTheOthers) {
  const Error wrong(ErrorKind::kConfig, "run.yaml: there is no such file");
  for (const int culprit : {0, 1}) {
    const auto run = processes(3, do_nothing);
    std::vector<Ending> endings(3);
    std::vector<std::thread> others;
    for (int rank = 0; rank < 3; ++rank) {
      if (rank != culprit) others.emplace_back([&, rank] { endings[rank] = run[rank].run(); });
    }
    const auto absent = absent_process(run[culprit].launch, {}, "1.0 abc", kEnough);
    EXPECT_EQ(absent->size(), 1);
    EXPECT_STREQ(absent->fail(wrong).what(), wrong.what());
    for (std::thread& other : others) other.join();
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == culprit) continue;
      EXPECT_EQ(endings[rank].text, "rank " + std::to_string(culprit) + ": " + wrong.what());
      EXPECT_EQ(endings[rank].exit_code, 2);
    }
  }
}

TEST(ProcessGroup, AProcessThatDoesNotTakePartDisturbsNoOtherRun) {
  std::promise<void> told;
  auto run = processes(2, [&](ProcessGroup& group) {
    group.agree({});
    told.get_future().wait();
    group.leave();
  });
  run[1].work = [&](ProcessGroup& group) {
    group.agree({});
    absent_process(run[1].launch, {}, "1.0 abc", kEnough)
        ->fail(Error(ErrorKind::kConfig, "run.yaml: there is no such file"));
    told.set_value();
    group.leave();
  };
  EXPECT_THAT(texts_of(run_all(run)), Each(IsEmpty()));
}

TEST(ProcessGroup, WhatIsMadeOnceIsTheSameInAll) {
  for (const int size : {1, 3}) {
    std::atomic<int> made = 0;
    std::vector<std::string> texts(static_cast<size_t>(size));
    const auto endings = run_all(processes(size, [&](ProcessGroup& group) {
      for (const char* name : {"a", "b"}) {
        texts[static_cast<size_t>(group.rank())] += group.made_once(name, [&] {
          ++made;
          return std::string(name) + " by " + std::to_string(group.rank()) + ";";
        });
      }
      group.leave();
    }));
    EXPECT_THAT(texts_of(endings), Each("")) << size;
    EXPECT_EQ(made, 2);
    EXPECT_THAT(texts, Each(texts[0]));
    EXPECT_THAT(texts[0], StartsWith("a by "));
  }
}

TEST(ProcessGroup, WhatTheFirstOneThrowsEndsThemAll) {
  const auto endings = run_all(processes(3, [](ProcessGroup& group) {
    group.first_then_others("model directory", [&] {
      EXPECT_TRUE(group.is_first());
      throw Error(ErrorKind::kData, "words.txt: 3 bytes are missing");
    });
  }));
  EXPECT_EQ(endings[0].text, "words.txt: 3 bytes are missing");
  EXPECT_EQ(endings[0].exit_code, 1);
  for (int rank = 1; rank < 3; ++rank) {
    EXPECT_EQ(endings[rank].text, this_process(0) + " failed first: words.txt: 3 bytes are missing");
    EXPECT_EQ(endings[rank].exit_code, 75);
  }
}

TEST(ProcessGroup, AFailureAfterTheStartIsExplainedByTheOthers) {
  const auto endings = run_all(processes(3, [](ProcessGroup& group) {
    group.agree({});
    if (group.rank() == 2) throw Error(ErrorKind::kDiverged, "step 17: the loss is not finite");
    all_gather(group.communicator(), "bytes", "all_gather results");
  }));
  EXPECT_EQ(endings[2].text, "step 17: the loss is not finite");
  EXPECT_EQ(endings[2].exit_code, 3);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(endings[rank].text,
                AllOf(HasSubstr(this_process(2)), HasSubstr("step 17: the loss is not finite")));
    EXPECT_EQ(endings[rank].exit_code, 75);
  }
}

TEST(ProcessGroup, WhatAThreadHasToldIsTheErrorOfItsProcess) {
  const auto endings = run_all(processes(2, [](ProcessGroup& group) {
    group.agree({});
    if (group.is_first()) {
      // as in a thread that writes a checkpoint
      const auto writes = [&] {
        group.first_then_others("save", [] { throw Error(ErrorKind::kSystem, "the disk is full"); });
      };
      EXPECT_EQ(failure(writes, ErrorKind::kSystem), "the disk is full");
    }
    for (;;) all_gather(group.communicator(), "", "step");
  }));
  EXPECT_EQ(endings[0].text, "the disk is full");
  EXPECT_EQ(endings[0].exit_code, 1);
  EXPECT_EQ(endings[1].text, this_process(0) + " failed first: the disk is full");
  EXPECT_EQ(endings[1].exit_code, 75);
}

TEST(ProcessGroup, TheFailureThatOneAwaitsIsThatOfTheOther) {
  const auto endings = run_all(processes(2, [](ProcessGroup& group) {
    group.agree({});
    if (group.is_first()) group.await_failure(1);
    std::this_thread::sleep_for(Milliseconds(100));
    group.refuse(Error(ErrorKind::kSystem, "cannot write checkpoints/step-1"));
  }));
  EXPECT_EQ(endings[0].text, this_process(1) + " failed first: cannot write checkpoints/step-1");
  EXPECT_EQ(endings[1].text, "cannot write checkpoints/step-1");
}

TEST(ProcessGroup, AProcessThatDoesNotBeginToConnectIsNamed) {
  const TcpStoreServer server;
  TcpStore store({.host = "127.0.0.1", .port = server.port()});
  const auto run = served_by(server, processes(2, [](ProcessGroup& group) { group.agree({}); }));
  TestProcess first = run[0];
  first.options.collective_timeout = Milliseconds(500);
  // Rank 1 comes, agrees and is lost.
  store.set("hello/1", to_text(hello_of_this_process(run[1].launch, "1.0 abc", "127.0.0.1")));
  store.set("fields/1", to_text(Fields{}));
  const Ending ending = first.run();
  EXPECT_EQ(ending.text, this_process(1) + " has not begun to connect within 0.5 s");
  EXPECT_EQ(ending.exit_code, 75);
}

TEST(ProcessGroup, AFailureThatNobodyReportsBlamesNobody) {
  const TcpStoreServer server;
  TcpStore store({.host = "127.0.0.1", .port = server.port()});
  const auto endings =
      run_all(served_by(server, processes(3, [&store](ProcessGroup& group) {
                          store.set("failed", "1");
                          store.set("error/7", R"({"order": 1, "kind": 2, "text": "no data"})");
                          group.agree({});
                          store.set("failed", "7");
                          all_gather(group.communicator(), "", "step");
                          std::this_thread::sleep_for(Milliseconds(600));  // long enough for two checks
                          all_gather(group.communicator(), "", "step");
                          group.leave();
                        })));
  EXPECT_THAT(texts_of(endings), Each(""));
}

TEST(ProcessGroup, ProcessesWithAnotherSecretDoNotMeet) {
  auto run = processes(2, do_nothing);
  run[0].options.access.secret = Secret("the secret of this run");
  run[0].options.connect_timeout = Milliseconds(500);
  const auto endings = run_all(run);
  EXPECT_THAT(endings[0].text, AllOf(HasSubstr("rank 1 of 2 has not come to "),
                                     HasSubstr(" came with another secret: the same secret in all")));
  EXPECT_EQ(endings[0].exit_code, 75);
  EXPECT_THAT(endings[1].text, HasSubstr("has another secret than this process"));
  EXPECT_EQ(endings[1].exit_code, 2);
}

TEST(ProcessGroup, WhatIsNoHelloIsAnotherVersionOfTheProgram) {
  const TcpStoreServer server;
  TcpStore store({.host = "127.0.0.1", .port = server.port()});
  store.set("hello/1", "GET / HTTP/1.1");
  const Ending ending = served_by(server, processes(2, do_nothing))[0].run();
  EXPECT_THAT(ending.text, HasSubstr("it runs another version of the program"));
  EXPECT_EQ(ending.exit_code, 2);
}

TEST(ProcessGroup, AProcessThatDoesNotComeAlongIsNamed) {
  for (const bool in_agree : {true, false}) {
    auto run = processes(2, [&](ProcessGroup& group) {
      if (group.is_first()) {
        in_agree ? group.agree({}) : static_cast<void>(group.collect("scores", ""));
      } else {
        std::this_thread::sleep_for(Milliseconds(2000));
      }
    });
    for (TestProcess& process : run) process.options.collective_timeout = Milliseconds(500);
    const auto endings = run_all(run);
    EXPECT_THAT(endings[0].text, AllOf(StartsWith(this_process(1) + " has not "), HasSubstr("within 0.5 s")));
    EXPECT_EQ(endings[0].exit_code, 75);
  }
}

TEST(ProcessGroup, AnotherProgramAtThePortIsNamed) {
  auto run = processes(2, do_nothing);
  const Socket other =
      std::move(listen_at({"127.0.0.1"}, 0).sockets.front());  // accepts connections and is silent
  for (TestProcess& process : run) {
    process.launch.port = port_of(other);
    process.options.connect_timeout = Milliseconds(500);
  }
  const auto endings = run_all(run);
  EXPECT_EQ(endings[0].text, "rank 0 cannot serve the store at port " + std::to_string(port_of(other)) +
                                 ": Address already in use; another port, which is free");
  EXPECT_THAT(endings[1].text, HasSubstr("answers, but is not a rendezvous store"));
  for (const Ending& ending : endings) EXPECT_EQ(ending.exit_code, 1);
}

TEST(ProcessGroup, ARunKeepsAwayThoseThatAreNotOfIt) {
  auto run = processes(2, {});
  auto late = run[1];
  late.work = do_nothing;
  auto of_another = late;
  of_another.launch.job = "evening";
  auto first_of_another = of_another;
  first_of_another.launch.rank = 0;
  std::vector<Ending> refused;
  const Work work = [&](ProcessGroup& group) {
    group.agree({});
    if (group.is_first()) refused = run_all({late, of_another, first_of_another});
    group.collect("done", "");  // no process has heard of a failure
    group.leave();
  };
  for (TestProcess& process : run) process.work = work;
  EXPECT_THAT(texts_of(run_all(run)), Each(""));
  ASSERT_EQ(refused.size(), 3u);
  EXPECT_THAT(refused[0].text,
              HasSubstr("of a run of 2 processes that has already begun, and this is rank 1 of 2"));
  EXPECT_THAT(refused[1].text, HasSubstr("is the meeting place of another run (``, this one is `evening`)"));
  EXPECT_EQ(refused[2].text, refused[1].text);
  for (const Ending& ending : refused) EXPECT_EQ(ending.exit_code, 2);
}

TEST(ProcessGroup, WritesTheFlightRecordOnFailure) {
  const std::string path = ::testing::TempDir() + "flight-record-" + std::to_string(::getpid()) + ".json";
  auto run = processes(2, [](ProcessGroup& group) {
    group.agree({});
    all_gather(group.communicator(), "bytes", "all_gather results");
    throw Error(ErrorKind::kDiverged, "the loss is not finite");
  });
  run[1].options.flight_record = path;
  run_all(run);
  std::ifstream file(path);
  const nlohmann::json record = nlohmann::json::parse(file, nullptr, false);
  EXPECT_FALSE(record.is_discarded());
  EXPECT_THAT(record.dump(), HasSubstr("all_gather results"));
  std::filesystem::remove(path);
}

TEST(ProcessGroup, LeavesNoDescriptorOrThread) {
  const auto cycle = [] {
    const TcpStoreServer server;
    const auto endings = run_all(served_by(
        server, processes(2, [](ProcessGroup& group) {
          group.agree({{"seed", "7"}});
          EXPECT_EQ(all_gather(group.communicator(), std::to_string(group.rank()), "all_gather ranks").size(),
                    2u);
          group.leave();
        })));
    EXPECT_THAT(texts_of(endings), Each(""));
  };
  cycle();
  const int64_t descriptors = entries_of(kOpenDescriptors), threads = entries_of(kRunningThreads);
  for (int i = 0; i < 20; ++i) cycle();
  EXPECT_EQ(settled_entries(kOpenDescriptors, descriptors), descriptors);
  EXPECT_EQ(settled_entries(kRunningThreads, threads), threads);
}

}  // namespace
}  // namespace mtf
