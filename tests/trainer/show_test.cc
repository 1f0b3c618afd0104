// Tests contact sheets, and training on augmented images on several meshes.
#include "trainer/show/show.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "data/images/decode.h"
#include "data/images/encode.h"
#include "trainer/programs/run.h"
#include "trainer/session/evaluation_sets.h"
#include "trainer/show/contact_sheet.h"
#include "trainer/show/font.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

using ::testing::HasSubstr;

Image even_image(int64_t rows, int64_t cols, uint8_t color) {
  return {rows, cols, 3, std::vector<uint8_t>(static_cast<size_t>(rows * cols * 3), color)};
}

Image decoded(std::span<const std::byte> file) {
  const std::string path = "sheet.png";
  const ImageLimits limits;
  return decode_image({path, file, 3, limits});
}

TEST(Font, DrawsEachCharacterUnlikeTheOthers) {
  std::set<CharacterColumns> seen(kCharacters.begin(), kCharacters.end());
  EXPECT_EQ(seen.size(), kCharacters.size());
  Image image = even_image(9, 6, 255);
  draw_text(image, {1, 0}, "T", 1);
  std::string picture;
  for (int64_t r = 0; r < 9; ++r) {
    for (int64_t c = 0; c < 6; ++c) picture += image.row(r)[c * 3] < 128 ? '#' : '.';
    picture += '\n';
  }
  EXPECT_EQ(picture, "......\n#####.\n..#...\n..#...\n..#...\n..#...\n..#...\n..#...\n......\n");
}

TEST(ContactSheet, ComesBackFromItsFile) {
  std::vector<SheetTile> tiles;
  for (int i = 0; i < 7; ++i)
    tiles.push_back({even_image(10, 12, static_cast<uint8_t>(30 * i)),
                     {"class", fmt::format("a very long name of class {}", i)}});
  const Image sheet = contact_sheet(tiles);
  const Image back = decoded(encode_png(sheet));
  EXPECT_EQ(back.rows, sheet.rows);
  EXPECT_EQ(back.cols, sheet.cols);
  EXPECT_EQ(back.pixels, sheet.pixels);
  std::map<uint8_t, int64_t> pixels;
  for (size_t i = 0; i < sheet.pixels.size(); i += 3) ++pixels[sheet.pixels[i]];
  for (int i = 0; i < 7; ++i)
    EXPECT_GE(pixels[static_cast<uint8_t>(30 * i)], 10 * 8 * 12 * 8) << "tile " << i;
  EXPECT_GT(pixels[32], 1000) << "letters";
}

TEST(ContactSheet, DrawsLargeImagesAsTheyAre) {
  const Image sheet = contact_sheet({{even_image(200, 300, 7), {}}});
  EXPECT_LT(sheet.rows, 230);
  EXPECT_LT(sheet.cols, 330);
}

/// A fixture with 60 images of 8 x 8 pixels of 4 classes.
class AugmentedRun : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(directory_);
    std::ofstream images(directory_ + "/images", std::ios::binary),
        labels(directory_ + "/labels", std::ios::binary);
    images << std::string{0, 0, 8, 3, 0, 0, 0, 60, 0, 0, 0, 8, 0, 0, 0, 8};
    labels << std::string{0, 0, 8, 1, 0, 0, 0, 60};
    for (int i = 0; i < 60; ++i) {
      labels << static_cast<char>(i % 4);
      for (int pixel = 0; pixel < 64; ++pixel)
        images << static_cast<char>(i * 29 + pixel * (2 * (i % 4) + 1));
    }
    std::ofstream(directory_ + "/run.yaml") << fmt::format(R"(
data:
  train: {{type: idx, images: {0}/images, labels: {0}/labels}}
  augment:
    - flip
    - {{crop: {{padding: 2}}}}
    - {{rotate: 15}}
    - {{mixup: {{alpha: 0.5, probability: 0.5}}}}
    - cutmix
    - {{normalize: {{mean: 0.5, deviation: 0.25}}}}
model: {{type: classifier, layers: [{{dense: {{output: {{hidden: 8}}, activation: tanh}}}}, {{dense: {{output: {{classes: 4}}}}}}]}}
optimizer: sgd
learning_rate: 0.1
train: {{steps: 10, batch_size: 12, log_every: 1}}
evaluate: {{datasets: {{all: {{type: idx, images: {0}/images, labels: {0}/labels}}}}}}
)",
                                                           directory_);
  }
  void TearDown() override { fs::remove_all(directory_); }

  /// Losses of the logged steps, then those of the evaluation.
  std::vector<double> losses(std::vector<std::string> arguments, const std::string& name) {
    const std::string run = directory_ + "/" + name;
    arguments.insert(arguments.begin(), {directory_ + "/run.yaml", "run.model_dir=" + run});
    EXPECT_EQ(mtf::run(parse_command_line(arguments)), 0);
    std::vector<double> result;
    for (const char* file : {"/metrics.jsonl", "/evaluate.jsonl"}) {
      std::ifstream stream(run + file);
      for (std::string line; std::getline(stream, line);)
        result.push_back(nlohmann::json::parse(line)["loss"]);
    }
    return result;
  }

  Session session(std::vector<std::string> arguments = {}) {
    Diagnostics diagnostics;
    arguments.push_back("run.model_dir=" + directory_ + "/none");
    Session opened = open_session({directory_ + "/run.yaml"}, arguments, diagnostics);
    diagnostics.throw_if_errors();
    return opened;
  }

  std::string refusal(const std::vector<std::string>& arguments) {
    try {
      Session opened = session(arguments);
      Diagnostics diagnostics;
      show(opened, diagnostics);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }

  const std::string directory_ = fmt::format("{}augmented_run.{}", ::testing::TempDir(), ::getpid());
};

TEST_F(AugmentedRun, HasTheSameLossesOnEveryMesh) {
  const std::vector<double> one = losses({}, "one");
  ASSERT_EQ(one.size(), 11u);
  int i = 0;
  for (const auto& [mesh, layout] :
       std::vector<std::pair<std::string, std::string>>{{"a:4", "batch:a"},
                                                        {"a:2;b:2", "batch:a;rows:b"},
                                                        {"a:2;b:2", "rows:a;cols:b"},
                                                        {"a:4", "hidden:a"}}) {
    const std::vector<double> other =
        losses({"mesh=" + mesh, "layout=" + layout}, fmt::format("other{}", i++));
    ASSERT_EQ(other.size(), one.size());
    for (size_t step = 0; step < one.size(); ++step) EXPECT_NEAR(other[step], one[step], 1e-5) << layout;
  }
  const std::vector<double> threads = losses({"run.threads=1"}, "threads");
  EXPECT_EQ(threads, one);
}

TEST_F(AugmentedRun, GoesOnAsIfItHadNotStopped) {
  const std::vector<double> whole = losses({}, "whole");
  losses({"train.steps=7"}, "stopped");
  const std::vector<double> both = losses({}, "stopped");
  ASSERT_EQ(both.size(), 12u);  // with two evaluations
  EXPECT_EQ(std::vector(both.begin(), both.begin() + 10), std::vector(whole.begin(), whole.begin() + 10));
  EXPECT_EQ(both.back(), whole.back());
}

TEST_F(AugmentedRun, IsTrainedWithBothLabels) {
  // With weight 1 for the own label the loss is that of a run without mixing.
  const std::vector<double> plain = losses({"data.augment=[flip]"}, "plain");
  const std::vector<double> unmixed = losses({"data.augment=[flip, {mixup: {probability: 0}}]"}, "unmixed");
  const std::vector<double> mixed = losses({"data.augment=[flip, mixup]"}, "mixed");
  ASSERT_EQ(plain.size(), unmixed.size());
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(plain[i], unmixed[i], 1e-6);
  EXPECT_NE(plain, mixed);
}

TEST_F(AugmentedRun, IsShown) {
  const fs::path before = fs::current_path();
  fs::current_path(directory_);
  EXPECT_EQ(mtf::run(parse_command_line({"run.yaml", "run.mode=show", "data.show=20"})), 0);
  fs::current_path(before);
  EXPECT_FALSE(fs::exists(directory_ + "/runs"));
  std::ifstream stream(directory_ + "/show.png", std::ios::binary);
  const std::string file(std::istreambuf_iterator<char>(stream), {});
  const Image sheet = decoded(std::as_bytes(std::span(file)));
  EXPECT_EQ(sheet.channels, 3);
  std::set<uint8_t> colors(sheet.pixels.begin(), sheet.pixels.end());
  EXPECT_GT(colors.size(), 100u) << "the sheet is nearly blank";
}

TEST_F(AugmentedRun, SaysWhereThereAreNoImages) {
  EXPECT_THAT(
      refusal({"run.mode=show", "data.train={type: identity, size: 4}", "data.augment=[]"}),
      HasSubstr(
          "run.mode=show: there are no images to show; `data.image` is `image`, and the features are x"));
  EXPECT_THAT(refusal({"run.mode=show", "data.train={type: text, path: x}", "data.augment=[]",
                       "data.sequence_length=8", "data.vocabulary=bytes"}),
              HasSubstr("run.mode=show: there are no images to show, for data.train are texts"));
  EXPECT_THAT(refusal({"data.train={type: identity, size: 4}"}),
              HasSubstr("`data.augment`: the examples have no feature `image`"));
}

TEST_F(AugmentedRun, HasTheShapeOfItsCropWithoutAnyFile) {
  Session opened = session({"run.mode=explain", "data.train={type: cifar, path: nothing}",
                            "data.augment=[{random_resized_crop: 24}, {center_crop: 24}, mixup]"});
  ASSERT_TRUE(opened.train_data);
  EXPECT_EQ(opened.train_data->features()[0].shape.to_string(), "[rows=24, cols=24, channels=3]");
  EXPECT_EQ(opened.train_data->features().size(), 4u);
}

TEST_F(AugmentedRun, EvaluationNeedsTheSameSize) {
  Session opened = session({"data.augment=[{random_resized_crop: 6}]"});
  Diagnostics diagnostics;
  open_evaluation_sets(opened, diagnostics);
  ASSERT_TRUE(diagnostics.has_errors());
  EXPECT_THAT(diagnostics.errors()[0].to_string(),
              HasSubstr("`center_crop` and `resize` in `data.augment` apply to evaluation, too"));
  losses({"data.augment=[{random_resized_crop: 6}, {center_crop: 6}]"}, "cropped");
}

}  // namespace
}  // namespace mtf
