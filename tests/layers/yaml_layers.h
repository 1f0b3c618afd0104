// Builds layers from YAML and applies them to an input `x`, for tests.
//
//   YamlLayers net("[dense: {output: {hidden: 3}}]", {{"batch", 2}, {"pixels", 4}});
//   EXPECT_EQ(net.y.shape(), (Shape{{"batch", 2}, {"hidden", 3}}));
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "engine/config/variables.h"
#include "layers/registry.h"
#include "tests/support/evaluate_tensors.h"

namespace mtf::testing {

struct YamlOptions {
  std::string defaults = "";
  std::string blocks = "{}";
  Mode mode = Mode::kTrain;
};

inline LayerList parse_layers(const std::string& list, Diagnostics& diagnostics,
                              const YamlOptions& options = {}) {
  const config::Node defaults = config::parse_yaml(options.defaults, "defaults.yaml", diagnostics);
  const config::Node blocks = config::parse_yaml(options.blocks, "blocks.yaml", diagnostics);
  const auto no_variables = config::resolve_variables(config::Node(), diagnostics);
  const config::Node sections =
      config::resolve(config::Node::map({{"blocks", {}, blocks}}), no_variables, {"blocks"}, diagnostics);
  const auto named = config::parse<config::Named<config::Node>>(*sections.find("blocks"), diagnostics);
  LayerParser parser(defaults, named, diagnostics);
  return parser.parse(config::parse_yaml(list, "layers.yaml", diagnostics));
}

/// Returns the problems of a list of layers, one per line, without the lines of the file.
inline std::string problems_of(const std::string& list, const YamlOptions& options = {}) {
  Diagnostics diagnostics;
  parse_layers(list, diagnostics, options);
  std::string text;
  for (Problem problem : diagnostics.errors()) {
    problem.mark.text.clear();
    text += problem.to_string() + "\n";
  }
  return text;
}

struct YamlLayers {
  YamlLayers(const std::string& list, const Shape& shape, const YamlOptions& options = {})
      : context(graph, options.mode, {}, shape[0]), x(graph.input("x", shape)) {
    Diagnostics diagnostics;
    const LayerList layers = parse_layers(list, diagnostics, options);
    diagnostics.throw_if_errors();
    y = layers(context, x);
  }

  /// Returns "layer_1/kernel [pixels=4, hidden=3]", ..., in order of creation.
  std::vector<std::string> variables() const {
    std::vector<std::string> result;
    for (const auto& variable : graph.variables())
      result.push_back(variable->name + " " + variable->shape.to_string());
    return result;
  }
  Values evaluate(const Values& input, std::map<std::string, Values> weights = {}) const {
    return testing::evaluate(graph, {y}, {{"x", input}}, {.variables = std::move(weights)})[0];
  }

  Graph graph;
  Context context;
  Tensor x;
  Tensor y;
};

/// Returns the error of building these layers on `shape`, without the lines of the file; empty if there is
/// none.
inline std::string error_of(const std::string& list, const Shape& shape, const YamlOptions& options = {}) {
  try {
    const YamlLayers layers(list, shape, options);
  } catch (const Error& error) {
    std::string text;
    for (Problem problem : error.problems()) {
      problem.mark.text.clear();
      text += problem.to_string() + "\n";
    }
    return text;
  }
  return {};
}

}  // namespace mtf::testing
