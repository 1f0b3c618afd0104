// Tests LocalSelfAttention: on one position it equals a masked attention, also in blocks if the length is
// split.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/graph/gradients.h"
#include "tests/layers/yaml_layers.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

/// An attention layer over a row, with its output and the gradients.
struct AttentionLayerRun {
  /// `free`: equal read and write priorities let every position attend to all others.
  AttentionLayerRun(const std::string& layer, int64_t length, bool causal, bool free = false) {
    const Dimension row{"length", length}, model{"d_model", 4};
    const Shape shape{{"batch", 2}, row, model};
    const Tensor x = graph.input("x", shape);
    Context context(graph, Mode::kEvaluate, {}, shape[0]);
    Sequence sequence{.length = row, .causal = causal, .has_priorities = free};
    if (free) {
      sequence.read_priority = sequence.write_priority =
          graph.constant(0, DType::kInt32, Shape{shape[0], row});
    }
    const auto entered = context.enter(sequence);
    Diagnostics diagnostics;
    const LayerList layers = parse_layers("[" + layer + "]", diagnostics);
    diagnostics.throw_if_errors();
    const Tensor y = layers(context, {x, Shape{model}});
    graph.set_output("y", y);
    const Tensor dy = graph.input("dy", y.shape());
    Tensors xs{x};
    for (const auto& variable : graph.variables()) xs.push_back(graph.read(*variable));
    const Tensors gradient = gradients({y}, xs, {dy});
    for (size_t i = 0; i < xs.size(); ++i) {
      std::string name = i == 0 ? "x" : graph.variables()[i - 1]->name;
      name = name.substr(name.rfind('/') + 1);
      graph.set_output("d" + name, gradient[i]);
      if (i == 0) continue;
      Values& values = weights[graph.variables()[i - 1]->name];
      for (int64_t j = 0; j < xs[i].shape().size(); ++j)
        values.push_back(std::sin(1.3 * static_cast<double>(j) + static_cast<double>(i)));
    }
    for (const char* name : {"x", "dy"}) {
      for (int64_t i = 0; i < shape.size(); ++i)
        feeds[name].push_back(std::cos(0.9 * static_cast<double>(i) + name[0]));
    }
  }

  std::map<std::string, Values> outputs(const Layouts& layouts = Layouts::single()) const {
    return run_on_mesh(graph, layouts, feeds, {.variables = weights}).outputs;
  }

  Graph graph;
  std::map<std::string, Values> feeds, weights;
};

void expect_equal_outputs(const std::map<std::string, Values>& actual,
                          const std::map<std::string, Values>& expected) {
  EXPECT_EQ(actual.size(), expected.size());
  for (const auto& [name, values] : expected)
    EXPECT_LE(relative_difference(actual.at(name), values), 2e-5) << name;
}

TEST(LocalSelfAttention, InBlocksIsTheMaskedAttention) {
  for (const auto& [causal, symmetric] : {std::pair(true, false), {false, false}, {false, true}}) {
    const AttentionLayerRun layer(
        fmt::format("LocalSelfAttention: {{num_heads: 2, key_value_size: 4, radius: 4, symmetric: {}}}",
                    symmetric),
        1024, causal);
    const std::map<std::string, Values> masked = layer.outputs();
    for (const char* mesh : {"x:2", "x:4", "x:8"})
      expect_equal_outputs(layer.outputs(layouts(mesh, "length:x")), masked);
  }
}

TEST(LocalSelfAttention, SeesPositionsOnlyThatAreNearerThanTheRadius) {
  for (const auto& [causal, free] : {std::pair(true, false), {false, false}, {true, true}}) {
    const AttentionLayerRun layer("LocalSelfAttention: {num_heads: 2, key_value_size: 4, radius: 3}", 32,
                                  causal, free);
    std::map<std::string, Values> changed = layer.feeds;
    for (size_t i = 0; i < 4; ++i) changed["x"][13 * 4 + i] += 1;  // position 13 of row 0
    for (const Layouts& layout : {Layouts::single(), layouts("x:8", "length:x")}) {
      const Values before = layer.outputs(layout).at("y");
      const Values after =
          run_on_mesh(layer.graph, layout, changed, {.variables = layer.weights}).outputs.at("y");
      for (size_t i = 0; i < before.size(); ++i) {
        // −radius < 13 − position ≤ 0, or ≤ radius.
        const size_t position = i / 4;
        const bool sees = position >= (causal && !free ? 13u : 10u) && position <= 15;
        EXPECT_EQ(before[i] != after[i], sees) << i << (causal ? " causal" : "") << (free ? " free" : "");
      }
    }
  }
}

TEST(LocalSelfAttention, SymmetricSeesAsManyLaterPositionsAsEarlierOnes) {
  for (const bool causal : {false, true}) {
    const AttentionLayerRun layer(
        "LocalSelfAttention: {num_heads: 2, key_value_size: 4, radius: 3, symmetric: true, rotary: true}", 32,
        causal);
    std::map<std::string, Values> changed = layer.feeds;
    for (size_t i = 0; i < 4; ++i) changed["x"][13 * 4 + i] += 1;  // position 13 of row 0
    for (const Layouts& layout :
         {Layouts::single(), layouts("x:8", "length:x"), layouts("x:2;y:2", "heads:x;length:y")}) {
      const Values before = layer.outputs(layout).at("y");
      const Values after =
          run_on_mesh(layer.graph, layout, changed, {.variables = layer.weights}).outputs.at("y");
      for (size_t i = 0; i < before.size(); ++i) {
        const size_t position = i / 4;
        EXPECT_EQ(before[i] != after[i], position >= (causal ? 13u : 11u) && position <= 15) << i;
      }
    }
  }
}

TEST(LocalSelfAttention, OfARadiusAsLargeAsTheLengthIsSelfAttention) {
  for (const auto& [causal, rotary] : {std::pair(true, ""), {false, ""}, {true, ", rotary: true"}}) {
    const std::string options = std::string("{name: a, num_heads: 2, key_value_size: 4") + rotary;
    AttentionLayerRun full("SelfAttention: " + options + "}", 64, causal);
    const std::map<std::string, Values> expected = full.outputs();
    for (const char* radius : {"64", "1000"}) {
      const AttentionLayerRun local("LocalSelfAttention: " + options + ", radius: " + radius + "}", 64,
                                    causal);
      ASSERT_EQ(local.weights, full.weights);
      for (const Layouts& layout : {Layouts::single(), layouts("x:8", "length:x")})
        expect_equal_outputs(local.outputs(layout), expected);
    }
  }
}

TEST(LocalSelfAttention, SharesKeysValuesAndHeadsInBlocksToo) {
  for (const char* options :
       {"num_memory_heads: 1", "num_memory_heads: 2", "shared_kv: true",
        "num_memory_heads: 1, shared_kv: true", "extra_logit: 0.5",
        "num_memory_heads: 2, rotary: true, rotary_scaling: {type: linear, factor: 2}"}) {
    SCOPED_TRACE(options);
    const AttentionLayerRun layer(
        std::string("LocalSelfAttention: {num_heads: 4, key_value_size: 4, radius: 5, ") + options + "}", 48,
        true);
    const std::map<std::string, Values> one = layer.outputs();
    for (const auto& [mesh, layout] :
         std::vector<std::pair<std::string, std::string>>{{"x:2", "length:x"},
                                                          {"x:2;y:2", "batch:x;length:y"},
                                                          {"x:2;y:4", "heads:x;length:y"},
                                                          {"x:8", "length:x"}})
      expect_equal_outputs(layer.outputs(layouts(mesh, layout)), one);
  }
}

}  // namespace
}  // namespace mtf::testing
