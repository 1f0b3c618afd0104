#include "tests/support/operation_cases.h"

#include <random>
#include <set>
#include <sstream>

#include "engine/base/check.h"

namespace mtf::testing {
namespace {

std::vector<OperationCase>& registry() {
  static std::vector<OperationCase> cases;
  return cases;
}

}  // namespace

Tensor CaseBuilder::input(const std::string& name, const Shape& shape, double low, double high) {
  std::mt19937 generator(static_cast<unsigned>(feeds.size() * 1000 + shape.size()));
  std::uniform_real_distribution<double> uniform(low, high);
  Values numbers(shape.size());
  for (double& v : numbers) v = static_cast<float>(uniform(generator));
  return values(name, shape, floating, std::move(numbers));
}

Tensor CaseBuilder::ids(const std::string& name, const Shape& shape, int64_t low, int64_t high) {
  std::mt19937 generator(static_cast<unsigned>(feeds.size() * 1000 + shape.size()));
  std::uniform_int_distribution<int64_t> uniform(low, high - 1);
  Values numbers(shape.size());
  for (double& v : numbers) v = static_cast<double>(uniform(generator));
  return values(name, shape, DType::kInt32, std::move(numbers));
}

Tensor CaseBuilder::values(const std::string& name, const Shape& shape, DType dtype, Values values) {
  MTF_CHECK(static_cast<int64_t>(values.size()) == shape.size(), "{} values for {}", values.size(),
            shape.to_string());
  feeds[name] = std::move(values);
  return graph.input(name, shape, dtype);
}

CaseRegistration::CaseRegistration(std::string operations, std::function<Tensors(CaseBuilder&)> build) {
  registry().push_back({std::move(operations), std::move(build)});
}

const std::vector<OperationCase>& operation_cases() { return registry(); }

bool is_for_processors(std::string_view operation) {
  static const std::set<std::string_view> names{"quantize_rows", "quantize_weight", "int8_product",
                                                "int8_sums"};
  return names.contains(operation);
}

bool is_for_processors(const OperationCase& operation_case) {
  std::istringstream words(operation_case.operations);
  for (std::string word; words >> word;) {
    if (is_for_processors(word)) return true;
  }
  return false;
}

}  // namespace mtf::testing
