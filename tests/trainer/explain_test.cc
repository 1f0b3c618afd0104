// Tests run.mode=explain: its numbers are those of a run, in the text and in the JSON document.
#include "trainer/explain/explain.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "data/loader.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/remote_traffic.h"
#include "trainer/explain/explanation_json.h"
#include "trainer/explain/explanation_text.h"
#include "trainer/session/feed.h"

namespace mtf::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

using Json = nlohmann::json;

/// toy.yaml with normalization, dropout, biases and activations between its hidden layers, and an evaluation.
const std::vector<std::string> kExplainedNetwork = {
    "model.layers=[{dense: {name: first, output: {hidden_odd: 32}, activation: relu, bias: true}},"
    " {layer_norm: {name: norm}}, {dropout: 0.2},"
    " {repeat: {name: block, times: 4, layers: [{dense: {name: even, output: {hidden_even: 24}, bias: true}},"
    " {dense: {name: odd, output: {hidden_odd: 32}}}]}},"
    " {dense: {name: last, output: {io: 16}}}]",
    "train.batch_size=48",
    "train.steps=3",
    "evaluate.datasets={dev: {type: identity, size: 16, examples: 100, dimension: io}}",
    "run.model_dir=never_written",
};

Session open(const std::vector<std::string>& arguments) {
  std::vector<std::string> all = kExplainedNetwork;
  all.insert(all.end(), arguments.begin(), arguments.end());
  Diagnostics diagnostics;
  Session session = open_session({MTF_SOURCE_DIR "/configs/models/toy.yaml"}, all, diagnostics);
  diagnostics.throw_if_errors();
  return session;
}

Explanation explanation_of(const std::vector<std::string>& arguments) {
  Diagnostics diagnostics;
  return make_explanation(open(arguments), diagnostics);
}

Json json_of(const Explanation& explanation) { return Json::parse(explain_json(explanation, true)); }

/// Returns the lines of `text` that begin with `words`, with several blanks replaced by one.
std::vector<std::string> lines_with(const std::string& text, const std::string& words) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) {
    std::istringstream parts(line);
    std::string single;
    for (std::string word; parts >> word;) single += (single.empty() ? "" : " ") + word;
    if (single.starts_with(words)) lines.push_back(single);
  }
  return lines;
}

struct Layout {
  std::string name;
  std::vector<std::string> arguments;
};
std::ostream& operator<<(std::ostream& out, const Layout& layout) { return out << layout.name; }

class EveryLayout : public ::testing::TestWithParam<Layout> {};

INSTANTIATE_TEST_SUITE_P(
    Explain, EveryLayout,
    ::testing::Values(
        Layout{"single", {}}, Layout{"data_parallel", {"mesh=all:4", "layout=batch:all"}},
        Layout{"model_parallel", {"mesh=all:4", "layout=hidden_odd:all"}},
        Layout{"two_by_two",
               {"mesh=rows:2;cols:2", "layout=batch:rows;hidden_odd:cols", "optimizer=adafactor"}},
        Layout{"fsdp",
               {"mesh=all:4", "layout=batch:all", "parameter_layout=hidden_odd:all", "optimizer=adam"}},
        Layout{"zero1",
               {"mesh=all:4", "layout=batch:all", "optimizer_layout=hidden_odd:all", "optimizer=adam"}},
        Layout{"microbatches",
               {"mesh=rows:2;cols:2", "layout=batch:rows;hidden_odd:cols", "train.microbatches=3",
                "train.recompute=dense"}},
        Layout{"fsdp_microbatches",
               {"mesh=all:4", "layout=batch:all", "parameter_layout=hidden_odd:all", "train.microbatches=2",
                "optimizer={type: adafactor, clip_norm: 0.5}"}},
        Layout{"repeated", {"mesh=rows:2;cols:3;idle:2", "layout=batch:rows", "optimizer=adafactor"}}),
    [](const auto& info) { return info.param.name; });

TEST_P(EveryLayout, WorkTrafficAndMemoryAreThoseOfARun) {
  const Session session = open([&] {
    std::vector<std::string> arguments = GetParam().arguments;
    arguments.emplace_back("learning_rate=0.01");
    return arguments;
  }());
  Diagnostics diagnostics;
  const Explanation explanation = make_explanation(session, diagnostics);
  const Program& program = explanation.step.program;
  VariableStore variables(*session.backend, program.mesh, program.variables);
  variables.initialize(1);
  Executor executor(program, *session.backend, variables, executor_options(session));
  const TrainStepOptions options = train_step_options(session.config, session.layouts, 3);
  const TrainStep step = build_train_step(*session.model, session.train_data->features(), options);
  const BatchStream stream(session.train_data, TrainingBatches{.batch_size = options.batch_size});
  Prefetcher batches(stream);
  feed_batch(executor, *session.train_data, *batches.next());
  for (const StepScalar& scalar : step.scalars) executor.feed_scalar(scalar.input, scalar.value(0));
  executor.run(0);
  ASSERT_TRUE(std::isfinite(executor.scalar("loss")));

  const ProgramFacts& facts = explanation.step.facts;
  EXPECT_GT(facts.flops, 0);
  EXPECT_EQ(executor.counters().flops_per_position, facts.flops);
  EXPECT_NEAR(executor.counters().bytes_per_position, facts.bytes_sent, 1e-9 * facts.bytes_sent);
  EXPECT_EQ(facts.bytes_sent > 0, program.mesh.size() > 1);

  const ExplainedMemory& memory = explanation.memory;
  EXPECT_EQ(memory.step_bytes, executor.memory().position().total());
  int64_t parts = 0;
  for (const MemoryNeed::Part& part : memory.position) parts += part.bytes;
  EXPECT_EQ(memory.position_bytes, parts);
  EXPECT_GT(memory.position_bytes, memory.step_bytes);  // the evaluation and the snapshot
  const MemoryPlan::Process& planned = executor.memory().process;
  EXPECT_GT(memory.process.total(), planned.variables + planned.inputs + planned.temporaries);
}

TEST_P(EveryLayout, PartsOfTheDocumentSumToItsTotals) {
  const Explanation explanation = explanation_of(GetParam().arguments);
  const Json json = json_of(explanation);
  const double flops = json["step"]["flops"], bytes = json["step"]["bytes_sent"];
  double contractions = 0, unique = 0, layers = 0, sent_by_layers = 0, collectives = 0, traffic = 0;
  int64_t operations = 0;
  double moved = 0;
  for (const Json& c : json["contractions"]) {
    contractions += c["flops"].get<double>();
    unique += c["unique_flops"].get<double>();
  }
  for (const Json& layer : json["layers"]) {
    for (const Json& phase : layer["flops"]) layers += phase.get<double>();
    sent_by_layers += layer["bytes_sent"].get<double>();
    operations += layer["operations"].get<int64_t>();
    moved += layer["bytes_moved"].get<double>();
  }
  for (const auto& [kind, work] : json["work"].items()) {
    operations -= work["operations"].get<int64_t>();
    if (kind != "products" && kind != "attention" && kind != "collectives")
      moved -= work["bytes"].get<double>();
  }
  EXPECT_EQ(operations, 0);
  EXPECT_NEAR(moved, 0, 1);
  EXPECT_NEAR(json["work"]["products"]["flops"], flops, 1e-9 * flops);
  std::map<int64_t, int64_t> messages;
  for (const Json& c : json["collectives"]) {
    collectives += c["bytes_sent"].get<double>() * c["times"].get<double>();
    messages[c["message"]] = c["times"];
  }
  int64_t count = 0;
  for (const auto& [message, times] : messages) count += times;
  for (const Json& t : json["traffic"]) traffic += t["bytes_sent"].get<double>();
  const double positions = json["mesh"]["positions"];
  EXPECT_NEAR(contractions, flops, 1e-9 * flops);
  EXPECT_NEAR(unique, json["step"]["unique_flops"], 1e-9 * unique);
  EXPECT_NEAR(layers, flops, 1e-9 * flops);
  EXPECT_NEAR(sent_by_layers, bytes, 1e-9 * bytes);
  EXPECT_NEAR(collectives, bytes, 1e-9 * bytes);
  EXPECT_NEAR(traffic, bytes, 1e-9 * bytes);
  EXPECT_EQ(count, json["step"]["collectives"]);
  EXPECT_NEAR(json["counters"]["einsum"]["elements"].get<double>() * 2, flops * positions,
              1e-9 * flops * positions);
  EXPECT_NEAR(json["repeated_flops"], flops - unique / positions, 1e-6 * flops);
  int64_t weights = 0;
  for (const Json& v : json["variables"])
    if (v["kind"] == "weight") weights += v["bytes"].get<int64_t>();
  EXPECT_EQ(json["memory"]["position"]["parts"]["weights"], weights);
  EXPECT_EQ(json["memory"]["process"]["bytes"], explanation.memory.process.total());
  EXPECT_FALSE(json["evaluation"].is_null());
}

TEST_P(EveryLayout, TheTextHasEverySection) {
  const Explanation explanation = explanation_of(GetParam().arguments);
  const std::string text = explain_text(explanation, {.tensors = true, .detail = true});
  for (const char* section :
       {"weights: ", "tensors of a step", "counters of a step", "work of a position by kind of operation",
        "of these transposes", "work of a position by layer", "memory\n", "verdict\n", "  work     ",
        "a position alone on its device"})
    EXPECT_THAT(text, HasSubstr(section));
  const bool alone = explanation.step.program.mesh.size() == 1;
  EXPECT_EQ(text.find("collectives of a step") == std::string::npos, alone);
  EXPECT_LT(text.find("memory\n"), text.find("tensors of a step")) << "what people read comes first";
  EXPECT_LT(text.find("tensors of a step"), text.find("counters of a step"));
  EXPECT_LT(text.find("counters of a step"), text.find("verdict\n"));
  EXPECT_THAT(explain_text(explanation, {}),
              AllOf(HasSubstr("tensors of a step"), Not(HasSubstr("counters of a step"))));
  const std::string without = explain_text(explanation, {.tensors = false});
  EXPECT_THAT(without, Not(HasSubstr("tensors of a step")));
  EXPECT_LT(without.size(), text.size());
}

TEST(Explain, TensorsHaveGlobalShapeLayoutAndLocalShape) {
  const Json json = json_of(explanation_of(
      {"mesh=rows:2;cols:4", "layout=batch:rows;hidden_odd:cols", "optimizer=adam", "learning_rate=0.01"}));
  std::map<std::string, Json> variables;
  for (const Json& v : json["variables"]) variables[v["name"]] = v;
  const Json& kernel = variables.at("first/kernel");
  EXPECT_EQ(kernel["dimensions"], Json({"io", "hidden_odd"}));
  EXPECT_EQ(kernel["shape"], Json({16, 32}));
  EXPECT_EQ(kernel["split"], Json::parse(R"([[], ["cols"]])"));
  EXPECT_EQ(kernel["local_shape"], Json({16, 8}));
  EXPECT_EQ(kernel["bytes"], 16 * 8 * 4);
  EXPECT_EQ(variables.at("first/kernel/adam_m")["kind"], "slot");
  std::set<std::string> phases;
  bool partial = false;
  for (const Json& t : json["tensors"]) {
    phases.insert(t["phase"]);
    if (t["operation"] != "einsum" || t["layer"] != "block/000/even" || t["phase"] != "forward") continue;
    EXPECT_EQ(t["shape"], Json({48, 24}));
    EXPECT_EQ(t["local_shape"], Json({24, 24}));
    EXPECT_EQ(t["partial_over"], Json({"cols"}));
    partial = true;
  }
  EXPECT_TRUE(partial);
  EXPECT_THAT(phases, ElementsAre("backward", "forward", "update"));
}

TEST(Explain, RepeatedLayersShareALine) {
  const std::string text =
      explain_text(explanation_of({"mesh=rows:2;cols:2", "layout=batch:rows;hidden_odd:cols"}), {});
  EXPECT_THAT(lines_with(text, "block/*/even/kernel"),
              ElementsAre("block/*/even/kernel f32 hidden_odd=32 hidden_even=24 hidden_odd: cols 16 x 24 "
                          "1.536 KB x 4"));
  EXPECT_THAT(lines_with(text, "block/000/even/kernel"), IsEmpty());
  EXPECT_THAT(lines_with(text, "first/kernel"), SizeIs(1));
  EXPECT_THAT(lines_with(text, "all_reduce cols einsum (forward)"), Contains(HasSubstr("block/*/even")));
}

TEST(Explain, TheMemoryVerdictComparesPositionAndProcessWithTheLimit) {
  const std::vector<std::string> mesh = {"mesh=all:4", "layout=batch:all"};
  const auto with_limit = [&](const std::string& limit) {
    std::vector<std::string> arguments = mesh;
    arguments.push_back("run.memory_limit=" + limit);
    return explanation_of(arguments);
  };
  const Explanation fits = with_limit("1GB");
  EXPECT_TRUE(fits.memory.position_fits());
  EXPECT_TRUE(fits.memory.process_fits());
  const Explanation between = with_limit("500KB");
  EXPECT_TRUE(between.memory.position_fits());
  EXPECT_FALSE(between.memory.process_fits());
  const std::string text = explain_text(between, {.tensors = false});
  EXPECT_THAT(lines_with(text, "this process with all 4 positions").back(), HasSubstr("does not fit"));
  EXPECT_THAT(text, ::testing::EndsWith("run.memory_limit\n"));
  EXPECT_EQ(json_of(between)["memory"]["process"]["fits"], false);
  EXPECT_FALSE(with_limit("1KB").memory.position_fits());
}

TEST(Explain, TheMemoryOfAProcessIsThatOfTheLargestStage) {
  const Explanation explanation = explanation_of(
      {"model.layers=[{dense: {name: first, output: {hidden_odd: 32}}},"
       " {repeat: {name: block, times: 2, layers:"
       " [{residual: {layers: [{dense: {output: {hidden_odd: 32}}}]}}]}},"
       " {dense: {name: wide, output: {wide: 1024}}}, {dense: {name: last, output: {io: 16}}}]",
       "mesh=stages:2", "layout=layers:stages", "train.microbatches=2", "cluster.processes=2",
       "run.mode=explain"});
  EXPECT_THAT(explain_text(explanation, {}), HasSubstr("the largest process with 1 of 2 positions"));
  const Json json = json_of(explanation);
  EXPECT_GT(json["memory"]["process"]["parts"]["weights"], (32 + 16) * 1024 * 4);
}

TEST(Explain, EvaluationAndSnapshotAreCounted) {
  const Explanation with = explanation_of({});
  const Explanation without = explanation_of({"evaluate.datasets=null"});
  EXPECT_FALSE(without.evaluation);
  EXPECT_TRUE(json_of(without)["evaluation"].is_null());
  EXPECT_GT(with.memory.position_bytes, without.memory.position_bytes);
  std::map<std::string, int64_t> parts;
  for (const MemoryNeed::Part& part : with.memory.position) parts[part.name] = part.bytes;
  EXPECT_EQ(parts.at("checkpoint snapshot"), parts.at("weights"));  // sgd has no slots
  EXPECT_GT(parts.at("temporaries of the evaluation"), 0);
}

TEST(Explain, RulesAreOfferedThatShareOutRepeatedWork) {
  const std::vector<std::string> mesh = {"mesh=rows:2;cols:4", "layout=batch:rows"};
  const Explanation now = explanation_of(mesh);
  ASSERT_THAT(now.splits, Not(IsEmpty()));
  EXPECT_EQ(now.unused_axes, axis_bit(1));
  EXPECT_THAT(now.warnings, Contains(HasSubstr("`cols` (4) splits no tensor")));
  EXPECT_NEAR(now.step.facts.repeated_flops, 0.75 * now.step.facts.flops, 1);
  for (const SplitTrial& split : now.splits) {
    EXPECT_LT(split.flops, now.step.facts.flops);
    // The predicted savings are those of a run with the rule.
    const std::string over = fmt::format("[{}]", fmt::join(split.mesh_dimensions, ", "));
    std::vector<std::string> arguments = mesh;
    arguments.push_back(fmt::format("layout.{}={}", split.dimension, over));
    const Explanation then = explanation_of(arguments);
    EXPECT_EQ(then.step.facts.flops, split.flops) << split.dimension;
    EXPECT_EQ(then.step.facts.bytes_sent, split.bytes_sent) << split.dimension;
    EXPECT_EQ(then.memory.step_bytes, split.position_bytes) << split.dimension;
  }
  EXPECT_THAT(explain_text(now, {.tensors = false}),
              AllOf(HasSubstr("layout.batch=[rows, cols]"), HasSubstr("75 % of it is repeated")));
  EXPECT_THAT(explanation_of({"mesh=all:4", "layout=batch:all"}).splits, IsEmpty());
}

TEST(Explain, RulesThatMatchNothingAreNamed) {
  const std::string layout =
      (std::filesystem::temp_directory_path() / fmt::format("mtf_layout_{}.yaml", ::getpid())).string();
  std::ofstream(layout) << "shared_layout: true\nmesh: {all: 4}\n"
                        << "layout: {batch: all, vocabulary: all, hidden_od: all}\n";
  Diagnostics diagnostics;
  const Session session =
      open_session({MTF_SOURCE_DIR "/configs/models/toy.yaml", layout}, kExplainedNetwork, diagnostics);
  std::filesystem::remove(layout);
  const Explanation explanation = make_explanation(session, diagnostics);
  EXPECT_THAT(explanation.notes, Contains(HasSubstr("`vocabulary` matches no tensor")));
  EXPECT_THAT(explanation.warnings, Contains(HasSubstr("did you mean `hidden_odd`?")));
  const std::string text = explain_text(explanation, {.tensors = false});
  EXPECT_THAT(lines_with(text, "note: "), SizeIs(1));  // only once, although both programs are checked
  EXPECT_THAT(lines_with(text, "warning: "), SizeIs(1));
}

TEST(Explain, RulesOfOneRunThatMatchNothingAreErrors) {
  for (const auto& [argument, hint] : std::vector<std::pair<std::string, std::string>>{
           {"layout={batch: all, hidden_od: all}", "did you mean `hidden_odd`?"},
           {"parameter_layout={batch: all}", "no variable of the model has"}}) {
    Diagnostics diagnostics;
    const Session session = open({"mesh=all:4", argument});
    try {
      make_explanation(session, diagnostics);
      FAIL() << argument;
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      EXPECT_THAT(error.what(), HasSubstr(hint));
    }
  }
}

TEST(Session, WhatTakesNoTrainingStepJudgesRulesByAllGraphsOfTheModel) {
  const auto errors = [](const std::string& rule) {
    std::vector<std::string> arguments = kExplainedNetwork;
    arguments.insert(arguments.end(), {"run.mode=evaluate", "mesh=all:2", rule});
    Diagnostics diagnostics;
    open_session({MTF_SOURCE_DIR "/configs/models/toy.yaml"}, arguments, diagnostics);
    return diagnostics.errors().size();
  };
  EXPECT_EQ(errors("layout=hidden_odd:all"), 0u);
  EXPECT_EQ(errors("layout=hidden_od:all"), 1u);
  EXPECT_EQ(errors("parameter_layout=batch:all"), 1u);
}

TEST(Explain, EvaluationDataThatAreNotHereAreNotNeeded) {
  const Explanation explanation =
      explanation_of({"evaluate.datasets={dev: {type: idx, images: not_here, labels: not_here}}"});
  EXPECT_THAT(explanation.notes,
              Contains(AllOf(HasSubstr("evaluation data is not counted"), HasSubstr("not_here"))));
  EXPECT_TRUE(explanation.evaluation);
}

TEST(ExplainText, NumbersAndShapesAreShort) {
  EXPECT_EQ(flops_text(0), "0 FLOP");
  EXPECT_EQ(flops_text(81819648), "81.82 MFLOP");
  const Shape shape{{"batch", 8}, {"hidden", 4}};
  const Mesh mesh(Shape{{"rows", 2}, {"cols", 2}});
  EXPECT_EQ(shape_text(shape), "batch=8 hidden=4");
  EXPECT_EQ(shape_text({}), "scalar");
  EXPECT_EQ(layout_text(shape, mtf::Layout{{{0, 1}, {}}, 0}, mesh), "batch: [rows, cols]");
  EXPECT_EQ(layout_text(shape, mtf::Layout{{{0}, {}}, axis_bit(1)}, mesh),
            "batch: rows; partial sum over cols");
  EXPECT_EQ(layout_text(shape, mtf::Layout::replicated(2), mesh), "whole");
  EXPECT_EQ(layout_text(shape, mtf::Layout::replicated(2), Mesh()), "");
}

/// Also tests the passes for devices, and one position per process: a pass that looks at all instructions,
/// messages or processes for each instruction would take minutes.
TEST(Explain, PlansOfManyLayersTakeSeconds) {
  const std::vector<std::string> deep = {
      "model.layers=[{dense: {name: first, output: {hidden_odd: 32}}},"
      " {repeat: {name: block, times: 500, layers: [{dense: {name: even, output: {hidden_even: 24}, bias: "
      "true}},"
      " {dense: {name: odd, output: {hidden_odd: 32}}}]}}, {dense: {name: last, output: {io: 16}}}]",
      "mesh=all:8",
      "layout=batch:all",
      "parameter_layout=hidden_odd:all",
      "optimizer=adam",
      "learning_rate=0.01"};
  const Session session = open(deep);
  const TrainStep step = build_train_step(*session.model, session.train_data->features(),
                                          train_step_options(session.config, session.layouts, 3));
  const std::clock_t start = std::clock();
  const Program program = partition(
      *step.graph, session.layouts,
      {.asynchronous = true, .fuse_epilogues = true, .fuse_elementwise = true, .group_variables = true});
  EXPECT_GT(program.instructions.size(), 6'500u);
  EXPECT_GT(plan_memory(program, false, {8, 3}).position().temporaries, 0);
  EXPECT_GT(remote_traffic(program, {8, 3}), 0);
  EXPECT_GT(remote_traffic(program, {8, 3}, false, true), 0);
  EXPECT_GT(program_facts(program).flops, 0);
  EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 15) << "seconds";
}

}  // namespace
}  // namespace mtf::testing
