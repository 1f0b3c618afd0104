// One small example of each operation, from which the gradient, layout and completeness tests are made.
//
//   const CaseRegistration relu_case("relu", [](CaseBuilder& c) {
//     return Tensors{relu(c.input("x", {{"a", 4}, {"b", 6}}))};
//   });
//
// Dimension sizes should be divisible by 2 (better 4, one by 3) so that many layouts are legal.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"

namespace mtf::testing {

/// The values of a graph input or output in row-major declared order; ids and flags are whole numbers.
using Values = std::vector<double>;

/// Collects the inputs of a case together with their (reproducible, pseudo-random) values.
class CaseBuilder {
 public:
  CaseBuilder(Graph& graph, DType floating) : graph(graph), floating(floating) {}

  /// A floating-point input, uniform on [low, high), with distinct values.
  Tensor input(const std::string& name, const Shape& shape, double low = -1, double high = 1);
  /// An int32 input of whole numbers in [low, high).
  Tensor ids(const std::string& name, const Shape& shape, int64_t low, int64_t high);
  /// An input with given values.
  Tensor values(const std::string& name, const Shape& shape, DType dtype, Values values);

  Graph& graph;
  const DType floating;
  std::map<std::string, Values> feeds;
};

struct OperationCase {
  std::string operations;  ///< names covered, separated by spaces: the operation and, where it has one, its
                           ///< gradient's
  std::function<Tensors(CaseBuilder&)> build;
};

class CaseRegistration {
 public:
  CaseRegistration(std::string operations, std::function<Tensors(CaseBuilder&)> build);
};

const std::vector<OperationCase>& operation_cases();

/// True for products of 8-bit codes and what makes their factors: a GPU refuses them in one line.
bool is_for_processors(std::string_view operation);
/// True if the case has such an operation.
bool is_for_processors(const OperationCase& operation_case);

}  // namespace mtf::testing
