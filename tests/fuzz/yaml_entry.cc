// The entry for a single YAML document: to_yaml() of what was read must read back to the same tree.
#include "engine/base/check.h"
#include "engine/config/load.h"
#include "engine/config/variables.h"
#include "tests/fuzz/entries.h"
#include "tests/fuzz/expectations.h"

namespace mtf::fuzz {
namespace {

using config::Node;

/// Returns the tree of a text that to_yaml() wrote, in which `$$` is a dollar sign again.
Node read_back(const std::string& text) {
  Diagnostics diagnostics;
  const Node node = config::parse_yaml(text, "dump.yaml", diagnostics);
  const Node resolved = config::resolve(node, std::make_shared<config::Variables>(), {}, diagnostics);
  MTF_CHECK(!diagnostics.has_errors(), "{} in the dump\n{}", diagnostics.errors().front().to_string(), text);
  return resolved;
}

}  // namespace

void run_yaml(std::string_view input) {
  Diagnostics diagnostics;
  const Node node = config::parse_yaml(input, "input.yaml", diagnostics);
  expect_printable(diagnostics);
  if (diagnostics.has_errors()) return;
  for (const auto& dump : {config::to_yaml, config::to_flow_yaml}) {
    const std::string text = dump(node);
    const Node again = read_back(text);
    MTF_CHECK(again == node, "another tree after reading back\n{}", text);
    MTF_CHECK(dump(again) == text, "another dump after reading back\n{}\n{}", text, dump(again));
  }
}

}  // namespace mtf::fuzz
