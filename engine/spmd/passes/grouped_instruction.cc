#include "engine/spmd/passes/grouped_instruction.h"

#include <algorithm>
#include <string>
#include <utility>

#include "engine/ops/multi_tensor.h"

namespace mtf {
namespace {

/// The scope that two paths share, such as "optimizer" for "optimizer/a/kernel" and "optimizer/b".
std::string common_scope(const std::string& a, const std::string& b) {
  const std::string first = a + '/', second = b + '/';
  const auto same = static_cast<size_t>(std::ranges::mismatch(first, second).in1 - first.begin());
  const size_t end = first.substr(0, same).rfind('/');
  return end == std::string::npos ? std::string() : first.substr(0, end);
}

}  // namespace

Instruction grouped_instruction(const std::vector<Instruction>& block, const std::vector<size_t>& members) {
  Instruction result = block[members[0]];
  if (members.size() == 1) return result;
  MultiTensor::Members operations = {result.as<action::Run>()->operation};
  for (size_t i = 1; i < members.size(); ++i) {
    const Instruction& member = block[members[i]];
    result.inputs.insert(result.inputs.end(), member.inputs.begin(), member.inputs.end());
    result.outputs.insert(result.outputs.end(), member.outputs.begin(), member.outputs.end());
    NamedScope& scope = result.provenance.scope;
    scope = NamedScope(common_scope(scope.path(), member.provenance.path()), scope.mark());
    operations.push_back(member.as<action::Run>()->operation);
  }
  result.action = action::Run{std::make_shared<MultiTensor>(std::move(operations))};
  return result;
}

}  // namespace mtf
