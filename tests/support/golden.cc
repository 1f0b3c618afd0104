#include "tests/support/golden.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "engine/base/error.h"
#include "engine/graph/gradients.h"
#include "engine/safetensors/safetensors.h"
#include "tests/support/evaluate_tensors.h"

namespace mtf::testing {
namespace {

Values values_of(const StoredTensor& tensor) {
  switch (tensor.dtype) {
    case DType::kFloat32: {
      const std::vector<float> values = tensor.values<float>();
      return Values(values.begin(), values.end());
    }
    case DType::kInt32: {
      const std::vector<int32_t> values = tensor.values<int32_t>();
      return Values(values.begin(), values.end());
    }
    default:
      throw Error(ErrorKind::kData,
                  fmt::format("golden tensor {} is {}", tensor.name, name_of(tensor.dtype)));
  }
}

}  // namespace

GoldenCase::GoldenCase(const std::string& folder) {
  const YAML::Node yaml = YAML::LoadFile(folder + "/case.yaml");
  if (const YAML::Node tolerance = yaml["tolerance"]) {
    forward_tolerance_ = tolerance["forward_rel"].as<double>(forward_tolerance_);
    gradient_tolerance_ = tolerance["grad_rel"].as<double>(gradient_tolerance_);
  }
  const SafetensorsFile file(folder + "/tensors.safetensors");
  for (const StoredTensor& stored : file.tensors()) {
    GoldenTensor tensor{Shape::parse(yaml["tensors"][stored.name]["dims"].as<std::string>("")), stored.dtype,
                        values_of(stored)};
    if (tensor.shape.size() != stored.size()) {
      throw Error(ErrorKind::kData, fmt::format("{}: {} has {} values, its dimensions are {}", folder,
                                                stored.name, stored.size(), tensor.shape.to_string()));
    }
    tensors_.emplace(stored.name, std::move(tensor));
  }
}

const GoldenTensor& GoldenCase::at(const std::string& key) const {
  const auto found = tensors_.find(key);
  if (found == tensors_.end()) throw Error(ErrorKind::kData, fmt::format("the golden case has no {}", key));
  return found->second;
}

std::vector<std::string> GoldenCase::names(const std::string& prefix) const {
  std::vector<std::string> result;
  for (const auto& [key, tensor] : tensors_) {
    if (key.starts_with(prefix)) result.push_back(key.substr(prefix.size()));
  }
  return result;
}

Tensor GoldenCase::input(Graph& graph, const std::string& name) {
  const GoldenTensor& tensor = at("input/" + name);
  if (!inputs_.contains(name)) inputs_[name] = graph.input(name, tensor.shape, tensor.dtype);
  return inputs_[name];
}

Tensor GoldenCase::weight(Graph& graph, const std::string& name) {
  const GoldenTensor& tensor = at("weight/" + name);
  if (!weights_.contains(name)) {
    weights_[name] = graph.read(graph.variable(name, tensor.shape, tensor.dtype, Initializer::zeros()));
  }
  return weights_[name];
}

void GoldenCase::expect(Graph& graph, const std::map<std::string, Tensor>& outputs) {
  // The tensors to evaluate, each with the recorded tensor with which it is compared.
  std::vector<std::pair<std::string, Tensor>> wanted;
  Tensors ys, cts;
  for (const auto& [name, y] : outputs) {
    wanted.emplace_back("output/" + name, y);
    if (!has("input/ct_" + name)) continue;
    const Tensor ct = input(graph, "ct_" + name);
    ys.push_back(y);
    cts.push_back(ct);
    for (const std::string& operand : names("output/vjp/" + name + "/")) {
      if (!inputs_.contains(operand)) continue;
      wanted.emplace_back("output/vjp/" + name + "/" + operand, gradients({y}, {inputs_[operand]}, {ct})[0]);
    }
  }
  std::set<std::string> missing;
  for (const std::string& name : names("input/ct_")) {
    if (!outputs.contains(name)) missing.insert(name);
  }
  if (missing.empty() && !ys.empty()) {
    for (auto& [key, x] : inputs_) {
      if (has("grad_input/" + key)) wanted.emplace_back("grad_input/" + key, gradients(ys, {x}, cts)[0]);
    }
    for (auto& [key, w] : weights_) {
      if (has("grad/" + key)) wanted.emplace_back("grad/" + key, gradients(ys, {w}, cts)[0]);
    }
  }
  expect_wanted(graph, wanted);
}

void GoldenCase::expect_wanted(const Graph& graph,
                               const std::vector<std::pair<std::string, Tensor>>& wanted) const {
  std::map<std::string, Values> feeds;
  for (const auto& [name, tensor] : inputs_) feeds[name] = at("input/" + name).values;
  EvaluateOptions options;
  for (const auto& [name, tensor] : weights_) options.variables[name] = at("weight/" + name).values;
  Tensors tensors;
  for (const auto& [key, tensor] : wanted) {
    ASSERT_TRUE(tensor) << key << ": there is no gradient";
    EXPECT_EQ(tensor.shape(), at(key).shape) << key << ": " << tensor.shape().to_string();
    tensors.push_back(tensor);
  }
  const std::vector<Values> results = evaluate(graph, tensors, feeds, options);
  for (size_t i = 0; i < wanted.size(); ++i) {
    const std::string& key = wanted[i].first;
    const bool forward = key.starts_with("output/") && !key.starts_with("output/vjp/");
    expect_close(key, results[i], at(key).values, forward ? forward_tolerance_ : gradient_tolerance_);
  }
}

void expect_close(const std::string& what, const Values& actual, const Values& expected, double tolerance,
                  double floor) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  double largest = 0;
  for (double v : expected) largest = std::max(largest, std::abs(v));
  const double allowed = tolerance * largest + floor;
  size_t worst = 0;
  const auto deviation = [&](size_t i) {
    const double d = std::abs(actual[i] - expected[i]);
    return std::isnan(d) ? std::numeric_limits<double>::infinity() : d;
  };
  for (size_t i = 0; i < actual.size(); ++i) {
    if (deviation(i) > deviation(worst)) worst = i;
  }
  if (actual.empty()) return;
  EXPECT_LE(deviation(worst), allowed)
      << what << ": element " << worst << " is " << actual[worst] << ", expected " << expected[worst];
}

}  // namespace mtf::testing
