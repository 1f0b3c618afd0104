#include "trainer/optimizer/averages.h"

#include <algorithm>
#include <string_view>

#include "engine/core/convert_elements.h"
#include "trainer/optimizer/update.h"

namespace mtf {
namespace {

constexpr std::string_view kAverageSuffix = "/ema";

}  // namespace

std::string average_name(const std::string& weight) { return weight + std::string(kAverageSuffix); }

std::string averaged_weight(const std::string& variable) {
  if (!variable.ends_with(kAverageSuffix)) return {};
  return variable.substr(0, variable.size() - kAverageSuffix.size());
}

bool is_average(const Variable& variable) {
  return variable.kind == Variable::Kind::kSlot && !averaged_weight(variable.name).empty();
}

double average_rate(double decay, int64_t step) {
  const auto t = static_cast<double>(step);
  return 1 - std::min(decay, (1 + t) / (10 + t));
}

void start_average(const std::string& average, VariableStore& variables) {
  const std::string name = averaged_weight(average);
  if (variables.lie_alike(name, average)) {
    const auto from = variables.slices(name), to = variables.slices(average);
    std::vector<std::byte> buffer;
    for (size_t i = 0; i < from.size(); ++i) {
      to[i].fill([&](std::byte* values) {
        convert_elements(from[i].on_host(buffer), variables.variable(name).dtype, values,
                         variables.variable(average).dtype, from[i].shape.size());
      });
    }
    return;
  }
  const HostTensor weight = variables.get(name);
  HostTensor value(weight.shape, variables.variable(average).dtype);
  convert_elements(weight.bytes.data(), weight.dtype, value.bytes.data(), value.dtype, weight.shape.size());
  variables.set(average, value);
}

void start_averages(VariableStore& variables) {
  for (const std::string& name : variables.names()) {
    if (is_average(variables.variable(name))) start_average(name, variables);
  }
}

}  // namespace mtf
