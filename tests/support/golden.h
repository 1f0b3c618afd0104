// GoldenCase reads reference values recorded from the original system (tests/golden). A test runs operations
// on the inputs of a case and compares their results and gradients with the recorded ones.
//
//   GoldenCase golden(MTF_SOURCE_DIR "/tests/golden/01_core_reduce");
//   Graph graph;
//   const Tensor x = golden.input(graph, "x"), y = golden.input(graph, "y");
//   golden.expect(graph, {{"add_bcast", add(x, y)}, {"div", divide(x, y)}});    // and output/vjp/*/*
#pragma once

#include <map>
#include <string>
#include <vector>

#include "engine/graph/graph.h"
#include "tests/support/operation_cases.h"

namespace mtf::testing {

struct GoldenTensor {
  Shape shape;  ///< names and order as in case.yaml
  DType dtype = DType::kFloat32;
  Values values;
};

class GoldenCase {
 public:
  /// `folder` holds case.yaml and tensors.safetensors. Throws Error if they do not fit together.
  explicit GoldenCase(const std::string& folder);

  /// All tensors by key: "input/x", "output/vjp/add/x", "loss", ...
  const std::map<std::string, GoldenTensor>& tensors() const { return tensors_; }
  bool has(const std::string& key) const { return tensors_.contains(key); }
  const GoldenTensor& at(const std::string& key) const;
  /// The rest of the keys that begin with `prefix`, sorted, as in names("output/vjp/").
  std::vector<std::string> names(const std::string& prefix) const;

  double forward_tolerance() const { return forward_tolerance_; }
  double gradient_tolerance() const { return gradient_tolerance_; }

  /// The graph input `name` with the values of input/NAME; the same tensor for repeated calls.
  Tensor input(Graph& graph, const std::string& name);
  /// The graph's variable `name` with the values of weight/NAME.
  Tensor weight(Graph& graph, const std::string& name);

  /// Expects that every output/NAME has the recorded values, and that for each input made by input() or
  /// weight() the gradient of sum(output * input/ct_NAME) has those of output/vjp/NAME/INPUT. Outputs without
  /// a ct_ are compared forward only. If `outputs` contains every output of the case that has a ct_, then
  /// loss, grad_input/* and grad/* are compared too.
  void expect(Graph& graph, const std::map<std::string, Tensor>& outputs);

 private:
  void expect_wanted(const Graph& graph, const std::vector<std::pair<std::string, Tensor>>& wanted) const;

  std::map<std::string, GoldenTensor> tensors_;
  double forward_tolerance_ = 1e-5;
  double gradient_tolerance_ = 1e-4;
  std::map<std::string, Tensor> inputs_, weights_;
};

/// Expects max |actual - expected| <= tolerance * max |expected| + floor; otherwise reports the worst
/// element.
void expect_close(const std::string& what, const Values& actual, const Values& expected, double tolerance,
                  double floor = 1e-6);

}  // namespace mtf::testing
