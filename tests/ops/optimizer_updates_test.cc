#include "engine/ops/optimizer_updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/base/error.h"
#include "engine/core/stochastic_rounding.h"
#include "engine/ops/adafactor.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/golden.h"
#include "tests/support/split_kernel.h"

namespace mtf::testing {
namespace {

/// An optimizer: the suffixes and shapes of its slots, and its update, which returns the new weight and
/// slots.
struct Optimizer {
  std::vector<std::pair<std::string, Shape>> slots;
  std::function<AdafactorUpdate(const Tensor& w, const Tensor& g, const Tensors& slots, const Tensor& rate,
                                const Tensor& decay)>
      update;
};

using Schedule = std::function<double(int step)>;
using OptimizerOf = std::function<Optimizer(const std::string& name, const Shape& shape)>;

/// A variable with its slots; its gradient is fed, and the update is assigned.
class OneVariable {
 public:
  OneVariable(const std::string& name, const Shape& shape, const Values& initial,
              const OptimizerOf& optimizer_of)
      : name_(name) {
    const Optimizer optimizer = optimizer_of(name, shape);
    const Variable& weight = graph_.variable(name, shape, DType::kFloat32, Initializer::zeros());
    Tensors slots;
    std::vector<const Variable*> slot_variables;
    for (const auto& [suffix, slot_shape] : optimizer.slots) {
      slot_variables.push_back(&graph_.variable(name + suffix, slot_shape, DType::kFloat32,
                                                Initializer::zeros(), Variable::Kind::kSlot));
      slots.push_back(graph_.read(*slot_variables.back()));
    }
    const AdafactorUpdate update = optimizer.update(graph_.read(weight), graph_.input("g", shape), slots,
                                                    graph_.input("rate", {}), graph_.input("decay", {}));
    graph_.assign(weight, update.weight);
    for (size_t i = 0; i < slots.size(); ++i) graph_.assign(*slot_variables[i], update.slots[i]);
    state_.variables[name] = initial;
  }

  const Values& step(const Values& gradient, double rate, double decay = 0) {
    state_.variables = evaluate_step(graph_, {{"g", gradient}, {"rate", {rate}}, {"decay", {decay}}}, state_);
    return state_.variables.at(name_);
  }
  const Values& value(const std::string& suffix = "") const { return state_.variables.at(name_ + suffix); }

 private:
  std::string name_;
  Graph graph_;
  EvaluateOptions state_;
};

double pow_decay(int step) { return 1 - std::pow(step + 1, -0.8); }

/// Runs the recorded steps of every variable of a case; checks the weights after each step and the final
/// slots.
void expect_golden(
    const std::string& name, const OptimizerOf& optimizer_of, const Schedule& rate,
    const Schedule& decay = [](int) { return 0; }) {
  const GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/" + name);
  for (const std::string& variable : golden.names("weight/")) {
    const GoldenTensor& initial = golden.at("weight/" + variable);
    OneVariable one(variable, initial.shape, initial.values, optimizer_of);
    const Values &gradients = golden.at("grads/" + variable).values,
                 &expected = golden.at("step_weight/" + variable).values;
    const auto n = static_cast<std::ptrdiff_t>(initial.values.size());
    for (int step = 0; step < 5; ++step) {
      const Values gradient(gradients.begin() + step * n, gradients.begin() + (step + 1) * n);
      expect_close(name + " " + variable + " step " + std::to_string(step),
                   one.step(gradient, rate(step), decay(step)),
                   Values(expected.begin() + step * n, expected.begin() + (step + 1) * n), 1e-5, 1e-9);
    }
    for (const auto& [suffix, shape] : optimizer_of(variable, initial.shape).slots) {
      const GoldenTensor& slot = golden.at("final_slot/" + variable + suffix);
      EXPECT_EQ(slot.shape, shape) << variable << suffix;
      expect_close(name + " " + variable + suffix, one.value(suffix), slot.values, 1e-5, 1e-12);
    }
  }
}

Optimizer sgd() {
  return {{}, [](const Tensor& w, const Tensor& g, const Tensors&, const Tensor& rate, const Tensor&) {
            return AdafactorUpdate{sgd_update(w, g, rate), {}};
          }};
}

Optimizer momentum(const Shape& shape) {
  return {{{"_momentum_v", shape}},
          [](const Tensor& w, const Tensor& g, const Tensors& slots, const Tensor& rate, const Tensor&) {
            const MomentumUpdate u = momentum_update(w, g, slots[0], rate, 0.9);
            return AdafactorUpdate{u.weight, {u.velocity}};
          }};
}

Optimizer adam(const Shape& shape, const AdamOptions& options) {
  return {
      {{"/adam_m", shape}, {"/adam_v", shape}},
      [options](const Tensor& w, const Tensor& g, const Tensors& slots, const Tensor& rate, const Tensor&) {
        const AdamUpdate u = adam_update(w, g, slots[0], slots[1], rate, options);
        return AdafactorUpdate{u.weight, {u.first_moment, u.second_moment}};
      }};
}

Optimizer adafactor(const Shape& shape, const AdafactorOptions& options) {
  return {adafactor_slots(shape, options),
          [options](const Tensor& w, const Tensor& g, const Tensors& slots, const Tensor& rate,
                    const Tensor& decay) { return adafactor_update(w, g, slots, rate, decay, options); }};
}

OptimizerOf adafactor_of(const AdafactorOptions& options) {
  return [options](const std::string&, const Shape& shape) { return adafactor(shape, options); };
}

double default_rate(int step) { return std::min(1 / std::sqrt(step + 1.0), 0.01); }
Schedule constant(double value) {
  return [value](int) { return value; };
}

TEST(OptimizerUpdates, HaveTheRecordedTrajectories) {
  expect_golden(
      "07_sgd", [](const std::string&, const Shape&) { return sgd(); }, constant(0.1));
  expect_golden(
      "07_momentum", [](const std::string&, const Shape& shape) { return momentum(shape); }, constant(0.1));
  expect_golden(
      "07_adam_weight_decay",
      [](const std::string& name, const Shape& shape) {
        return adam(shape, {.weight_decay = name.find("layer_norm") == std::string::npos ? 0.01 : 0});
      },
      constant(0.01));
}

TEST(Adafactor, HasTheRecordedTrajectories) {
  const AdafactorOptions defaults{.min_dim_size_to_factor = 6};
  expect_golden("07_adafactor_default", adafactor_of(defaults), default_rate, pow_decay);
  expect_golden("07_adafactor_explicit_lr", adafactor_of(defaults), constant(0.05), pow_decay);
  expect_golden("07_adafactor_unfactored_128", adafactor_of({}), default_rate, pow_decay);
  expect_golden("07_adafactor_not_factored", adafactor_of({.factored = false}), constant(0.1), pow_decay);
  expect_golden("07_adafactor_adam_decay", adafactor_of(defaults), constant(0.03),
                [](int step) { return 0.99 * (1 - std::pow(0.99, step)) / (1 - std::pow(0.99, step + 1)); });
  expect_golden("07_adafactor_pow_offset", adafactor_of(defaults), constant(0.03),
                [](int step) { return 1 - std::pow(step + 4, -0.7); });
}

TEST(Adafactor, HasTheRecordedTrajectoriesOfItsOptions) {
  AdafactorOptions options{.min_dim_size_to_factor = 6};
  options.clipping_threshold = 0.5;
  expect_golden("07_adafactor_clip_half", adafactor_of(options), default_rate, pow_decay);
  options.clipping_threshold = std::nullopt;
  expect_golden("07_adafactor_no_clip", adafactor_of(options), default_rate, pow_decay);
  options = {.beta1 = 0.9, .min_dim_size_to_factor = 6};
  expect_golden("07_adafactor_momentum", adafactor_of(options), default_rate, pow_decay);
  options = {.multiply_by_parameter_scale = false, .min_dim_size_to_factor = 6};
  expect_golden(
      "07_adafactor_no_param_scale", adafactor_of(options),
      [](int step) { return 0.05 * default_rate(step); }, pow_decay);
  options = {
      .epsilon1 = 1e-20, .epsilon2 = 1e-2, .min_dim_size_to_factor = 6, .stacked_dim_names = {"stack"}};
  expect_golden(
      "07_adafactor_stacked_excluded",
      [options](const std::string& name, const Shape& shape) {
        AdafactorOptions of_name = options;
        of_name.multiply_by_parameter_scale = name.find("layer_norm") == std::string::npos;
        return adafactor(shape, of_name);
      },
      default_rate, pow_decay);
}

/// Runs two steps of loss = sum of c w^2 from w0. The expected weights are those of Mesh TensorFlow 0.1.21;
/// for momentum, whose order of operations that leaves open, those of the formula.
void expect_two_steps(const Optimizer& optimizer, double rate, const Values& first, const Values& second) {
  const Values c{1, -2, 3, -4, 5, 6};
  const Shape shape{{"a", 2}, {"b", 3}};
  OneVariable one("w", shape, {.1, .2, .3, .4, .5, .6},
                  [&](const std::string&, const Shape&) { return optimizer; });
  for (int step = 0; step < 2; ++step) {
    Values gradient = c;
    for (size_t i = 0; i < c.size(); ++i) gradient[i] *= 2 * one.value()[i];
    expect_close("step " + std::to_string(step),
                 one.step(gradient, rate ? rate : default_rate(step), pow_decay(step)),
                 step == 0 ? first : second, 3e-6);
  }
}

TEST(OptimizerUpdates, FollowTheWorkedExamples) {
  const Shape shape{{"a", 2}, {"b", 3}};
  expect_two_steps(sgd(), .1, {.08, .28, .12, .72, 0, -.12}, {.064, .392, .048, 1.296, 0, .024});
  expect_two_steps(momentum(shape), .1, {.08, .28, .12, .72, 0, -.12},
                   {.046, .464, -.114, 1.584, -.45, -.624});
  expect_two_steps(adam(shape, {.weight_decay = .01}), .1,
                   {-.216278, .516015, -.016522, .715825, .183274, .283174},
                   {-.048469, .913228, -.283419, 1.130040, -.193123, -.109618});
  expect_two_steps(adafactor(shape, {}), 0, {.096106, .203894, .296106, .403894, .496106, .596106},
                   {.092292, .207806, .292248, .407790, .492239, .592237});
  expect_two_steps(adafactor(shape, {.min_dim_size_to_factor = 2}), 0,
                   {.098830, .202965, .295449, .403973, .496069, .596138},
                   {.097680, .205983, .290954, .407948, .492168, .592301});
  expect_two_steps(
      adafactor(shape, {.multiply_by_parameter_scale = false, .beta1 = .9, .min_dim_size_to_factor = 2}), .1,
      {.096995, .207612, .288314, .410203, .489906, .590083},
      {.091395, .222509, .266367, .429694, .470827, .571306});
}

TEST(Adam, CorrectsTheBiasOfItsMoments) {
  Graph graph;
  const Shape shape{{"d", 2}};
  const AdamUpdate u =
      adam_update(graph.input("w", shape), graph.input("g", shape), graph.constant(0, DType::kFloat32, shape),
                  graph.constant(0, DType::kFloat32, shape), graph.constant(0.1), {.epsilon = 0},
                  {graph.input("first", {}), graph.input("second", {})});
  const std::map<std::string, Values> feeds{
      {"w", {1, 2}}, {"g", {3, -0.01}}, {"first", {1 / (1 - 0.9)}}, {"second", {1 / (1 - 0.999)}}};
  expect_close("the first step is the sign of the gradient", evaluate(graph, {u.weight}, feeds)[0],
               {0.9, 2.1}, 1e-6);
}

TEST(Adafactor, FactorsTheTwoLargestDimensions) {
  const AdafactorOptions options{.min_dim_size_to_factor = 4, .stacked_dim_names = {"stack"}};
  const auto factored = [&](const char* shape) { return factored_dimensions(Shape::parse(shape), options); };
  EXPECT_EQ(factored("a:4;b:9;c:5")->largest.name, "b");
  EXPECT_EQ(factored("a:4;b:9;c:5")->second.name, "c");
  EXPECT_EQ(factored("a:6;b:6;c:6")->largest.name, "a") << "ties keep the declared order";
  EXPECT_EQ(factored("a:6;b:6;c:6")->second.name, "b");
  EXPECT_FALSE(factored("a:100;b:3"));
  EXPECT_FALSE(factored("stack:100;b:50")) << "stacked dimensions are never factored";
}

// Large weights are summed in blocks and long rows in pieces; the result must be that of the formula.
TEST(Adafactor, OfALargeWeightFollowsTheFormula) {
  const int64_t rows = 150, columns = 5000;
  const Shape shape{{"rows", rows}, {"columns", columns}};
  ASSERT_TRUE(adafactor_blocks(shape));
  Values w(shape.size()), g(shape.size());
  for (size_t i = 0; i < w.size(); ++i) {
    w[i] = static_cast<float>(std::sin(0.01 * static_cast<double>(i)));
    g[i] = static_cast<float>(std::cos(0.37 * static_cast<double>(i)) * (1 + static_cast<double>(i % 10)));
  }
  Values vr(rows), vc(columns);  // vr lacks the largest dimension
  double of_w = 0, mean_row = 0;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      const double s = g[r * columns + c] * g[r * columns + c];
      vr[r] += s / static_cast<double>(columns);
      vc[c] += s / static_cast<double>(rows);
      of_w += w[r * columns + c] * w[r * columns + c];
    }
    mean_row += vr[r] / static_cast<double>(rows);
  }
  Values x(w.size());
  double squares = 0;
  for (size_t i = 0; i < w.size(); ++i) {
    x[i] = g[i] / std::sqrt(vr[i / columns] / mean_row * vc[i % columns]);
    squares += x[i] * x[i];
  }
  const double n = static_cast<double>(w.size());
  const double scale = 0.01 * std::sqrt(of_w / n) / std::max(1.0, std::sqrt(squares / n) / 0.5);
  Values expected = w;
  for (size_t i = 0; i < w.size(); ++i) expected[i] -= scale * x[i];

  OneVariable one("w", shape, w, adafactor_of({.clipping_threshold = 0.5}));
  expect_close("w", one.step(g, 0.01, 0), expected, 1e-6);
  expect_close("vr", one.value("_slot_vr"), vr, 2e-6);
  expect_close("vc", one.value("_slot_vc"), vc, 2e-6);
}

TEST(AllFinite, SeesInfinityAndNaNAnywhere) {
  Graph graph;
  const Tensor x = graph.input("x", {{"d", 3}}), loss = graph.input("loss", {});
  const Tensor finite = all_finite({loss, x});
  EXPECT_EQ(finite.dtype(), DType::kBool);
  const auto of = [&](Values values, double loss) {
    return evaluate(graph, {finite}, {{"x", values}, {"loss", {loss}}})[0][0];
  };
  EXPECT_EQ(of({1, -3e38, 0}, 2), 1);
  EXPECT_EQ(of({1, std::nan(""), 0}, 2), 0);
  EXPECT_EQ(of({1, 2, -INFINITY}, 2), 0);
  EXPECT_EQ(of({1, 2, 3}, INFINITY), 0);
}

TEST(OptimizerUpdates, KeepBFloat16WeightsWithFloat32Slots) {
  Graph graph;
  const Shape shape{{"d", 2}};
  const Tensor w = graph.input("w", shape, DType::kBFloat16), g = graph.input("g", shape, DType::kBFloat16);
  const Tensor v = graph.input("v", shape);
  const MomentumUpdate u = momentum_update(w, g, v, graph.constant(0.5), 0.5);
  EXPECT_EQ(u.weight.dtype(), DType::kBFloat16);
  EXPECT_EQ(u.velocity.dtype(), DType::kFloat32);
  EXPECT_EQ(evaluate(graph, {u.weight}, {{"w", {1, 2}}, {"g", {1, 0}}, {"v", {0, 1}}})[0],
            (Values{0.5, 1.5}));
}

/// Slots as stochastic rounding stores them: `shift` selects the half of an element's random bits.
Values rounded(const Values& slot, const std::string& name, int shift = 0) {
  const PhiloxKey key = random_key(name, EvaluateOptions().seed);
  Values result;
  for (size_t i = 0; i < slot.size(); ++i) {
    const uint32_t bits = random_bits(key, RandomStream::kRounding, 0, static_cast<int64_t>(i)) >> shift;
    result.push_back(static_cast<float>(round_stochastically(static_cast<float>(slot[i]), bits)));
  }
  return result;
}

TEST(OptimizerUpdates, RoundBFloat16SlotsAfterTheStep) {
  const Shape shape{{"rows", 9}, {"columns", 150}};
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    Graph graph;
    const Tensor w = graph.input("w", shape, dtype), g = graph.input("g", shape), rate = graph.constant(0.5);
    std::map<std::string, Values> feeds;
    for (const char* name : {"w", "g", "m", "v"}) {
      Values& values = feeds[name];
      for (int64_t i = 0; i < shape.size(); ++i)
        values.push_back(0.25 + static_cast<double>(i * 37 % 64) / 64);
    }
    for (double& g : feeds["g"]) g = static_cast<float>(g / 3);
    Tensors outputs;
    for (const DType slot : {DType::kFloat32, DType::kBFloat16}) {
      const Tensor m = graph.input("m", shape, slot), v = graph.input("v", shape, slot);
      const MomentumUpdate momentum = momentum_update(w, g, v, rate, 0.9);
      const AdamUpdate adam = adam_update(w, g, m, v, rate, {.weight_decay = 0.1});
      for (const Tensor& t :
           {momentum.weight, momentum.velocity, adam.weight, adam.first_moment, adam.second_moment})
        outputs.push_back(t);
    }
    const std::vector<Values> values = evaluate(graph, outputs, feeds);
    EXPECT_EQ(values[5], values[0]) << "the step is that of float32";
    EXPECT_EQ(values[6], rounded(values[1], "momentum_update"));
    EXPECT_EQ(values[7], values[2]);
    EXPECT_EQ(values[8], rounded(values[3], "adam_update"));
    EXPECT_EQ(values[9], rounded(values[4], "adam_update", 16));
    EXPECT_NE(values[8], values[3]);
  }
}

TEST(OptimizerUpdates, NoLayoutChangesTheRoundingOfSlots) {
  const Shape shape{{"rows", 12}, {"columns", 40}};
  Graph graph;
  const Tensor w = graph.input("w", shape), g = graph.input("g", shape), rate = graph.constant(0.5),
               m = graph.input("m", shape, DType::kBFloat16), v = graph.input("v", shape, DType::kBFloat16);
  const Values ones(static_cast<size_t>(shape.size()), 1), thirds(static_cast<size_t>(shape.size()), 1.0 / 3);
  const Mesh mesh(Shape::parse("x:2;y:4"));
  for (const Tensor& slot :
       {momentum_update(w, g, v, rate, 0.9).velocity, adam_update(w, g, m, v, rate).second_moment}) {
    const size_t inputs = slot.operation().inputs().size();
    std::vector<Values> feeds{ones, thirds};
    feeds.resize(inputs - 1, ones);
    feeds.push_back({0.5});
    const Values expected =
        evaluate(graph, {slot}, {{"w", ones}, {"g", thirds}, {"m", ones}, {"v", ones}})[0];
    for (const char* rules : {"rows:x", "columns:y", "rows:y;columns:x", "rows:x;columns:y"}) {
      const std::vector<Values> split =
          evaluate_split(slot.operation(), feeds, mesh, LayoutRules::parse(rules));
      EXPECT_EQ(split.back(), expected) << rules;
    }
  }
}

TEST(OptimizerUpdates, ReportSlotsAndScalarsThatDoNotFit) {
  Graph graph;
  const Tensor w = graph.input("w", {{"d", 2}}), other = graph.input("v", {{"e", 2}}),
               rate = graph.constant(0.1);
  EXPECT_THROW(sgd_update(w, other, rate), Error);
  EXPECT_THROW(sgd_update(w, w, w), Error);
  EXPECT_THROW(momentum_update(w, w, other, rate, 0.9), Error);
  EXPECT_THROW(adam_update(w, w, w, w, rate, {}, {rate, {}}), Error);
  EXPECT_THROW(adafactor_update(w, w, {}, rate, rate, {}), Error);
  EXPECT_THROW(adafactor_update(w, w, {other}, rate, rate, {}), Error);
  EXPECT_THROW(all_finite({}), Error);
}

}  // namespace
}  // namespace mtf::testing
