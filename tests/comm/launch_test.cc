// Tests the detection of the launch from the variables of launchers and from section `cluster`.
#include "engine/comm/launch/launch.h"

#include <gmock/gmock.h>

#include "engine/comm/launch/slurm_nodes.h"
#include "tests/support/failure.h"

namespace mtf {
namespace {

using ::testing::HasSubstr;

Environment with(Environment environment, const Environment& more) {
  for (const auto& [name, value] : more) environment[name] = value;
  return environment;
}

Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

std::string wrong_environment(const Environment& environment, const ClusterOptions& options = {}) {
  return failure([&] { detect_launch(options, environment); }, ErrorKind::kUsage);
}

std::string wrong_cluster(const ClusterOptions& options, const Environment& environment = {}) {
  return failure([&] { detect_launch(options, environment); }, ErrorKind::kConfig);
}

const Environment kTorch{{"RANK", "2"},
                         {"WORLD_SIZE", "4"},
                         {"LOCAL_RANK", "0"},
                         {"LOCAL_WORLD_SIZE", "2"},
                         {"MASTER_ADDR", "10.0.0.1"},
                         {"MASTER_PORT", "29500"}};
const Environment kOpenMpi{{"OMPI_COMM_WORLD_RANK", "1"},
                           {"OMPI_COMM_WORLD_SIZE", "2"},
                           {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                           {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
                           {"PMIX_NAMESPACE", "895549441"}};
const Environment kSlurm{{"SLURM_PROCID", "5"},
                         {"SLURM_NTASKS", "6"},
                         {"SLURM_LOCALID", "1"},
                         {"SLURM_NODEID", "2"},
                         {"SLURM_JOB_ID", "123456"},
                         {"SLURM_STEP_ID", "3"},
                         {"SLURM_JOB_NODELIST", "n[07-09]"},
                         {"SLURM_STEP_TASKS_PER_NODE", "2(x3)"}};
const char* const kTfConfig =
    R"({"cluster": {"ps": ["p:1"], "worker": ["a:2", "b:2"], "chief": ["c:2"]}, "task": {"type": "worker", "index": 1}})";

TEST(Launch, WithoutVariablesThereIsOneProcess) {
  const Launch launch = detect_launch({}, {{"PATH", "/bin"}, {"RANK", ""}});
  EXPECT_EQ(launch.size, 1);
  EXPECT_EQ(launch.rank, 0);
  EXPECT_EQ(launch.source, "one process");
}

TEST(Launch, TheStoreOfMtfLaunchLetsInOnlyMembersAndThatOfTorchrunAnybody) {
  const auto launch = [](const Environment& more) {
    Environment environment = with(kTorch, {{"TORCHELASTIC_USE_AGENT_STORE", "True"}});
    environment.insert(more.begin(), more.end());
    return detect_launch({}, environment);
  };
  EXPECT_TRUE(launch({{"MTF_STORE", "10.0.0.1:29500"}}).store_authenticates);
  EXPECT_FALSE(launch({}).store_authenticates);
  EXPECT_FALSE(launch({{"MTF_STORE", "127.0.0.1:29500"}}).store_authenticates)
      << "torchrun within mtf-launch";
  EXPECT_TRUE(detect_launch({}, kTorch).store_authenticates) << "process 0 serves";
}

TEST(Launch, TorchrunSaysAll) {
  const Launch launch = detect_launch({}, with(kTorch, {{"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                        {"TORCHELASTIC_RUN_ID", "abc"},
                                                        {"TORCHELASTIC_RESTART_COUNT", "2"}}));
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.local_rank, 0);
  EXPECT_EQ(launch.local_size, 2);
  EXPECT_EQ(launch.host, "10.0.0.1");
  EXPECT_EQ(launch.port, 29500);
  EXPECT_TRUE(launch.store_is_served);
  EXPECT_EQ(launch.job, "abc.2");
  EXPECT_EQ(launch.restarts, 2);
  EXPECT_EQ(
      launch.source,
      "process 2 of 4 (torchrun: RANK, WORLD_SIZE); meets the others at 10.0.0.1:29500, which the launcher "
      "serves");
}

TEST(Launch, RestartsAreCountedWhateverDecidesWhichProcessThisIs) {
  EXPECT_EQ(detect_launch({}, {}).restarts, 0);
  EXPECT_EQ(detect_launch({}, {{"TORCHELASTIC_RESTART_COUNT", "3"}}).restarts, 3);
  EXPECT_EQ(detect_launch({}, with(kSlurm, {{"SLURM_RESTART_COUNT", "1"}})).restarts, 1);
  EXPECT_THAT(wrong_environment({{"TORCHELASTIC_RESTART_COUNT", "often"}}),
              HasSubstr("TORCHELASTIC_RESTART_COUNT"));
}

TEST(Launch, VariablesSetByHandAreServedByProcess0) {
  Environment environment{
      {"RANK", "1"}, {"WORLD_SIZE", "3"}, {"MASTER_ADDR", "::1"}, {"MASTER_PORT", "4000"}};
  const Launch launch = detect_launch({}, environment);
  EXPECT_FALSE(launch.store_is_served);
  EXPECT_EQ(launch.host, "::1");
  EXPECT_EQ(launch.local_rank, 1) << "all meet at the loopback address: they are on one machine";
  EXPECT_EQ(launch.local_size, 3);
  EXPECT_THAT(launch.source,
              HasSubstr("process 1 of 3 (environment: RANK, WORLD_SIZE); meets the others at [::1]:4000"));
  environment["MASTER_ADDR"] = "10.0.0.1";
  EXPECT_EQ(detect_launch({}, environment).local_size, 1);
}

TEST(Launch, AnIPv6AddressMayStandInBrackets) {
  for (const char* address : {"fd00::2", "[fd00::2]"}) {
    const Launch launch = detect_launch(
        {}, {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", address}, {"MASTER_PORT", "29500"}});
    EXPECT_EQ(launch.host, "fd00::2");
    EXPECT_EQ(launch.port, 29500);
  }
}

TEST(Launch, AHalfSetEnvironmentIsAMistakeThatNamesWhatIsMissing) {
  EXPECT_THAT(wrong_environment(without(kTorch, "RANK")), HasSubstr("WORLD_SIZE is set, and RANK is not"));
  EXPECT_THAT(wrong_environment(without(kTorch, "WORLD_SIZE")),
              HasSubstr("RANK is set, and WORLD_SIZE is not"));
  EXPECT_THAT(wrong_environment(without(kTorch, "MASTER_ADDR")), HasSubstr("MASTER_ADDR is not"));
  EXPECT_THAT(wrong_environment(without(kTorch, "MASTER_PORT")), HasSubstr("MASTER_PORT is not"));
  EXPECT_THAT(wrong_environment(without(kOpenMpi, "OMPI_COMM_WORLD_SIZE")),
              HasSubstr("OMPI_COMM_WORLD_SIZE is not"));
  EXPECT_THAT(wrong_environment(without(kOpenMpi, "OMPI_COMM_WORLD_RANK")),
              HasSubstr("OMPI_COMM_WORLD_RANK is not"));
  EXPECT_THAT(wrong_environment({{"PMI_RANK", "0"}}), HasSubstr("PMI_SIZE is not"));
  EXPECT_THAT(wrong_environment(without(kSlurm, "SLURM_NTASKS")), HasSubstr("SLURM_NTASKS is not"));
  EXPECT_THAT(wrong_environment(with(kOpenMpi, {{"MASTER_ADDR", "a"}})), HasSubstr("MASTER_PORT is not"));
}

TEST(Launch, ValuesAreNumbersInRange) {
  EXPECT_THAT(wrong_environment(with(kTorch, {{"RANK", "two"}})), HasSubstr("RANK is `two`"));
  EXPECT_THAT(wrong_environment(with(kTorch, {{"RANK", "-1"}})), HasSubstr("RANK is `-1`"));
  EXPECT_THAT(wrong_environment(with(kTorch, {{"RANK", "4"}})),
              HasSubstr("RANK is 4, and WORLD_SIZE is 4; ranks are 0 to 3"));
  EXPECT_THAT(wrong_environment(with(kTorch, {{"WORLD_SIZE", "0"}})), HasSubstr("WORLD_SIZE is 0"));
  EXPECT_THAT(wrong_environment(with(kTorch, {{"WORLD_SIZE", "99999999999999999999"}})),
              HasSubstr("WORLD_SIZE"));
  EXPECT_THAT(wrong_environment(with(kTorch, {{"MASTER_PORT", "70000"}})), HasSubstr("MASTER_PORT"));
  EXPECT_THAT(wrong_environment(with(kTorch, {{"LOCAL_RANK", "2"}})), HasSubstr("LOCAL_RANK"));
  EXPECT_THAT(wrong_environment(with(kSlurm, {{"SLURM_STEP_ID", "3."}})), HasSubstr("SLURM_STEP_ID is `3.`"));
  EXPECT_THAT(wrong_environment(with(kSlurm, {{"SLURM_JOB_ID", "4294967296"}})),
              HasSubstr("SLURM_JOB_ID is `4294967296`; a whole number from 0 to 4294967295"));
  EXPECT_EQ(detect_launch({}, with(kTorch, {{"SLURM_PROCID", "0"}, {"SLURM_STEP_ID", "x"}})).size, 4)
      << "Slurm's variables do not count";
}

TEST(Launch, OpenMpiOnOneMachineMeetsAtAPortOfItsJob) {
  const Launch launch = detect_launch({}, kOpenMpi);
  EXPECT_EQ(launch.rank, 1);
  EXPECT_EQ(launch.size, 2);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.host, "127.0.0.1");
  EXPECT_GE(launch.port, 20000);
  EXPECT_LT(launch.port, 32768);
  const Launch other = detect_launch({}, with(kOpenMpi, {{"PMIX_NAMESPACE", "895549442"}}));
  EXPECT_NE(other.port, launch.port);
  EXPECT_NE(other.job, launch.job);
}

TEST(Launch, OpenMpiOnSeveralMachinesNeedsAnAddress) {
  const Environment several = with(kOpenMpi, {{"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_THAT(wrong_environment(several), HasSubstr("do not say where the processes meet"));
  const Launch by_variables =
      detect_launch({}, with(several, {{"MASTER_ADDR", "node-a"}, {"MASTER_PORT", "1234"}}));
  EXPECT_EQ(by_variables.host, "node-a");
  EXPECT_EQ(by_variables.port, 1234);
  ClusterOptions options;
  options.address = "node-b:77";
  EXPECT_EQ(detect_launch(options, several).host, "node-b");
}

TEST(Launch, PmiIsThatOfMpich) {
  const Launch launch = detect_launch(
      {}, {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "3"}, {"MPI_LOCALNRANKS", "4"}});
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.local_size, 4);
  EXPECT_EQ(launch.host, "127.0.0.1");
}

TEST(Launch, PmiOfSlurmIsPlacedBySlurm) {
  const Launch launch = detect_launch({}, with(kSlurm, {{"PMI_RANK", "5"}, {"PMI_SIZE", "6"}}));
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 2);
  EXPECT_EQ(launch.host, "n07");
  const Launch of_mpich = detect_launch({}, with(kSlurm, {{"PMI_RANK", "2"}, {"PMI_SIZE", "24"}}));
  EXPECT_EQ(of_mpich.size, 24) << "Slurm has started what starts the processes of each machine";
  EXPECT_EQ(of_mpich.local_rank, 0);
}

TEST(Launch, SlurmMeetsAtTheFirstNode) {
  const Launch launch = detect_launch({}, kSlurm);
  EXPECT_EQ(launch.rank, 5);
  EXPECT_EQ(launch.size, 6);
  EXPECT_EQ(launch.local_rank, 1);
  EXPECT_EQ(launch.local_size, 2);
  EXPECT_EQ(launch.host, "n07");
  EXPECT_EQ(launch.port, 20000 + (123456 + 3) % 12000);
  EXPECT_EQ(launch.job, "123456.3");
  EXPECT_EQ(detect_launch({}, with(kSlurm, {{"SLURM_STEP_NUM_TASKS", "8"}})).size, 8) << "of the step";
  EXPECT_THAT(wrong_environment(with(kSlurm, {{"SLURM_JOB_NODELIST", "n[07"}})),
              HasSubstr("no list of nodes"));
}

TEST(Launch, AShellInASlurmJobIsOneProcess) {
  EXPECT_EQ(detect_launch({}, without(kSlurm, "SLURM_STEP_ID")).size, 1) << "a batch script";
  EXPECT_EQ(detect_launch({}, without(kSlurm, "SLURM_PROCID")).size, 1) << "a shell of salloc";
  EXPECT_EQ(detect_launch({}, with(kSlurm, {{"SLURM_STEP_ID", "4294967290"}})).size, 1)
      << "an interactive step";
}

TEST(Launch, NodesOfSlurmAreExpanded) {
  EXPECT_EQ(first_node("n[1-3,7]"), "n1");
  EXPECT_EQ(first_node("n[007,9]"), "n007");
  EXPECT_EQ(first_node("login,n[1-3]"), "login");
  EXPECT_EQ(first_node("rack[2-3]n[01-16]-ib,a"), "rack2n01-ib");
  for (const char* wrong : {"", ",", "n[", "n[a-b]", "n]", "n[1-3"}) EXPECT_FALSE(first_node(wrong)) << wrong;
  EXPECT_EQ(tasks_on_node("4(x2),1", 0), 4);
  EXPECT_EQ(tasks_on_node("4(x2),1", 1), 4);
  EXPECT_EQ(tasks_on_node("4(x2),1", 2), 1);
  EXPECT_FALSE(tasks_on_node("4(x2),1", 3));
  EXPECT_FALSE(tasks_on_node("4(x", 0));
}

TEST(Launch, KubernetesNumbersTheProcessesOfAnIndexedJob) {
  const Environment pod{{"JOB_COMPLETION_INDEX", "2"}};
  EXPECT_EQ(detect_launch({}, pod).size, 1) << "nothing says that the pods belong together";
  ClusterOptions options;
  options.processes = 3;
  options.address = "trainer-0.trainer:29500";
  const Launch launch = detect_launch(options, pod);
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.size, 3);
  EXPECT_EQ(launch.host, "trainer-0.trainer");
  const Environment complete = with(pod, {{"WORLD_SIZE", "4"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "5"}});
  EXPECT_EQ(detect_launch({}, complete).rank, 2);
  EXPECT_THAT(wrong_environment(without(complete, "MASTER_ADDR")), HasSubstr("MASTER_ADDR is not"));
  EXPECT_THAT(wrong_environment(with(pod, {{"MASTER_ADDR", "a"}})), HasSubstr("WORLD_SIZE is not"));
}

TEST(Launch, OfAnotherLauncherNothingIsLeft) {
  const Environment pod{{"JOB_COMPLETION_INDEX", "2"}, {"TF_CONFIG", kTfConfig}, {"PATH", "/bin"}};
  const Environment all = with(with(with(kSlurm, kOpenMpi), kTorch), pod);
  const Environment rest = without_launcher(all);
  EXPECT_EQ(rest.at("PATH"), "/bin");
  EXPECT_EQ(detect_launch({}, rest).source, "one process");
  EXPECT_EQ(detect_launch({}, with(rest, {{"TF_CONFIG", kTfConfig}})).size, 3);
}

TEST(Launch, TheFirstCompleteSetDecides) {
  const Environment all = with(with(kSlurm, kOpenMpi), kTorch);
  EXPECT_EQ(detect_launch({}, all).size, 4);
  EXPECT_EQ(detect_launch({}, with(kSlurm, kOpenMpi)).size, 2);
  ClusterOptions options;
  options.launcher = Launcher::kSlurm;
  EXPECT_EQ(detect_launch(options, without(without(all, "MASTER_ADDR"), "MASTER_PORT")).size, 6);
  options.launcher = Launcher::kNone;
  EXPECT_EQ(detect_launch(options, all).size, 1);
  options.launcher = Launcher::kPmi;
  EXPECT_THAT(wrong_cluster(options, all), HasSubstr("`cluster.launcher` is PMI"));
}

TEST(Launch, ARankBesideAnotherLauncherMustSayTheSame) {
  EXPECT_EQ(detect_launch({}, with(kOpenMpi, {{"WORLD_SIZE", "2"}})).size, 2);
  EXPECT_THAT(wrong_environment(with(kOpenMpi, {{"WORLD_SIZE", "3"}})),
              HasSubstr("WORLD_SIZE is `3`, and OpenMPI says 2"));
  EXPECT_THAT(wrong_environment(with(kOpenMpi, {{"RANK", "0"}})), HasSubstr("RANK is `0`"));
}

TEST(Launch, OneProcessIsOneWhateverALauncherSays) {
  ClusterOptions options;
  options.processes = 1;
  EXPECT_EQ(detect_launch(options, kTorch).size, 1);
  EXPECT_EQ(detect_launch(options, {{"RANK", "x"}}).source, "one process (`cluster.processes`)");
}

TEST(Launch, TheNumberOfProcessesMustBeTheLaunchers) {
  ClusterOptions options;
  options.processes = 3;
  EXPECT_THAT(wrong_cluster(options, kTorch), HasSubstr("`cluster.processes` is 3, and WORLD_SIZE says 4"));
  EXPECT_THAT(wrong_cluster(options), HasSubstr("nothing says which of 3 processes"));
  EXPECT_EQ(detect_launch(options, without(kTorch, "WORLD_SIZE")).size, 3);
}

TEST(Launch, TheSectionClusterSaysItByNumber) {
  ClusterOptions options;
  options.processes = 4;
  options.process = 3;
  options.address = "10.0.0.1:2000";
  const Launch launch = detect_launch(options, kOpenMpi);
  EXPECT_EQ(launch.rank, 3);
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.source, "process 3 of 4 (`cluster.process`); meets the others at 10.0.0.1:2000");
  options.process = 4;
  EXPECT_THAT(wrong_cluster(options), HasSubstr("0 to 3"));
  options.process = 0;
  options.address.reset();
  EXPECT_THAT(wrong_cluster(options), HasSubstr("`cluster.address` is missing"));
  options.processes.reset();
  EXPECT_THAT(wrong_cluster(options), HasSubstr("needs `cluster.processes`"));
  for (const char* wrong : {"", "a", "a:", ":1", "a:0", "a:65536", "a:1x", "::1:5", "a b:1", "http://a:1"}) {
    options = {};
    options.address = wrong;
    EXPECT_THAT(wrong_cluster(options), HasSubstr("is no address")) << wrong;
  }
}

TEST(Launch, TheSectionClusterSaysItByTask) {
  ClusterOptions options;
  options.jobs = {
      {"ps", {"a:1", "b:1"}}, {"extra", {"e:5"}}, {"worker", {"a:2", "b:2", "a:3"}}, {"chief", {"c:9"}}};
  EXPECT_THAT(wrong_cluster(options), HasSubstr("which of its tasks this process is; `cluster.job=ps"));
  const auto task = [&](const std::string& job, int64_t index) {
    options.job = job;
    options.task = index;
    return detect_launch(options, kTorch);
  };
  EXPECT_EQ(task("chief", 0).rank, 0);
  EXPECT_EQ(task("worker", 0).rank, 1);
  const Launch worker = task("worker", 2);
  EXPECT_EQ(worker.rank, 3);
  EXPECT_EQ(worker.size, 5);
  EXPECT_EQ(worker.local_rank, 1) << "behind worker 0 of host a";
  EXPECT_EQ(worker.local_size, 2) << "parameter servers do not compute";
  EXPECT_EQ(worker.host, "c");
  EXPECT_EQ(worker.port, 9);
  EXPECT_EQ(worker.role, "worker");
  EXPECT_EQ(task("extra", 0).rank, 4);
  const Launch server = task("ps", 1);
  EXPECT_FALSE(server.computes);
  EXPECT_EQ(server.rank, -1);
  EXPECT_EQ(server.size, 5);
  EXPECT_EQ(server.task, 1);
  EXPECT_EQ(server.jobs, options.jobs);
  EXPECT_EQ(server.source, "ps 1 (`cluster.jobs`), beside 5 that compute");
}

TEST(Launch, TasksMustExist) {
  ClusterOptions options;
  options.jobs = {{"worker", {"a:2", "b:2"}}};
  options.job = "wroker";
  EXPECT_THAT(wrong_cluster(options), HasSubstr("did you mean `worker`?"));
  options.job = "worker";
  options.task = 2;
  EXPECT_THAT(wrong_cluster(options), HasSubstr("0 to 1"));
  options.jobs[0].second[1] = "a:2";
  options.task = 0;
  EXPECT_THAT(wrong_cluster(options), HasSubstr("two tasks"));
  options.jobs = {{"ps", {"a:2"}}};
  options.job = "ps";
  EXPECT_THAT(wrong_cluster(options), HasSubstr("no task that computes"));
  options.jobs = {{"worker", {"a:2"}}};
  options.job = "worker";
  EXPECT_EQ(detect_launch(options, {}).size, 1);
}

TEST(Launch, TfConfigNamesTasks) {
  const Launch worker = detect_launch({}, {{"TF_CONFIG", kTfConfig}});
  EXPECT_EQ(worker.rank, 2);
  EXPECT_EQ(worker.size, 3);
  EXPECT_EQ(worker.host, "c");
  EXPECT_EQ(worker.jobs.front().first, "ps");
  const auto of_task = [](const std::string& task) {
    return detect_launch(
        {}, {{"TF_CONFIG", R"({"cluster": {"ps": ["p:1"], "worker": ["a:2"]}, "task": )" + task + "}"}});
  };
  EXPECT_EQ(of_task(R"({"type": "ps", "index": 0})").role, "ps");
  EXPECT_EQ(of_task(R"({"type": "worker", "index": "0"})").rank, 0) << "some write the number as text";
  const Launch evaluator = of_task(R"({"type": "evaluator", "index": 0})");
  EXPECT_EQ(evaluator.role, "evaluator");
  EXPECT_FALSE(evaluator.computes);
  EXPECT_FALSE(
      detect_launch({}, {{"TF_CONFIG",
                          R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "evaluator", "index": 0}})"}})
          .computes);
  for (const char* alone : {"{}", R"({"environment": "cloud"})", R"({"cluster": {}, "task": {}})"})
    EXPECT_EQ(detect_launch({}, {{"TF_CONFIG", alone}}).size, 1) << alone;
  EXPECT_EQ(detect_launch({}, {{"TF_CONFIG",
                                R"({"cluster": {"chief": ["a:1"]}, "task": {"type": "chief", "index": 0}})"}})
                .size,
            1);
}

TEST(Launch, ABrokenTfConfigIsAClearMistake) {
  for (const char* wrong :
       {"{", "[]", "3", R"({"cluster": {}})", R"({"task": {"type": "worker", "index": 0}})",
        R"({"cluster": [], "task": {"type": "worker", "index": 0}})",
        R"({"cluster": {"worker": "a:1"}, "task": {"type": "worker", "index": 0}})",
        R"({"cluster": {"worker": ["a"]}, "task": {"type": "worker", "index": 0}})",
        R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}})",
        R"({"cluster": {"worker": ["a:1"], "ps": ["a:1"]}, "task": {"type": "worker", "index": 0}})",
        R"({"cluster": {"worker": ["a:1"]}, "task": {}})",
        R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "other", "index": 0}})",
        R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker"}})",
        R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": -1}})"})
    EXPECT_THAT(wrong_environment({{"TF_CONFIG", wrong}}), HasSubstr("TF_CONFIG")) << wrong;
  EXPECT_THAT(wrong_environment({{"TF_CONFIG", R"({"cluster": })"}}),
              HasSubstr("no JSON from character 13 on"));
}

}  // namespace
}  // namespace mtf
