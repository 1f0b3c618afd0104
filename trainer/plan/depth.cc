#include "trainer/plan/depth.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/parse_number.h"

namespace mtf {
namespace {

constexpr std::string_view kDepth = "num_layers";

void collect(const config::Node& node, std::set<std::string>& depths) {
  for (const config::Node& element : node.elements()) collect(element, depths);
  for (const config::Entry& entry : node.entries()) {
    if (entry.key == kDepth) depths.insert(entry.value.text());
    collect(entry.value, depths);
  }
}

}  // namespace

std::optional<int64_t> depth_of(const config::Node& model) {
  std::set<std::string> depths;
  collect(model, depths);
  if (depths.size() != 1) return std::nullopt;
  return parse_number<int64_t>(*depths.begin());
}

config::Node with_depth(const config::Node& model, int64_t depth) {
  if (model.is_list()) {
    std::vector<config::Node> elements;
    for (const config::Node& element : model.elements()) elements.push_back(with_depth(element, depth));
    return config::Node::list(std::move(elements), model.mark());
  }
  config::Node result = model;
  for (const config::Entry& entry : model.entries()) {
    const bool is_depth = entry.key == kDepth;
    config::Entry changed = entry;
    changed.value = is_depth ? config::Node::scalar(std::to_string(depth), entry.value.mark())
                             : with_depth(entry.value, depth);
    result = result.with(std::move(changed));
  }
  return result;
}

}  // namespace mtf
