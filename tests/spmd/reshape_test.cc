// A reshape preserves the row-major order of the elements, however the old and the new dimensions are split
// (Mesh TensorFlow 0.1.21 corrupts data in about one of eight such reshapes).
#include "engine/ops/reshape.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "engine/ops/unary.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

using Random = std::mt19937;

int64_t pick(Random& random, int64_t low, int64_t high) {
  return std::uniform_int_distribution<int64_t>(low, high)(random);
}

/// A shape of one to four dimensions with this number of elements and names from a small set.
Shape random_shape(Random& random, int64_t size) {
  std::vector<std::string> names{"a", "b", "c", "d", "e", "f"};
  std::shuffle(names.begin(), names.end(), random);
  std::vector<Dimension> dimensions{{names[0], size}};
  for (int64_t cut = pick(random, 0, 3); cut > 0; --cut) {
    Dimension& last = dimensions.back();
    std::vector<int64_t> divisors;
    for (int64_t n = 1; n <= last.size; ++n) {
      if (last.size % n == 0) divisors.push_back(n);
    }
    const int64_t outer =
        divisors[static_cast<size_t>(pick(random, 0, static_cast<int64_t>(divisors.size()) - 1))];
    const int64_t inner = last.size / outer;
    last.size = outer;
    dimensions.push_back({names[dimensions.size()], inner});
  }
  return Shape(std::move(dimensions));
}

/// Each mesh dimension splits up to three tensor dimensions; a tensor dimension may be split over several of
/// them.
LayoutRules random_rules(Random& random, const Mesh& mesh) {
  std::map<std::string, std::vector<std::string>> rules;
  std::vector<int> axes(mesh.rank());
  std::iota(axes.begin(), axes.end(), 0);
  std::shuffle(axes.begin(), axes.end(), random);
  for (int axis : axes) {
    for (int64_t n = pick(random, 0, 3); n > 0; --n) {
      std::vector<std::string>& over = rules[std::string(1, static_cast<char>('a' + pick(random, 0, 5)))];
      if (std::find(over.begin(), over.end(), mesh.name(axis)) == over.end()) over.push_back(mesh.name(axis));
    }
  }
  std::vector<LayoutRule> result;
  for (const auto& [dimension, over] : rules) result.push_back({dimension, over, {}});
  return LayoutRules(std::move(result));
}

bool legal(const Shape& shape, const LayoutRules& rules, const Mesh& mesh) {
  AxisMask used = 0;
  for (const Dimension& d : shape) {
    const LayoutRule* rule = rules.find(d.name);
    if (!rule) continue;
    int64_t parts = 1;
    for (const std::string& name : rule->mesh_dimensions) {
      const int axis = *mesh.shape().find(name);
      if (has_axis(used, axis)) return false;
      used |= axis_bit(axis);
      parts *= mesh.size(axis);
    }
    if (d.size % parts != 0) return false;
  }
  return true;
}

Values counting(int64_t n) {
  Values values(static_cast<size_t>(n));
  std::iota(values.begin(), values.end(), 0);
  return values;
}

/// Checks `count` reshapes of random shapes, in graphs with one set of rules each. Returns how many of them
/// moved data.
int check_random_reshapes(const std::string& mesh_text, int count) {
  constexpr int64_t kSizes[] = {16, 18, 24, 32, 36, 48};
  const Mesh mesh(Shape::parse(mesh_text));
  Random random(20);
  int checked = 0, communicating = 0;
  while (checked < count) {
    const LayoutRules rules = random_rules(random, mesh);
    Graph graph;
    std::map<std::string, Values> feeds;
    for (int tries = 0; tries < 200 && feeds.size() < 50; ++tries) {
      const int64_t size = kSizes[pick(random, 0, 5)];
      const Shape from = random_shape(random, size), to = random_shape(random, size);
      if (!legal(from, rules, mesh) || !legal(to, rules, mesh)) continue;
      const std::string name = "x" + std::to_string(feeds.size());
      graph.set_output(name, reshape(graph.input(name, from), to));
      feeds[name] = counting(size);
    }
    if (feeds.empty()) continue;
    const Layouts layouts = Layouts::make(mesh, rules);
    Diagnostics diagnostics;
    check_layouts(graph, layouts, diagnostics);
    diagnostics.throw_if_errors();
    const MeshRun result = run_on_mesh(graph, layouts, feeds, {.threads = 1});
    for (const auto& [name, values] : feeds) {
      EXPECT_EQ(result.outputs.at(name), values) << name << " of\n" << result.program.to_string();
      if (::testing::Test::HasFailure()) return communicating;
    }
    for (const Instruction& instruction : result.program.instructions)
      communicating += instruction.is_collective();
    checked += static_cast<int>(feeds.size());
  }
  return communicating;
}

TEST(Reshape, KeepsTheOrderOfElementsUnderRandomLayoutsOn2x2) {
  EXPECT_GT(check_random_reshapes("x:2;y:2", 5000), 1000);
}
TEST(Reshape, KeepsTheOrderOfElementsUnderRandomLayoutsOn2x3) {
  EXPECT_GT(check_random_reshapes("x:2;y:3", 5000), 1000);
}
TEST(Reshape, KeepsTheOrderOfElementsUnderRandomLayoutsOn2x2x2) {
  EXPECT_GT(check_random_reshapes("x:2;y:2;z:2", 2000), 500);
}

MeshRun reshaped(const Shape& from, const Shape& to, const std::string& mesh, const std::string& layout) {
  Graph graph;
  graph.set_output("y", reshape(graph.input("x", from), to));
  return run_on_mesh(graph, layouts(mesh, layout), {{"x", counting(from.size())}}, {.threads = 1});
}

/// The names of the instructions of a program.
std::vector<std::string> names(const Program& program) {
  std::vector<std::string> result;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.is<action::Done>()) continue;
    const std::string line = to_string(program, instruction);
    const size_t begin = line.find("= ") + 2;
    result.push_back(line.substr(begin, line.find('(') - begin));
  }
  return result;
}

TEST(Reshape, LaysOutAgainOverAnotherMeshDimension) {
  const MeshRun result =
      reshaped({{"b", 4}}, {{"c", 4}}, "x:2;y:2", "b:y;c:x");  // the original gives 0, 2, 1, 3
  EXPECT_EQ(result.outputs.at("y"), (Values{0, 1, 2, 3}));
}

TEST(Reshape, SwapsMeshDimensions) {
  EXPECT_EQ(
      reshaped({{"a", 4}, {"b", 4}}, {{"c", 4}, {"d", 4}}, "x:2;y:2", "a:x;b:y;c:y;d:x").outputs.at("y"),
      counting(16));
  EXPECT_EQ(reshaped({{"a", 4}, {"b", 4}}, {{"c", 4}, {"d", 4}}, "x:2;y:2", "a:x;b:y;d:x").outputs.at("y"),
            counting(16));
}

TEST(Reshape, OfARenamedSplitIsOneAllToAll) {
  const MeshRun result = reshaped({{"a", 4}, {"b", 4}}, {{"c", 4}, {"d", 4}}, "x:2", "a:x;d:x");
  EXPECT_EQ(result.outputs.at("y"), counting(16));
  EXPECT_EQ(names(result.program), std::vector<std::string>{"all_to_all_start"});
  EXPECT_EQ(result.counters.bytes_per_position, 4 * 4 / 2 / 2 * 4);  // half of 8 elements
}

TEST(Reshape, IsFreeWhereTheSplitStays) {
  EXPECT_TRUE(names(reshaped({{"a", 4}, {"b", 6}}, {{"ab", 24}}, "x:2", "a:x;ab:x").program).empty());
  EXPECT_TRUE(names(reshaped({{"ab", 24}}, {{"a", 4}, {"b", 6}}, "x:2", "a:x;ab:x").program).empty());
  EXPECT_TRUE(names(reshaped({{"a", 8}, {"b", 3}}, {{"c", 4}, {"d", 6}}, "x:2", "a:x;c:x").program).empty());
}

TEST(Reshape, MovesAnInnerSplitToTheOutsideByAllToAll) {
  const MeshRun result = reshaped({{"a", 4}, {"b", 6}}, {{"ab", 24}}, "x:2", "b:x;ab:x");
  EXPECT_EQ(result.outputs.at("y"), counting(24));
  EXPECT_EQ(names(result.program), std::vector<std::string>{"all_to_all_start"});
}

TEST(Reshape, SlicesOrGathersWhereOnlyOneSideIsSplit) {
  EXPECT_EQ(names(reshaped({{"a", 4}}, {{"b", 4}}, "x:2", "b:x").program), std::vector<std::string>{"slice"});
  EXPECT_EQ(names(reshaped({{"a", 4}}, {{"b", 4}}, "x:2", "a:x").program),
            std::vector<std::string>{"all_gather_start"});
}

TEST(Rename, ToADimensionOfTheSameSplitIsFree) {
  Graph graph;
  graph.set_output("y", rename(graph.input("x", {{"a", 4}, {"b", 4}}), "a", "c"));
  const MeshRun result = run_on_mesh(graph, layouts("x:2", "a:x;c:x"), {{"x", counting(16)}});
  EXPECT_EQ(result.outputs.at("y"), counting(16));
  EXPECT_TRUE(names(result.program).empty());
}

}  // namespace
}  // namespace mtf::testing
