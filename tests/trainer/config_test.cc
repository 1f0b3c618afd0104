#include "trainer/config/config.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "trainer/config/devices.h"
#include "trainer/programs/run.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// A fixture with a file for each test, in a directory that is removed after the test.
class ConfigTest : public ::testing::Test {
 protected:
  ConfigTest() { std::filesystem::create_directories(directory_); }
  ~ConfigTest() override { std::filesystem::remove_all(directory_); }

  std::string write(const std::string& text, const std::string& name = "test.yaml") const {
    const std::string path = directory_ / name;
    std::ofstream(path) << text;
    return path;
  }

  Config load(const std::string& text, const std::vector<std::string>& arguments = {}) const {
    Diagnostics diagnostics;
    const Config config = load_config({write(text)}, arguments, diagnostics);
    diagnostics.throw_if_errors();
    return config;
  }

  std::string errors_of(const std::string& text, const std::vector<std::string>& arguments = {}) const {
    try {
      load(text, arguments);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return error.what();
    }
    return {};
  }

  const std::filesystem::path directory_ =
      std::filesystem::temp_directory_path() / ("mtf_config_test_" + std::to_string(getpid()));
};

constexpr const char* kToy = R"(
data: {train: {type: identity, size: 4}}
model: {type: regression, input: x, target: y, layers: [{dense: {output: {io: 4}}}]}
optimizer: sgd
learning_rate: 0.1
train: {steps: 3}
)";

TEST_F(ConfigTest, EvaluatedImagesAreMadeAsThoseOfTraining) {
  const std::string text = R"(
data: {train: {type: images, path: train, size: [32, 48], channels: 1, resize: stretch}}
model: {type: classifier, layers: [{dense: {output: {classes: 4}}}]}
optimizer: sgd
learning_rate: 0.1
train: {steps: 3}
evaluate:
  every: 1
  datasets:
    dev: {type: images, path: dev}
    cut: {type: images, path: dev, resize: crop}
)";
  const std::string yaml = resolved_yaml(load(text, {"infer.input={type: images, path: new}"}));
  const auto count = [&](const std::string& part) {
    int64_t found = 0;
    for (size_t at = yaml.find(part); at != std::string::npos; at = yaml.find(part, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("resize: stretch"), 3) << yaml;
  EXPECT_EQ(count("resize: crop"), 1) << yaml;
  EXPECT_EQ(count("channels: 1"), 4) << yaml;
  EXPECT_THAT(
      errors_of(std::string(kToy) + "evaluate: {every: 1, datasets: {dev: {type: images, path: dev}}}"),
      HasSubstr("`evaluate.datasets.dev.size` is missing"));
}

TEST_F(ConfigTest, FilesOfDecodingAreFoundFromAnywhere) {
  const Config config = load(std::string(kToy) + "infer: {input: ~/in.txt, prefix: begin.txt}\n" +
                             "score: {inputs: a.txt, targets: /b.txt}\n");
  EXPECT_EQ(config.infer.input.text, config::expand_home("~/in.txt"));
  const Config whole = resolved(config);
  EXPECT_EQ(whole.infer.prefix, std::filesystem::absolute("begin.txt"));
  EXPECT_EQ(whole.score.inputs, std::filesystem::absolute("a.txt"));
  EXPECT_EQ(whole.score.targets, "/b.txt");
  EXPECT_EQ(whole.infer.output, "-");
  EXPECT_EQ(whole.score.output, "-");
}

TEST_F(ConfigTest, EvaluationsDecodeAsInferSays) {
  const std::string infer =
      "infer: {method: beam, beam_size: 2, length_penalty: 1, max_length: 9, min_length: 3, force_end: true, "
      "no_repeat_ngram_size: 4, repetition_penalty: 1.5, suppress_tokens: [<unk>], stop_tokens: [x], stop: "
      "[a, b], batch_size: "
      "5}\n";
  const DecodeOptions all = load(kToy + infer).evaluate.infer;
  EXPECT_TRUE(std::holds_alternative<GreedyMethod>(all.method));
  EXPECT_EQ(all.beam_size, 2);
  EXPECT_EQ(all.penalty_of_length(), (LengthPenalty{.alpha = 1, .plus = 5}));
  EXPECT_EQ(std::get<int64_t>(all.max_length), 9);
  EXPECT_EQ(all.min_length, 3);
  EXPECT_TRUE(all.force_end);
  EXPECT_EQ(all.no_repeat_ngram_size, 4);
  EXPECT_EQ(all.repetition_penalty, 1.5);
  EXPECT_THAT(all.suppress_tokens, ElementsAre(config::Name("<unk>")));
  EXPECT_THAT(all.stop_tokens, ElementsAre(config::Name("x")));
  EXPECT_THAT(all.stop, ElementsAre("a", "b"));
  EXPECT_EQ(all.batch_size, 5);
  const DecodeOptions own =
      load(kToy + infer + "evaluate: {infer: {stop: [], min_length: 0, length_penalty: {alpha: 2}}}\n")
          .evaluate.infer;
  EXPECT_TRUE(own.stop.empty());
  EXPECT_EQ(own.penalty_of_length(), (LengthPenalty{.alpha = 2, .plus = 0}));
  EXPECT_EQ(own.repetition_penalty, 1.5);
  EXPECT_EQ(own.min_length, 0);
  EXPECT_EQ(own.no_repeat_ngram_size, 4);
}

TEST_F(ConfigTest, DecodingTakesSourcesInPlaceOfFiles) {
  const Config config = load(std::string(kToy) + "infer: {input: {type: tsv, path: a.tsv}}\n" +
                             "score: {data: {type: text, path: b.txt}}\n");
  ASSERT_TRUE(config.infer.input.choice);
  EXPECT_EQ(config.infer.input.choice->type(), "tsv");
  const std::string yaml = resolved_yaml(config);
  for (const char* path : {"a.tsv", "b.txt"})
    EXPECT_THAT(yaml, HasSubstr(std::filesystem::absolute(path).string()));
  Diagnostics diagnostics;
  const Config again = load_resolved(yaml, "config.yaml", diagnostics);
  EXPECT_FALSE(diagnostics.has_errors());
  EXPECT_EQ(again.infer.input.choice->type(), "tsv");
  EXPECT_EQ(again.score.data->type(), "text");
  // The word of a type is a file all the same.
  EXPECT_EQ(load(std::string(kToy) + "infer: {input: text}\n").infer.input.text, "text");
  EXPECT_THAT(errors_of(std::string(kToy) + "infer: {input: {path: a.tsv}}\n"), HasSubstr("needs a `type`"));
}

TEST_F(ConfigTest, DefaultsAreThoseOfTheSchema) {
  const Config config = load(kToy);
  EXPECT_EQ(config.run.mode, RunMode::kTrain);
  EXPECT_EQ(config.run.model_dir.text, "runs/test");
  EXPECT_EQ(config.run.seed, 1);
  EXPECT_EQ(train_batch_size(config, make_layouts(config)), 64);
  EXPECT_EQ(evaluate_batch_size(config, make_layouts(config)), 64);
  EXPECT_EQ(make_layouts(config).mesh.size(), 1);
}

TEST_F(ConfigTest, TheEndOfTrainingMustBeSaid) {
  EXPECT_THAT(errors_of(kToy, {"train.steps=null"}), HasSubstr("nothing says when training ends"));
  EXPECT_EQ(errors_of(kToy, {"train.steps=null", "train.time=10s"}), "");
  EXPECT_EQ(errors_of(kToy, {"train.steps=null", "run.mode=explain"}), "");
}

TEST_F(ConfigTest, OnlyAdafactorHasALearningRateOfItsOwn) {
  EXPECT_THAT(errors_of(kToy, {"learning_rate=null"}), HasSubstr("needs a `learning_rate`"));
  EXPECT_EQ(errors_of(kToy, {"learning_rate=null", "optimizer=adafactor"}), "");
}

TEST_F(ConfigTest, SchedulesOverARunOfUnknownLengthNeedTotalSteps) {
  const std::vector<std::string> by_time = {"train.steps=null", "train.time=10s",
                                            "learning_rate=linear_decay"};
  EXPECT_THAT(errors_of(kToy, by_time), HasSubstr("total_steps"));
  EXPECT_EQ(errors_of(kToy, {by_time[0], by_time[1], "learning_rate={type: linear_decay, total_steps: 10}"}),
            "");
}

TEST_F(ConfigTest, AutoMeansTheSameInBothNotations) {
  for (const char* mesh : {"mesh={auto: 6}", "mesh=auto:6", "mesh=\"auto: 6\""}) {
    const Config config = load(kToy, {mesh, "layout=auto"});
    EXPECT_TRUE(config.mesh->is_auto) << mesh;
    EXPECT_EQ(config.mesh->positions, 6) << mesh;
  }
  for (const char* mesh : {"mesh={auto: 3, r: 3}", "mesh=auto:3;r:3"})
    EXPECT_THAT(errors_of(kToy, {mesh, "layout=auto"}), HasSubstr("has names beside `auto`")) << mesh;
  for (const char* layout : {"layout={batch: x, auto: true}", "layout=batch:x;auto:true"}) {
    const Config config = load(kToy, {"mesh=x:6", layout});
    EXPECT_TRUE(config.layout.is_auto) << layout;
    EXPECT_EQ(config.layout.rules().size(), 1u) << layout;
  }
}

TEST_F(ConfigTest, MeshSizesAndDevicesMustAgree) {
  EXPECT_EQ(make_layouts(load(kToy, {"mesh=rows:2;cols:4"})).mesh.size(), 8);
  EXPECT_EQ(make_layouts(load(kToy, {"mesh=rows:auto;cols:4", "devices=cpu*8"})).mesh.size(0), 2);
  EXPECT_EQ(make_layouts(load(kToy, {"mesh=rows:auto;cols:4"})).mesh.size(0), 1);
  EXPECT_THAT(errors_of(kToy, {"mesh=rows:2;cols:4", "devices=cpu*4"}),
              HasSubstr("8 positions and `devices` has 4"));
  EXPECT_EQ(make_layouts(load(kToy, {"devices=cpu*1"})).mesh.size(), 1);
  EXPECT_THAT(
      errors_of(kToy, {"devices=cpu*3"}),
      HasSubstr("`devices` has 3 positions, and without `mesh` there is 1; for example `mesh: {all: 3}`"));
  EXPECT_THAT(errors_of(kToy, {"devices=[cpu, cpu]"}), HasSubstr("`devices` has 2 positions"));
  EXPECT_THAT(errors_of(kToy, {"devices=gpu"}), HasSubstr("`gpu` is not a device"));
  EXPECT_THAT(errors_of(kToy, {"devices=[cuda:0, cpu]"}), HasSubstr("mixes processors and GPUs"));
}

TEST_F(ConfigTest, TheInstructionSetIsOneOfTheMachine) {
  using enum InstructionSet;
  EXPECT_EQ(chosen_instruction_set(load(kToy), {kAvx2, kPortable}), kAvx2);
  EXPECT_EQ(chosen_instruction_set(load(kToy, {"run.instruction_set=portable"}), {kAvx2, kPortable}),
            kPortable);
  const Config config = load(kToy, {"run.instruction_set=avx512"});
  EXPECT_EQ(chosen_instruction_set(config, {kAvx512, kAvx2, kPortable}), kAvx512);
  const std::vector<InstructionSet> all{kAmx, kAvx512, kAvx2, kPortable};
  EXPECT_EQ(chosen_instruction_set(load(kToy), all), kAvx512);
  EXPECT_EQ(chosen_instruction_set(load(kToy, {"run.instruction_set=amx"}), all), kAmx);
  for (const char* in_bfloat16 :
       {"precision.matmul=bfloat16", "precision.infer=bfloat16", "run.mode=calibrate"}) {
    EXPECT_EQ(chosen_instruction_set(load(kToy, {in_bfloat16}), all), kAmx) << in_bfloat16;
    EXPECT_EQ(chosen_instruction_set(load(kToy, {in_bfloat16}), {kAvx512, kAvx2, kPortable}), kAvx512);
  }
  try {
    chosen_instruction_set(config, {kAvx2, kPortable});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    EXPECT_THAT(error.what(), HasSubstr("argument 2: `run.instruction_set: avx512`: this machine lacks it; "
                                        "`auto`, `avx2` or `portable`"));
  }
}

TEST_F(ConfigTest, BatchesPerReplicaFollowTheLayout) {
  const Config config =
      load(kToy, {"mesh=rows:2;cols:4", "layout=batch:rows", "train.batch_size={per_replica: 8}"});
  EXPECT_EQ(train_batch_size(config, make_layouts(config)), 16);
  EXPECT_THAT(errors_of(kToy, {"train.batch_size={tokens: 100}"}), HasSubstr("needs `data.sequence_length`"));
}

TEST_F(ConfigTest, BatchesInTokensAreWholeRows) {
  const std::vector<std::string> on_mesh = {"mesh=rows:2;cols:4", "layout=batch:rows",
                                            "data.sequence_length={inputs: 16, targets: 32}"};
  const auto rows = [&](const std::string& size) {
    std::vector<std::string> arguments = on_mesh;
    arguments.push_back("train.batch_size=" + size);
    const Config config = load(kToy, arguments);
    return train_batch_size(config, make_layouts(config));
  };
  EXPECT_EQ(rows("{tokens: 128}"), 4);
  EXPECT_EQ(rows("{tokens_per_replica: 128}"), 8);
  EXPECT_THAT(errors_of(kToy, {"train.batch_size={tokens: 100}", on_mesh[2]}),
              HasSubstr("it could be 96 or 128"));
  EXPECT_THAT(errors_of(kToy, {"train.batch_size={tokens: 9}", on_mesh[2]}), HasSubstr("it could be 32"));
  EXPECT_THAT(errors_of(kToy, {"train.batch_size={tokens: 64, per_replica: 2}"}), HasSubstr("per_replica"));
}

TEST_F(ConfigTest, MicrobatchesDivideTheBatch) {
  EXPECT_THAT(errors_of(kToy, {"train.microbatches=3"}), HasSubstr("does not divide"));
}

TEST_F(ConfigTest, MistakesAreReportedTogetherWithPlaceAndNearestKey) {
  const std::string errors =
      errors_of(std::string(kToy) + "evaluate: {evry: 5}\nrun: {seed: -1, mode: trian}\n",
                {"train.trainable=[\"(\"]", "optimizer.momentum=1"});
  EXPECT_THAT(errors, HasSubstr("test.yaml:7:12: "));
  EXPECT_THAT(errors, HasSubstr("did you mean `evaluate.every`?"));
  EXPECT_THAT(errors, HasSubstr("run.seed"));
  EXPECT_THAT(errors, HasSubstr("`train`"));
  EXPECT_THAT(errors, HasSubstr("momentum"));
  EXPECT_THAT(errors_of(kToy, {"train.trainable=[\"(\"]"}), HasSubstr("is not a regular expression"));
}

TEST_F(ConfigTest, TraceNeedsItsFiles) {
  const std::string errors = errors_of(kToy, {"run.mode=trace"});
  EXPECT_THAT(errors, HasSubstr("trace.input"));
  EXPECT_THAT(errors, HasSubstr("trace.output"));
}

TEST_F(ConfigTest, TheResolvedConfigurationGivesTheSameRun) {
  const Config config = load(std::string("vars: {width: 4}\n") + kToy,
                             {"mesh=rows:auto;cols:2", "devices=cpu*4", "train.batch_size={per_replica: 8}",
                              "layout=batch:rows", "evaluate.every=1epoch", "learning_rate=[0.5, noam]"});
  const std::string text = resolved_yaml(config);
  EXPECT_THAT(text, ::testing::Not(HasSubstr("model_dir")));
  Diagnostics diagnostics;
  const Config again = load_config({write(text, "config.yaml")}, {}, diagnostics);
  diagnostics.throw_if_errors();
  EXPECT_EQ(again.run.model_dir.text, directory_.string()) << "the directory of config.yaml is meant";
  EXPECT_EQ(train_batch_size(again, make_layouts(again)), 16);
  EXPECT_EQ(resolved_yaml(again), text);
}

TEST_F(ConfigTest, ARunIsNotOverwrittenByAnother) {
  const std::vector<std::string> words = {write(kToy), "run.model_dir=" + (directory_ / "run").string()};
  EXPECT_EQ(run_main(words), 0);
  EXPECT_TRUE(std::filesystem::exists(directory_ / "run" / "metrics.jsonl"));
  EXPECT_EQ(run_main({words[0], words[1], "run.on_existing=fail"}), 2);
  EXPECT_EQ(run_main({words[0], words[1], "run.seed=7"}), 2);
  EXPECT_EQ(run_main(words), 0) << "nothing is left to do";
  EXPECT_EQ(run_main({(directory_ / "run" / "config.yaml").string()}), 0) << "the same run";
  EXPECT_EQ(run_main({(directory_ / "run" / "config.yaml").string(),
                      "run.model_dir=" + (directory_ / "new").string()}),
            0);
}

TEST(CommandLine, FilesThenArguments) {
  const CommandLine line = parse_command_line({"a.yaml", "b.yaml", "train.steps=1", "vars.x=2"});
  EXPECT_THAT(line.files, ::testing::ElementsAre("a.yaml", "b.yaml"));
  EXPECT_THAT(line.arguments, ::testing::ElementsAre("train.steps=1", "vars.x=2"));
  EXPECT_EQ(parse_command_line({"--help-config", "train"}).section, "train");
  EXPECT_EQ(parse_command_line({"--help-config=train"}).section, "train");
  EXPECT_EQ(parse_command_line({"--list-layers=dense"}).layer, "dense");
  EXPECT_THROW(parse_command_line({"--halp"}), Error);
  EXPECT_THROW(parse_command_line({"train.steps=1", "a.yaml"}), Error);
  EXPECT_THROW(parse_command_line({"a.yaml", ""}), Error);
  EXPECT_EQ(run_main({}), 2);
  EXPECT_EQ(run_main({"no_such_file.yaml"}), 2);
}

TEST(CommandLine, AnArgumentMayBeLongerThanAnyPath) {
  const std::string argument = "model.block=[" + std::string(5000, 'x') + "]";
  EXPECT_EQ(parse_command_line({"a.yaml", argument}).arguments, std::vector<std::string>{argument});
}

TEST(CommandLine, AnOptionThatPrintsAListStandsAlone) {
  EXPECT_EQ(parse_command_line({"--list-layers", "dense"}).layer, "dense");
  EXPECT_TRUE(parse_command_line({"--list-devices"}).list_devices);
  const auto refusal = [](const std::vector<std::string>& words) -> std::string {
    try {
      parse_command_line(words);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(refusal({"--list-layers", "dense", "dropout"}),
            "`dropout` stands beside `--list-layers dense`; `mtf-train --list-layers dense` alone");
  EXPECT_EQ(refusal({"--help-config", "train", "x=1"}),
            "`x=1` stands beside `--help-config train`; `mtf-train --help-config train` alone");
  EXPECT_EQ(refusal({"a.yaml", "--list-devices"}),
            "`a.yaml` stands beside `--list-devices`; `mtf-train --list-devices` alone");
  EXPECT_EQ(refusal({"--help-config=train", "x=1"}), refusal({"--help-config", "train", "x=1"}));
  EXPECT_EQ(refusal({"--version=1"}), "unknown option `--version=1`; write `--version` alone");
  EXPECT_EQ(refusal({"--train.steps=1"}),
            "unknown option `--train.steps=1`; keys have no dashes in front: `train.steps=1`");
  EXPECT_EQ(refusal({""}),
            "word 1 of the command line is empty; a file or key=value; a variable of the shell may be "
            "empty");
}

}  // namespace
}  // namespace mtf
