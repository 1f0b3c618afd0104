// Tests where weights have the names of classes, the means and the deviations of their training data: in data.json of their
// run, or in the file that mtf-convert makes of them.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "tests/checkpoint/testing.h"
#include "tests/support/failure.h"
#include "tests/support/toy_run.h"
#include "trainer/programs/convert/convert.h"
#include "trainer/session/model_dir.h"
#include "trainer/session/stored_model.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

/// A fixture of directories of runs, each with a checkpoint of step 10.
class PreparationOfWeights : public CheckpointTest {
 protected:
  PreparationOfWeights() {
    fs::create_directories(path("nothing/here"));
    std::ofstream(path("toy.yaml")) << testing::kToyRun;
  }

  std::string path(const std::string& name) const { return fs::path(directory()).parent_path() / name; }
  /// Makes a run whose training data have prepared `preparation`; returns the path of its checkpoint.
  std::string run(const std::string& name, const std::string& preparation) {
    const Config config = load({"run.model_dir=" + path(name)});
    fs::create_directories(path(name));
    write_config(config, 0, "");
    write_preparation(config, preparation);
    Manifest manifest = small_manifest(10);
    write_checkpoint(path(name + "/checkpoints"), manifest,
                     std::vector<CheckpointFile>{{"weights.safetensors", {whole_tensor(weight_)}}});
    return path(name + "/checkpoints/step-00000010");
  }
  Config load(const std::vector<std::string>& arguments) const {
    Diagnostics diagnostics;
    Config config = load_config({path("toy.yaml")}, arguments, diagnostics);
    diagnostics.throw_if_errors();
    return config;
  }
  /// That of a mode whose run.model_dir is `name`.
  std::string found(const std::string& name, const std::string& checkpoint,
                    const std::string& mode = "infer") const {
    return preparation_of_weights(load({"run.model_dir=" + path(name), "run.mode=" + mode,
                                        fmt::format("{}.checkpoint={}", mode, checkpoint)}));
  }

  const SourceVariable weight_ = random_variable("w", DType::kFloat32, Shape::parse("io:4"), random_);
};

TEST_F(PreparationOfWeights, IsThatOfTheRunThatOwnsThem) {
  const std::string a = run("a", "of a"), b = run("b", "of b"), none = run("none", "");
  for (const std::string mode : {"infer", "evaluate"}) {
    EXPECT_EQ(found("a", "latest", mode), "of a");
    EXPECT_EQ(found("a", "10", mode), "of a");
    EXPECT_EQ(found("a", path("b"), mode), "of b");
    EXPECT_EQ(found("a", b, mode), "of b");
    EXPECT_EQ(found("nothing", b + "/", mode), "of b");
    EXPECT_EQ(found("a", none, mode), "");
  }
  // A checkpoint that lies in no run has none.
  fs::copy(b, path("nothing/here/step-00000010"), fs::copy_options::recursive);
  EXPECT_EQ(found("a", path("nothing/here/step-00000010")), "");
  EXPECT_THAT(failure([&] { found("a", path("absent")); }, ErrorKind::kConfig), HasSubstr("there is no"));
}

TEST_F(PreparationOfWeights, IsOneOfSeveral) {
  run("a", "of a");
  run("b", "of b");
  run("c", "of a");
  EXPECT_EQ(found("a", fmt::format("[latest, 10, {}]", path("c"))), "of a");
  EXPECT_THAT(
      failure([&] { found("a", fmt::format("[latest, {}]", path("b")), "evaluate"); }, ErrorKind::kConfig),
      HasSubstr("the training data of these checkpoints have different classes"));
}

TEST_F(PreparationOfWeights, PathsMayLeadToOtherRuns) {
  const auto by_path = [&](const std::string& checkpoint) {
    return takes_weights_by_path(load({"run.mode=infer", "infer.checkpoint=" + checkpoint}));
  };
  EXPECT_TRUE(by_path("runs/a"));
  EXPECT_TRUE(by_path("[latest, runs/a]"));
  EXPECT_FALSE(by_path("[latest, 10]"));
  EXPECT_FALSE(by_path("best"));
  EXPECT_FALSE(by_path("{average: 2}"));
}

TEST_F(PreparationOfWeights, IsKeptByConversions) {
  run("a", "of a");
  const std::string file = path("a.safetensors");
  convert({.from = path("a"), .to = file});
  EXPECT_EQ(preparation_at(file), "of a");
  EXPECT_EQ(found("nothing", file), "of a");
  convert({.from = file, .to = path("again")});
  EXPECT_EQ(read_text(path("again/data.json")), "of a");
  EXPECT_EQ(found("nothing", path("again")), "of a");
  run("none", "");
  convert({.from = path("none"), .to = path("none.safetensors")});
  EXPECT_EQ(preparation_at(path("none.safetensors")), "");
  convert({.from = path("none.safetensors"), .to = path("none_again")});
  EXPECT_FALSE(fs::exists(path("none_again/data.json")));
}

}  // namespace
}  // namespace mtf
