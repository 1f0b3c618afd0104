// Tests MoE1D: gatings, losses and gradients against recorded and published values, on every kind of layout.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>

#include "engine/graph/gradients.h"
#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/cast.h"
#include "engine/ops/einsum.h"
#include "engine/ops/indexing.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/routing.h"
#include "engine/ops/unary.h"
#include "engine/spmd/program_facts.h"
#include "layers/experts/balance.h"
#include "layers/experts/capacity.h"
#include "layers/experts/counts.h"
#include "layers/experts/metrics.h"
#include "layers/experts/router.h"
#include "tests/layers/yaml_layers.h"
#include "tests/support/golden.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;

MoeOptions parse_experts(const std::string& yaml) {
  Diagnostics diagnostics;
  const MoeOptions options =
      config::parse<MoeOptions>(config::parse_yaml(yaml, "moe.yaml", diagnostics), diagnostics);
  diagnostics.throw_if_errors();
  return options;
}

/// The router of a layer without its experts: who takes which place, with which weight.
struct RouterRun {
  RouterRun(Graph& graph, const std::string& yaml, const Tensor& x, const Tensor& tokens, Mode mode)
      : options(parse_experts(yaml)), context(graph, mode, {}, x.shape()[0]) {
    const Dimension model = x.shape()[x.shape().rank() - 1];
    const TokenGroups groups(x.shape() - model, options.grouping, options.group_size);
    const Routing routing = Router(context, options, groups, tokens)(x, model);
    const Dimension capacity{"expert_capacity",
                             expert_capacity(options, groups.group().size, mode == Mode::kTrain)};
    const Tensor priority = routing.priority ? groups.join(routing.priority) : Tensor{};
    const Slots slots = assign_slots(groups.join(routing.attempted), priority,
                                     {.experts = options.num_experts,
                                      .block = {"all_experts", options.num_experts},
                                      .capacity = capacity,
                                      .one_per_token = options.gating == Gating::kNtlb});
    const Dimension places{"places", options.num_experts * capacity.size};
    const Tensor taken = one_hot(slots.slot, places);
    const Shape group = groups.rows() + groups.group();
    dispatched = reshape(reduce_sum(taken, group + places),
                         group + Dimension{"all_experts", options.num_experts} + capacity);
    combined = reshape(einsum({taken, groups.join(routing.weights)}, group + places), dispatched.shape());
    logits = groups.join(routing.logits);
    RealTokens real;
    real.mask = real.mask_of_step = tokens;
    loss = balance_loss(options, groups, routing, real);
    z_loss = router_z_loss(routing, real);
    weights = routing.weights;
    chosen = routing.chosen;
    counts = count_choices(routing.attempted, routing.experts, Shape{}, DType::kFloat32);
    report_routing(context, options, routing, ExpertPlaces(context, options, groups, routing, false), real);
    for (const LayerTerm& term : context.terms()) {
      if (term.kind == LayerTerm::Kind::kStatistic)
        moved = term.updated(graph.constant(0, DType::kFloat32, term.value.shape()), term.value);
      if (term.kind == LayerTerm::Kind::kReport && term.numbers) reports = term.numbers(term.value);
    }
  }

  MoeOptions options;
  Context context;
  Tensor dispatched, combined, logits, loss, z_loss, weights, chosen, counts;
  Tensor moved;                           ///< the selection bias after a step, if it was 0
  std::map<std::string, Tensor> reports;  ///< of training
};

// Recorded layers of Mesh TensorFlow.

struct RecordedLayer {
  const char* name;
  const char* options;
  Mode mode = Mode::kTrain;
};

const RecordedLayer kRecorded[] = {
    {"06_moe_switch_eval", "gating: switch, group_size: 24", Mode::kEvaluate},
    {"06_moe_switch_overflow",
     "gating: switch, group_size: 24, capacity_factor_train: 0.5, min_expert_capacity: 1"},
    {"06_moe_switch_train", "gating: switch, group_size: 24, capacity_factor_train: 1, z_loss: 0.001"},
    {"06_moe_top2_all_train", "gating: top_2, group_size: 24, z_loss: 0.001"},
    {"06_moe_top2_none_eval",
     "gating: top_2, group_size: 24, capacity_factor_eval: 1, second_policy_eval: none", Mode::kEvaluate},
    {"06_moe_top2_overflow",
     "gating: top_2, group_size: 24, capacity_factor_train: 0.5, min_expert_capacity: 1"},
    {"06_moe_top2_padding_groups", "gating: top_2, group_size: 12"},
    {"06_moe_top2_threshold",
     "gating: top_2, group_size: 24, second_policy_train: threshold, second_threshold_train: 0.35, "
     "use_second_place_loss: true"},
};

/// With policies, where the options name none, by which routers draw nothing.
std::string yaml_of(const RecordedLayer& layer) {
  const std::string_view options = layer.options;
  const bool is_switch = options.starts_with("gating: switch");
  std::string yaml = "{num_experts: 4, hidden_size: 12, grouping: flat, ";
  for (const char* mode : {"train", "eval"}) {
    const std::string key = fmt::format("{}_policy_{}", is_switch ? "switch" : "second", mode);
    if (options.find(key) == std::string_view::npos)
      yaml += fmt::format("{}: {}, ", key, is_switch ? "argmax" : "all");
  }
  return fmt::format("{}{}}}", yaml, options);
}

/// Layouts from text, where + joins the mesh dimensions of a rule: "batch:x;experts:x+y".
Layouts joint_layouts(const std::string& mesh, const std::string& text) {
  std::vector<LayoutRule> rules;
  for (const auto& [dimension, joined] : parse_pairs(text)) {
    LayoutRule rule{dimension, {}, {}};
    for (size_t begin = 0; begin <= joined.size();) {
      const size_t end = std::min(joined.find('+', begin), joined.size());
      rule.mesh_dimensions.push_back(joined.substr(begin, end - begin));
      begin = end + 1;
    }
    rules.push_back(rule);
  }
  return Layouts::make(Mesh(Shape::parse(mesh)), LayoutRules(rules));
}

class RecordedExperts : public ::testing::TestWithParam<RecordedLayer> {};

TEST_P(RecordedExperts, GiveTheSameResultsAndGradientsOnEveryLayout) {
  const RecordedLayer& layer = GetParam();
  const GoldenCase golden(std::string(MTF_SOURCE_DIR "/tests/golden/") + layer.name);
  Graph graph;
  std::map<std::string, Values> feeds, variables;
  const auto input = [&](const std::string& name) {
    const GoldenTensor& tensor = golden.at("input/" + name);
    feeds[name] = tensor.values;
    return graph.input(name, tensor.shape);
  };
  const Tensor x = input("x"), tokens = input("nonpadding"), ct = input("ct_y");
  const RouterRun router(graph, yaml_of(layer), x, tokens, layer.mode);
  Context context(graph, layer.mode, {}, x.shape()[0]);
  const Tensor segment = cast(tokens, DType::kInt32);
  Sequence sequence{.length = x.shape()[1], .segment = segment, .mask = tokens};
  const auto entered = context.enter(sequence);
  Diagnostics diagnostics;
  const LayerList layers = parse_layers("[MoE1D: " + yaml_of(layer) + "]", diagnostics);
  diagnostics.throw_if_errors();
  const Tensor y = layers(context, {x, Shape{x.shape()[2]}});
  Tensors losses{reduce_sum(multiply(y, ct), Shape{})};
  if (layer.mode == Mode::kTrain) {
    for (const LayerTerm& term : context.terms()) {
      if (term.kind == LayerTerm::Kind::kLoss) losses.push_back(term.value);
    }
  }
  const Tensor loss = add_n(losses);
  Tensors wanted{x};
  std::vector<std::string> names{"grad_input/x"};
  for (const std::string& name : golden.names("weight/")) {
    const std::string scoped = "MoE1D/" + name;
    variables[scoped] = golden.at("weight/" + name).values;
    if (name.find("gating") != std::string::npos) variables[name] = variables[scoped];
    wanted.push_back(graph.read(*graph.find_variable(scoped)));
    names.push_back("grad/" + name);
  }
  const bool trains = layer.mode == Mode::kTrain;
  const Tensors gradient = gradients({loss}, wanted);
  graph.set_output("output/y", y);
  graph.set_output("output/dispatch", router.dispatched);
  graph.set_output("output/combine", router.combined);
  graph.set_output("output/gate_logits", router.logits);
  if (trains) graph.set_output("loss", loss);
  for (size_t i = 0; i < names.size() && trains; ++i) graph.set_output(names[i], gradient[i]);
  for (const auto& [mesh, layout] :
       {std::pair("", ""), std::pair("x:2", "batch:x"), std::pair("x:2", "batch:x;experts:x"),
        std::pair("y:2", "experts:y"), std::pair("y:4", "experts:y"), std::pair("y:2", "expert_hidden:y"),
        std::pair("x:2;y:2", "batch:x;experts:x;expert_hidden:y"), std::pair("x:2;y:2", "batch:x;experts:y"),
        std::pair("x:2;y:2", "batch:x;experts:x+y"), std::pair("x:2;y:2", "batch:x;experts:y+x"),
        std::pair("x:2;y:2", "batch:x;d_model:y"), std::pair("x:2", "length:x"),
        std::pair("x:2", "length:x;experts:x"), std::pair("x:2;y:2", "batch:x;length:y;experts:y"),
        std::pair("x:2;y:2;z:2", "batch:x;experts:x+y;expert_hidden:z")}) {
    SCOPED_TRACE(fmt::format("{} on {}", layout, mesh));
    const Layouts split = *mesh == 0 ? Layouts::single() : joint_layouts(mesh, layout);
    const MeshRun run = run_on_mesh(graph, split, feeds, {.variables = variables});
    for (const auto& [name, values] : run.outputs) {
      const double tolerance =
          name.starts_with("grad") ? golden.gradient_tolerance() : golden.forward_tolerance();
      if (name == "output/dispatch") {
        EXPECT_EQ(values, golden.at(name).values);
      } else {
        expect_close(name, values, golden.at(name).values, tolerance);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, RecordedExperts, ::testing::ValuesIn(kRecorded),
                         [](const auto& param) { return std::string(param.param.name).substr(3); });

/// The forward and the backward pass of one layer: batch 8, length 16, d_model 8, 4 experts.
struct LayerTraffic {
  LayerTraffic(const std::string& options, const std::string& mesh, const std::string& layout) {
    const Dimension length{"length", 16}, model{"d_model", 8};
    const Tensor x = graph.input("x", {{"batch", 8}, length, model});
    Context context(graph, Mode::kTrain, {}, x.shape()[0]);
    Sequence sequence{.length = length};
    const auto entered = context.enter(sequence);
    Diagnostics diagnostics;
    const LayerList layers =
        parse_layers("[MoE1D: {num_experts: 4, hidden_size: 12, " + options + "}]", diagnostics);
    diagnostics.throw_if_errors();
    const Tensor y = layers(context, {x, Shape{model}});
    Tensors weights;
    for (const auto& variable : graph.variables()) weights.push_back(graph.read(*variable));
    const Tensors gradient = gradients({reduce_sum(square(y), Shape{})}, weights);
    for (size_t i = 0; i < weights.size(); ++i) graph.set_output(graph.variables()[i]->name, gradient[i]);
    program = partition(graph, joint_layouts(mesh, layout));
    facts = program_facts(program);
  }

  /// Bytes that a position sends in the forward pass in collectives of a kind over these mesh dimensions.
  double forward(const std::string& kind, const std::string& axes) const {
    double bytes = 0;
    for (const CollectiveFact& c : facts.collectives) {
      const bool counts =
          c.kind == kind && program.mesh.names(c.axes) == axes && c.origin.phase == Phase::kForward;
      if (counts && is_row(c)) bytes += c.bytes_sent * static_cast<double>(c.times);
    }
    return bytes;
  }
  /// The mesh dimensions over which the gradient of `variable` is summed.
  std::string sum_of_gradient(const std::string& variable) const {
    for (const CollectiveFact& c : facts.collectives) {
      if (c.kind == "all_reduce" && program.values[c.result].shape.contains("experts") &&
          program.values[c.result].shape.contains("expert_hidden") &&
          c.origin.layer.path().ends_with(variable))
        return program.mesh.names(c.axes);
    }
    return "";
  }

  Graph graph;
  Program program;
  ProgramFacts facts;

 private:
  bool is_row(const CollectiveFact& c) const { return program.values[c.result].shape.contains("d_model"); }
};

TEST(MoE1D, MovesTheBytesOfTheFormulas) {
  constexpr const char *kFew = "gating: switch, capacity_factor_train: 1",
                       *kMany = "gating: top_2, capacity_factor_train: 2.5";
  const double row = 8 * 4, tokens = 8 * 16;  // bytes of a vector, tokens in all
  for (const auto& [options, places] : {std::pair(kFew, 4.0), std::pair(kMany, 10.0)}) {
    SCOPED_TRACE(options);
    const double slots = 4 * places * 8;  // of all groups
    const bool gathers = slots < 2 * tokens;
    const auto of_y = [&](double m, double here) {
      return gathers ? (m - 1) / m * slots * here * row : 2 * (m - 1) / m * tokens * here * row;
    };
    const char* kind = gathers ? "all_gather" : "all_reduce";
    {
      const LayerTraffic none(options, "x:4", "batch:x");
      EXPECT_EQ(none.forward("all_to_all", "x") + none.forward("all_gather", "x"), 0);
      EXPECT_EQ(none.sum_of_gradient("wi"), "x");
    }
    {
      const LayerTraffic data(options, "x:4", "batch:x;experts:x");
      EXPECT_EQ(data.forward("all_to_all", "x"), 2 * 0.75 * slots / 4 * row);
      EXPECT_EQ(data.sum_of_gradient("wi"), "") << "each position has all gradients of its experts";
    }
    {
      const LayerTraffic model(options, "x:2;y:4", "batch:x;experts:y");
      EXPECT_EQ(model.forward("all_to_all", "y") + model.forward("all_to_all", "x"), 0);
      EXPECT_EQ(model.forward(kind, "y"), of_y(4, 0.5));
    }
    {
      const LayerTraffic both(options, "x:2;y:2", "batch:x;experts:y+x");
      EXPECT_EQ(both.forward("all_to_all", "x"), 2 * 0.5 * slots / 2 / 2 * row);
      EXPECT_EQ(both.forward(kind, "y"), of_y(2, 0.5));
      // With x outermost the parts of y are cut out behind the all-to-all.
      const LayerTraffic outer(options, "x:2;y:2", "batch:x;experts:x+y");
      EXPECT_EQ(outer.forward("all_to_all", "x"), 2 * both.forward("all_to_all", "x"));
    }
    {
      const LayerTraffic replicated(options, "r:2;x:2", "batch:r+x;experts:x");
      EXPECT_EQ(replicated.forward("all_to_all", "x"), 2 * 0.5 * slots / 4 * row);
      EXPECT_EQ(replicated.forward("all_gather", "r"), 0);
      EXPECT_EQ(replicated.sum_of_gradient("wi"), "r");
    }
  }
}

// Published values: six tokens, three experts, the router's kernel is the identity.

const Values kTokens = {2, 1, 0, 3, 0, 1, 1.5, 1, 0.5, 0, 2, 1, 2.5, 2, 0, 0, 0.5, 1};

struct Place {
  int64_t token, expert, place;
  double weight;
};

struct SixTokens {
  explicit SixTokens(const std::string& options, Mode mode = Mode::kEvaluate,
                     const std::map<std::string, Values>& statistics = {}) {
    Graph graph;
    const Dimension model{"d_model", 3};
    const Tensor x = graph.input("x", {{"batch", 1}, {"length", 6}, model});
    const std::string yaml =
        fmt::format("{{num_experts: 3, {}{}}}",
                    options.starts_with("gating: top_k") ? "" : "min_expert_capacity: 1, ", options);
    const RouterRun run(graph, yaml, x, {}, mode);
    std::map<std::string, Values> variables = statistics;
    for (const auto& variable : graph.variables()) {
      if (variable->name.ends_with("kernel")) variables[variable->name] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
    }
    Tensors wanted{run.combined, run.loss,       run.z_loss, run.weights,
                   run.chosen,   run.dispatched, run.counts, run.moved ? run.moved : run.loss};
    for (const auto& [name, report] : run.reports) wanted.push_back(report);
    const auto values = evaluate(graph, wanted, {{"x", kTokens}}, {.variables = variables});
    combined = values[0];
    loss = values[1][0];
    z_loss = values[2][0];
    weights = values[3];
    chosen = values[4];
    kept = values[5];
    counts = values[6];
    moved = values[7];
    size_t at = 8;
    for (const auto& [name, report] : run.reports) reports[name] = values[at++][0];
    places = run.combined.shape().size() / 18;
  }

  void expect_places(const std::vector<Place>& expected) const {
    Values wanted(combined.size(), 0);
    for (const Place& p : expected)
      wanted[static_cast<size_t>((p.token * 3 + p.expert) * places + p.place)] = p.weight;
    expect_close("combined", combined, wanted, 0, 1e-6);
  }

  Values combined, weights, chosen, kept, counts, moved;
  double loss, z_loss;
  std::map<std::string, double> reports;
  int64_t places;
};

TEST(SixTokens, ChooseTwo) {
  const SixTokens six("gating: top_2, capacity_factor_eval: 1");
  six.expect_places({{0, 0, 0, .731059},
                     {0, 1, 1, .268941},
                     {1, 0, 1, .880797},
                     {1, 2, 1, .119203},
                     {3, 1, 0, .731059},
                     {5, 2, 0, .622459}});
  EXPECT_NEAR(six.loss, 1.2210178, 1e-6);
  EXPECT_NEAR(SixTokens("gating: top_2, use_second_place_loss: true").loss, 1.9276206, 1e-6);
}

TEST(SixTokens, ChooseThree) {
  const SixTokens six("gating: top_n, capacity_factor_eval: 1");
  std::vector<Place> places = {{0, 0, 0, .665241}, {0, 1, 1, .244728}, {1, 0, 1, .843795},
                               {1, 2, 1, .114195}, {3, 1, 0, .665241}, {5, 2, 0, .506480}};
  six.expect_places(places);
  EXPECT_NEAR(six.loss, 1.2210178, 1e-6);
  for (const Place& p : std::vector<Place>{{0, 2, 3, .090031},
                                           {2, 0, 2, .506480},
                                           {2, 1, 2, .307196},
                                           {3, 2, 2, .244728},
                                           {4, 0, 3, .592201},
                                           {4, 1, 3, .359188}})
    places.push_back(p);
  SixTokens("gating: top_n, capacity_factor_eval: 2").expect_places(places);
}

TEST(SixTokens, DropSecondChoicesBelowAThreshold) {
  Graph graph;
  const Tensor x = graph.input("x", {{"batch", 1}, {"length", 6}, {"d_model", 3}});
  const RouterRun run(graph,
                      "{num_experts: 3, min_expert_capacity: 1, capacity_factor_eval: 1, gating: top_2, "
                      "second_policy_eval: threshold, second_threshold_eval: 0.2}",
                      x, {}, Mode::kEvaluate);
  const Values combined = evaluate(graph, {run.combined}, {{"x", kTokens}},
                                   {.variables = {{"top_2_gating/kernel", {1, 0, 0, 0, 1, 0, 0, 0, 1}}}})[0];
  Values expected(36, 0);
  for (const auto& [at, weight] : {std::pair(0, .731059), std::pair(3, .268941), std::pair(7, .880797),
                                   std::pair(20, .731059), std::pair(23, .268941), std::pair(34, .622459)})
    expected[static_cast<size_t>(at)] = weight;
  expect_close("combined", combined, expected, 0, 1e-6);
}

TEST(SixTokens, SwitchToOne) {
  const SixTokens six("gating: switch, capacity_factor_eval: 1");
  six.expect_places({{0, 0, 0, .665241}, {1, 0, 1, .843795}, {3, 1, 0, .665241}, {5, 2, 0, .506480}});
  EXPECT_NEAR(six.loss, 1.2210178, 1e-6);
}

TEST(SixTokens, SwitchToOneByWeight) {
  const SixTokens six("gating: switch_max, capacity_factor_eval: 1");
  six.expect_places({{1, 0, 0, .843795}, {0, 0, 1, .665241}, {3, 1, 0, .665241}, {5, 2, 0, .506480}});
  EXPECT_NEAR(six.loss, 1.2210178, 1e-6);
}

TEST(SixTokens, TryTheNextExpert) {
  const SixTokens six("gating: ntlb, ntlb_top_k: 2, capacity_factor_eval: 1");
  six.expect_places(
      {{0, 0, 0, .665241}, {1, 0, 1, .843795}, {3, 1, 0, .665241}, {5, 2, 0, .506480}, {2, 1, 1, .307196}});
  EXPECT_NEAR(six.loss, 1.0306329, 1e-6);
}

TEST(SixTokens, AreSelectedByExperts) {
  const SixTokens six("gating: expert_selection, capacity_factor_eval: 1");
  EXPECT_NEAR(six.loss, 1.0995823, 1e-6);
  Values kept(18, 0);
  for (const int at : {3, 12, 10, 13, 5, 11}) kept[static_cast<size_t>(at)] = 1;
  for (size_t i = 0; i < 18; ++i) EXPECT_EQ(six.kept[2 * i] + six.kept[2 * i + 1], kept[i]) << i;
}

TEST(SixTokens, ChooseTheirBest) {
  const SixTokens six("gating: top_k, dispatch: capacity", Mode::kTrain);
  Values first;
  for (size_t i = 0; i < 6; ++i) first.push_back(six.weights[2 * i]);
  expect_close("weights", first, {.731059, .880797, .622459, .731059, .622459, .622459}, 0, 1e-6);
  EXPECT_NEAR(six.loss, 1.0306329, 1e-6);
  EXPECT_NEAR(six.z_loss, 6.3936608, 1e-5);
  EXPECT_EQ(six.counts, (Values{4, 5, 3}));
  EXPECT_NEAR(six.reports.at("router/entropy"), 0.8424118, 1e-6);
  EXPECT_NEAR(six.reports.at("experts/load"), 4 / 12.0, 1e-6);  // that of the first expert
  EXPECT_NEAR(six.reports.at("experts/max_load"), 3 * 5 / 12.0, 1e-6);
  EXPECT_NEAR(six.reports.at("experts/min_load"), 3 * 3 / 12.0, 1e-6);
}

TEST(SixTokens, ReportWhatExpertsDrop) {
  const SixTokens six("gating: switch, capacity_factor_train: 1, switch_policy_train: argmax", Mode::kTrain);
  EXPECT_NEAR(six.reports.at("experts/dropped"), 2 / 6.0, 1e-6);
  EXPECT_NEAR(six.reports.at("experts/unrouted"), 2 / 6.0, 1e-6);
  EXPECT_NEAR(six.reports.at("experts/fill"), 4 / 6.0, 1e-6);
  EXPECT_EQ(six.reports.at("experts/unused"), 0);
  double best = 0;
  for (const double weight : six.weights) best += weight / 6;
  EXPECT_NEAR(six.reports.at("router/weight_1"), best, 1e-6);
}

TEST(SixTokens, ChooseBySigmoids) {
  constexpr const char* kSigmoid = "gating: top_k, score: sigmoid, scale: 2.5, selection_bias: true";
  const SixTokens six(kSigmoid, Mode::kTrain);
  Values first;
  for (size_t i = 0; i < 6; ++i) first.push_back(six.weights[2 * i]);
  expect_close("weights", first, {1.366123, 1.414462, 1.319832, 1.366123, 1.280018, 1.350294}, 0, 2e-6);
  EXPECT_NEAR(six.loss, 1.0096308, 1e-6);
  expect_close("bias", six.moved, {0, -1e-3, 1e-3}, 0, 1e-9);
  const SixTokens biased(kSigmoid, Mode::kTrain, {{"top_k_gating/selection_bias", {-.2, .1, .1}}});
  EXPECT_EQ(biased.chosen[4], 1);
  EXPECT_EQ(biased.chosen[5], 2);
  EXPECT_NEAR(biased.weights[4], 1.350294, 2e-6);
  EXPECT_NEAR(biased.weights[5], 1.149706, 2e-6);
  EXPECT_NEAR(biased.loss, 1.0096308, 1e-6) << "the loss counts without the bias";
  EXPECT_EQ(biased.counts, (Values{3, 5, 4}));
  expect_close("bias", biased.moved, {1e-3, -1e-3, 0}, 0, 1e-9);
}

/// The experts that one token chooses with these sigmoids as scores, sorted.
Values chosen_in_groups(const Values& scores, const std::string& options, double bias) {
  Graph graph;
  const int64_t n = std::ssize(scores);
  const Tensor x = graph.input("x", {{"batch", 1}, {"length", 1}, {"d_model", n}});
  const RouterRun run(
      graph,
      fmt::format("{{gating: top_k, score: sigmoid, selection_bias: true, num_experts: {}, {}}}", n, options),
      x, {}, Mode::kEvaluate);
  Values logits, identity(scores.size() * scores.size(), 0);
  for (size_t i = 0; i < scores.size(); ++i) {
    logits.push_back(std::log(scores[i] / (1 - scores[i])));
    identity[i * scores.size() + i] = 1;
  }
  Values chosen = evaluate(graph, {run.chosen}, {{"x", logits}},
                           {.variables = {{"top_k_gating/kernel", identity},
                                          {"top_k_gating/selection_bias", Values(scores.size(), bias)}}})[0];
  std::ranges::sort(chosen);
  return chosen;
}

TEST(Router, ChoosesWithinTheBestGroupsOfExperts) {
  const Values scores = {.9, .1, .6, .5};
  for (const double bias :
       {0.0, -2.0}) {  // with negative scores, too, experts of other groups are not chosen
    SCOPED_TRACE(bias);
    EXPECT_EQ(chosen_in_groups(scores, "expert_groups: 2, group_score: sum_2", bias), (Values{2, 3}));
    EXPECT_EQ(chosen_in_groups(scores, "expert_groups: 2, group_score: max", bias), (Values{0, 1}));
    EXPECT_EQ(chosen_in_groups(scores, "expert_groups: 2, groups_per_token: 2", bias), (Values{0, 2}));
    EXPECT_EQ(chosen_in_groups({.9, .1, .6, .5, .2, .95}, "expert_groups: 3, groups_per_token: 2", bias),
              (Values{2, 5}));
  }
}

TEST(TokenGroups, HaveSizesThatNoMeshChanges) {
  EXPECT_EQ(flat_groups(4096, 1024), 4);
  EXPECT_EQ(flat_groups(1500, 1024), 1);
  EXPECT_EQ(row_groups(512, 1024), 1);
  EXPECT_EQ(row_groups(1500, 1024), 2);
  EXPECT_EQ(row_groups(2048, 1000), 4);
}

TEST(MoE1D, RefusesImpossibleOptions) {
  const auto problems = [](const std::string& options) { return problems_of("[MoE1D: {" + options + "}]"); };
  EXPECT_EQ(problems("num_experts: 4, gating: switch"), "");
  EXPECT_THAT(problems("gating: swich"), HasSubstr("switch"));
  EXPECT_THAT(problems("num_experts: 2, gating: top_n"), HasSubstr("there are 2 experts"));
  EXPECT_THAT(problems("num_experts: 2, gating: top_k, experts_per_token: 3"), HasSubstr("at most 2"));
  EXPECT_THAT(problems("num_experts: 8, gating: top_k, expert_groups: 3"), HasSubstr("a divisor"));
  EXPECT_THAT(problems("num_experts: 8, gating: top_k, expert_groups: 4, experts_per_token: 3"),
              HasSubstr("more groups"));
  EXPECT_THAT(problems("gating: switch_max, dispatch: dropless"), HasSubstr("chooses by capacity"));
  EXPECT_THAT(problems("num_experts: 6, gating: top_k, expert_groups: 3, groups_per_token: 4"),
              HasSubstr("`groups_per_token` is 4, but there are 3 groups; at most 3"));
  EXPECT_THAT(problems("num_experts: 1"),
              HasSubstr("gating `top_2` chooses 2 experts of each token, and there is 1; at least 2"));
  EXPECT_THAT(problems("second_policy_train: some"), HasSubstr("unknown value `some`"));
}

TEST(MoE1D, RefusesOptionsWithoutEffect) {
  const auto problems = [](const std::string& options) { return problems_of("[MoE1D: {" + options + "}]"); };
  EXPECT_THAT(
      problems("router_z: 1"),
      HasSubstr(":1:20: `router_z` has no effect with gating `top_2`; leave it out, or take `z_loss`"));
  EXPECT_THAT(problems("gating: switch, shared_experts: 1"),
              HasSubstr("`shared_experts` has no effect with gating `switch`; leave it out, or take gating "
                        "`top_k`"));
  EXPECT_THAT(problems("gating: top_k, loss_coef: 1"), HasSubstr("or take `balance`"));
  EXPECT_THAT(problems("gating: top_k, second_policy_train: none"), HasSubstr("gating `top_2` or `top_n`"));
  EXPECT_THAT(problems("gating: top_k, drop: probability"),
              HasSubstr("`drop` has no effect with dispatch `dropless`, the default of this gating; leave it "
                        "out, or take `dispatch: capacity`"));
  EXPECT_THAT(problems("gating: switch, dispatch: dropless, capacity_factor_train: 1"),
              HasSubstr("`capacity_factor_train` has no effect with dispatch `dropless`; "));
  EXPECT_THAT(problems("gating: top_k, shared_gate: true"), HasSubstr("without `shared_experts`"));
  EXPECT_THAT(problems("gating: top_k, centered: true"), HasSubstr("without `selection_bias`"));
  EXPECT_THAT(problems("gating: top_k, group_score: max"), HasSubstr("without `expert_groups`"));
  EXPECT_EQ(problems("gating: top_k, dispatch: capacity, drop: probability, capacity_factor_train: 1, "
                     "shared_experts: 1, shared_gate: true, router_z: null, loss_coef: null"),
            "");
}

TEST(MoE1D, TakesDefaultsThatAreForOtherLayers) {
  const auto problems = [](const std::string& defaults, const std::string& options) {
    return problems_of("[MoE1D: {" + options + "}]", {.defaults = "{MoE1D: {" + defaults + "}}"});
  };
  EXPECT_EQ(problems("router_z: 1, capacity_factor_train: 1, gating: switch, shared_gate: true",
                     "gating: top_k, shared_experts: 0"),
            "");
  EXPECT_THAT(problems("router_z: 1", "num_experts: 4"), HasSubstr("no effect with gating `top_2`"));
  EXPECT_THAT(problems("gating: top_k", "z_loss: 1"), HasSubstr("no effect with gating `top_k`"));
  EXPECT_THAT(problems_of("[MoE1D]", {.defaults = "{MoE1D: {router_z: 1}}"}),
              HasSubstr("no effect with gating `top_2`"));
}

}  // namespace
}  // namespace mtf::testing
