// Trains what the examples of this folder add, named in configurations. Every mesh must give the losses, the
// norms of gradients and the reports of one position.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "data/vocabulary/vocabulary_options.h"
#include "engine/config/load.h"
#include "tests/support/parse_optimizer.h"
#include "trainer/programs/run.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

class Examples : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::string write(const std::string& name, const std::string& text) {
    const std::string path = directory_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  /// The lines of metrics.jsonl, and those of evaluate.jsonl, of a run on a mesh.
  std::vector<nlohmann::json> train(const std::string& config, const std::string& mesh,
                                    const std::string& layout) {
    const std::string run = fmt::format("{}/run{}", directory_, runs_++);
    std::vector<std::string> words = {config, "run.model_dir=" + run, "run.check_replicas=true",
                                      "data.cache=" + directory_ + "/cache"};
    if (!mesh.empty()) words.insert(words.end(), {"mesh=" + mesh, "layout=" + layout});
    EXPECT_EQ(mtf::run(parse_command_line(words)), 0) << mesh << " " << layout;
    std::vector<nlohmann::json> lines;
    for (const char* file : {"/metrics.jsonl", "/evaluate.jsonl"}) {
      std::ifstream stream(run + file);
      for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
    }
    return lines;
  }

  /// Trains on one position and on each mesh, and returns the lines of one position.
  std::vector<nlohmann::json> train_everywhere(
      const std::string& config, const std::vector<std::pair<std::string, std::string>>& layouts) {
    std::vector<nlohmann::json> one = train(config, "", "");
    EXPECT_GT(one.size(), 2u);
    for (const auto& [mesh, layout] : layouts) {
      const std::vector<nlohmann::json> lines = train(config, mesh, layout);
      EXPECT_EQ(lines.size(), one.size());
      for (size_t i = 0; i < std::min(lines.size(), one.size()); ++i) {
        for (const auto& [key, value] : one[i].items()) {
          if (key != "grad_norm" && !key.starts_with("loss") && !key.starts_with("report")) continue;
          const auto expected = value.get<double>();
          EXPECT_NEAR(lines[i].at(key).get<double>(), expected, 2e-5 * std::max(1.0, std::abs(expected)))
              << key << " of line " << i << " on " << mesh << " " << layout;
        }
      }
    }
    return one;
  }

 private:
  const std::string directory_ = fmt::format("{}/examples.{}", ::testing::TempDir(), ::getpid());
  int runs_ = 0;
};

/// Lines of 8 numbers that follow a few waves, and their sum.
std::string table(int64_t lines) {
  std::string text;
  for (int64_t i = 0; i < lines; ++i) {
    double sum = 0;
    for (int64_t k = 0; k < 8; ++k) {
      const double number = std::sin(0.7 * static_cast<double>(i) + 1.3 * static_cast<double>(k * (i % 5)));
      sum += number;
      text += fmt::format("{:.4f},", number);
    }
    text += fmt::format("{:.4f}\n", sum);
  }
  return text;
}

TEST_F(Examples, TrainOnNumbers) {
  const std::string config = write("numbers.yaml", fmt::format(R"(
data: {{train: {{type: csv, path: {0}}}}}
model:
  type: autoencoder
  loss: pseudo_huber
  layers:
    - dense: {{output: {{hidden: 16}}, activation: tanh}}
    - gate: {{start: 2, penalty: 0.1}}
    - running_center: {{rate: 0.25}}
    - reverse: hidden
    - dense: {{output: {{inputs: 8}}}}
optimizer: {{type: signum, beta: 0.8, weight_decay: 0.01}}
learning_rate: 0.01
train: {{steps: 12, batch_size: 16, log_every: 2, loss_weights: {{gate: 0.5}}}}
evaluate: {{datasets: {{table: {{type: csv, path: {0}}}}}}}
)",
                                                               write("table.csv", table(64))));
  const std::vector<nlohmann::json> lines = train_everywhere(config, {{"a:2;b:1", "batch:a;hidden:b"},
                                                                      {"a:1;b:2", "batch:a;hidden:b"},
                                                                      {"a:2;b:2", "batch:a;hidden:b"},
                                                                      {"a:8", "batch:a"},
                                                                      {"a:8", "hidden:a"}});
  EXPECT_TRUE(lines[0].contains("loss/gate"));
  EXPECT_TRUE(lines[0].contains("report/open_gates"));
  EXPECT_LT(lines.back()["loss"].get<double>(), lines[0]["loss"].get<double>());
}

/// `count` images of 6 x 6 bytes and their labels, 0 to 3, as IDX files.
void write_images(const std::string& images, const std::string& labels, int64_t count) {
  std::ofstream image_file(images, std::ios::binary), label_file(labels, std::ios::binary);
  image_file << std::string{0, 0, 8, 3, 0, 0, 0, static_cast<char>(count), 0, 0, 0, 6, 0, 0, 0, 6};
  label_file << std::string{0, 0, 8, 1, 0, 0, 0, static_cast<char>(count)};
  for (int64_t i = 0; i < count; ++i) {
    label_file << static_cast<char>(i % 4);
    for (int64_t pixel = 0; pixel < 36; ++pixel)
      image_file << static_cast<char>(i * 31 + pixel * (i % 4 + 3));
  }
}

TEST_F(Examples, TrainOnImages) {
  const std::string images = write("images", ""), labels = write("labels", "");
  write_images(images, labels, 40);
  const std::string config = write("images.yaml", fmt::format(R"(
data:
  train: {{type: idx, images: {0}, labels: {1}}}
  augment: [{{posterize: {{levels: 4, probability: 0.7}}}}, {{crop: {{padding: 1}}}}, {{mixup: 0.4}}, {{normalize: {{mean: 0.5}}}}]
model: {{type: classifier, layers: [{{dense: {{output: {{hidden: 8}}, activation: tanh}}}}, {{dense: {{output: {{classes: 4}}}}}}]}}
optimizer: sgd
learning_rate: 0.1
train: {{steps: 6, batch_size: 8, log_every: 1}}
evaluate: {{datasets: {{all: {{type: idx, images: {0}, labels: {1}}}}}}}
)",
                                                              images, labels));
  train_everywhere(config, {{"a:2;b:1", "batch:a;rows:b"},
                            {"a:2;b:2", "batch:a;rows:b"},
                            {"a:2;b:2", "rows:a;cols:b"},
                            {"a:8", "batch:a"}});
}

TEST_F(Examples, TrainOnTexts) {
  std::string text;
  for (int i = 0; i < 60; ++i)
    text += fmt::format("the {} boat sails to isle {}.\n", i % 3 ? "red" : "blue", i % 7);
  const std::string config = write("texts.yaml", fmt::format(R"(
data:
  train: {{type: text, path: {}}}
  vocabulary: {{type: letters, letters: "abcdefghilnorstu "}}
  sequence_length: 32
model:
  type: lm
  d_model: 16
  num_layers: 1
  max_length: 32
  vocab_divisor: 8
  embedding: {{type: unit}}
  block: [SelfAttention: {{num_heads: 4, key_value_size: 4}}, DenseReluDense: {{hidden_size: 32}}]
optimizer: {{type: adam}}
learning_rate: 0.003
train: {{steps: 6, batch_size: 8, log_every: 1}}
)",
                                                             write("texts.txt", text)));
  const std::vector<nlohmann::json> lines =
      train_everywhere(config, {{"a:2;b:1", "batch:a;d_model:b"},
                                {"a:1;b:2", "batch:a;d_model:b"},
                                {"a:2;b:2", "batch:a;d_model:b"},
                                {"a:2;b:2", "batch:a;vocab:b;heads:b;d_ff:b"},
                                {"a:8", "batch:a"},
                                {"a:8", "d_model:a"}});
  EXPECT_LT(lines.back()["loss"].get<double>(), lines[0]["loss"].get<double>());
}

TEST_F(Examples, TellMistakesOfAFile) {
  const auto error_of = [&](const std::string& text) -> std::string {
    const std::string config = write(
        "bad.yaml",
        fmt::format("{{data: {{train: {{type: csv, path: {}}}}}, model: {{type: autoencoder, layers: [dense: "
                    "{{output: {{inputs: "
                    "2}}}}]}}, optimizer: sgd, learning_rate: 0.1, train: {{steps: 1, batch_size: 1}}}}",
                    write("bad.csv", text)));
    try {
      train(config, "", "");
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(error_of("1,2,3\n1,two,3\n"),
              HasSubstr("bad.csv:2: `two` is not a number; numbers between commas"));
  EXPECT_THAT(error_of("1,2,3\n1,2\n"), HasSubstr("bad.csv:2: 2 numbers; 3 numbers, as in the first line"));
  EXPECT_THAT(error_of("1\n"), HasSubstr("less targets"));
  EXPECT_THAT(error_of(""), HasSubstr("bad.csv: there are no lines"));
}

TEST(ExampleLetters, ComeBack) {
  Diagnostics diagnostics;
  const auto parse = [&](const std::string& yaml) {
    return config::parse<LanguageVocabulary>(config::parse_yaml(yaml, "a.yaml", diagnostics), diagnostics);
  };
  const auto vocabulary = read_vocabulary(parse("{type: letters, letters: abc}"));
  EXPECT_EQ(vocabulary->size(), 6);
  EXPECT_EQ(vocabulary->encode("cab!"), (std::vector<int32_t>{5, 3, 4, 2}));
  EXPECT_EQ(vocabulary->decode(vocabulary->encode("cab!")), "cab?");
  parse("{type: letters, letters: aba}");
  ASSERT_TRUE(diagnostics.has_errors());
  EXPECT_THAT(diagnostics.errors()[0].to_string(),
              HasSubstr("a letter stands in `letters` twice; each letter once"));
}

}  // namespace
}  // namespace mtf::testing
