// Tests section `cluster`: its values, errors with their places, and the part of it that a run's config.yaml
// keeps.
#include "trainer/config/cluster_config.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "engine/comm/launch/launch.h"
#include "tests/support/failure.h"
#include "trainer/config/config.h"

namespace mtf {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ClusterConfigTest : public ::testing::Test {
 protected:
  ClusterConfigTest() {
    std::filesystem::create_directories(directory_);
    std::ofstream(file_) << "data: {train: {type: identity, size: 4}}\n"
                            "model: {type: regression, input: x, target: y, "
                            "layers: [{dense: {output: {io: 4}}}]}\n"
                            "optimizer: sgd\n"
                            "learning_rate: 0.1\n"
                            "train: {steps: 3}\n"
                            "mesh: {all: 4}\n";
  }
  ~ClusterConfigTest() override { std::filesystem::remove_all(directory_); }

  Config load(const std::string& cluster) const {
    Diagnostics diagnostics;
    const Config config = load_config({file_}, {"cluster=" + cluster}, diagnostics);
    diagnostics.throw_if_errors();
    return config;
  }
  std::string errors_of(const std::string& cluster) const {
    return failure([&] { load(cluster); }, ErrorKind::kConfig);
  }

  const std::filesystem::path directory_ =
      std::filesystem::temp_directory_path() / ("mtf_cluster_config_test_" + std::to_string(getpid()));
  const std::string file_ = directory_ / "test.yaml";
};

TEST_F(ClusterConfigTest, SaysWhichProcessThisIs) {
  const Launch launch =
      detect_launch(cluster_options(load("{address: 'node-a:29500', processes: 4, process: 2}")), {});
  EXPECT_EQ(launch.rank, 2);
  EXPECT_EQ(launch.size, 4);
  EXPECT_EQ(launch.host, "node-a");
  const Launch task = detect_launch(cluster_options(load("{jobs: {ps: ['p:1'], worker: ['a:2', "
                                                         "'b:2']}, job: worker, task: 1}")),
                                    {});
  EXPECT_EQ(task.rank, 1);
  EXPECT_EQ(task.host, "a");
  EXPECT_EQ(task.jobs.size(), 2u);
}

TEST_F(ClusterConfigTest, TimesAreDurations) {
  const ClusterOptions options = cluster_options(load("{connect_timeout: 90s, collective_timeout: 2min}"));
  EXPECT_EQ(options.connect_timeout, 90);
  EXPECT_EQ(options.collective_timeout, 120);
  EXPECT_EQ(ClusterOptions().connect_timeout, ClusterConfig().connect_timeout.seconds);
  EXPECT_EQ(ClusterOptions().collective_timeout, ClusterConfig().collective_timeout.seconds);
}

TEST_F(ClusterConfigTest, SaysWhoMayTakePart) {
  const ClusterOptions options = cluster_options(load("{secret_file: a-file, insecure: true}"));
  EXPECT_EQ(options.secret_file, "a-file");
  EXPECT_TRUE(options.insecure);
  EXPECT_EQ(cluster_options(load("{}")).secret_file, std::nullopt);
  EXPECT_THAT(insecure_warning({.secret = {}, .insecure = true}, "10.0.0.1:1"),
              HasSubstr("anybody who can reach 10.0.0.1:1 can join this run"));
  EXPECT_EQ(insecure_warning({.secret = Secret("0123456789abcdef"), .insecure = true}, "10.0.0.1:1"), "");
}

TEST_F(ClusterConfigTest, MistakesAreShownWhereTheyStand) {
  EXPECT_THAT(errors_of("{adress: 'a:1'}"), HasSubstr("did you mean `cluster.address`?"));
  EXPECT_THAT(errors_of("{launcher: slrum}"), HasSubstr("did you mean `slurm`?"));
  EXPECT_THAT(errors_of("{collectives: ncl}"), HasSubstr("did you mean `nccl`?"));
  EXPECT_THAT(errors_of("{processes: 0}"), HasSubstr("from 1 to 1000000"));
  EXPECT_THAT(errors_of("{process: -1}"), HasSubstr("cluster.process"));
  const std::string task = errors_of("{jobs: {worker: ['a:1', 'b']}, job: wroker}");
  EXPECT_THAT(task, HasSubstr("`cluster.jobs.worker.1`: `b` is no address"));
  EXPECT_THAT(task, HasSubstr("did you mean `worker`?"));
  EXPECT_THAT(task, HasSubstr("                               ^~~\n")) << "under the second address:\n"
                                                                       << task;
}

TEST_F(ClusterConfigTest, ConfigYamlDoesNotSayWhoTheProcessesWere) {
  const std::string text =
      resolved_yaml(load("{address: 'node-a:29500', processes: 4, process: 2, "
                         "launcher: none, collective_timeout: 20min, secret_file: a-file, insecure: true}"));
  EXPECT_THAT(text, HasSubstr("collective_timeout: 20min"));
  EXPECT_THAT(text, Not(HasSubstr("node-a")));
  EXPECT_THAT(text, Not(HasSubstr("a-file")));
  EXPECT_THAT(text, Not(HasSubstr("insecure: true")));
  std::ofstream(file_) << text;
  EXPECT_EQ(detect_launch(cluster_options(load("{}")), {}).size, 1);
}

}  // namespace
}  // namespace mtf
