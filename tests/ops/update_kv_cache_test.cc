// Tests caches of hypotheses that continue others against the definition, in any order of dimensions.
#include "engine/ops/update_kv_cache.h"

#include <gmock/gmock.h>

#include "engine/core/random.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

const Dimension batch{"batch", 4}, beam{"beam", 3}, heads{"heads", 2}, memory{"memory", 5}, d{"d", 4};

Values numbers(const std::string& name, int64_t count, int64_t below) {
  Values values;
  const PhiloxKey key = random_key(name, 1);
  for (int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<double>(random_bits(key, RandomStream::kData, 0, i) % below));
  return values;
}

/// Returns the element of a tensor of this shape at the coordinates `at`.
double element(const Shape& shape, const Values& values, const std::map<std::string, int64_t>& at) {
  int64_t index = 0;
  for (const Dimension& dimension : shape) index = index * dimension.size + at.at(dimension.name);
  return values[static_cast<size_t>(index)];
}

class UpdateKvCacheTest : public ::testing::Test {
 protected:
  void expect_on(const Shape& shape, const Shape& of_entry, const std::string& mesh,
                 const std::string& layout) {
    const std::map<std::string, Values> feeds = {{"cache", numbers("cache", shape.size(), 1000)},
                                                 {"entry", numbers("entry", of_entry.size(), 1000)},
                                                 {"position", {0, 2, 4, 7}},
                                                 {"parent", {0, 1, 2, 2, 0, 0, 1, 2, 0, -1, 5, 0}},
                                                 {"common", {0, 0, 0, 1, 0, 2, 0, 3, 9, 0, 0, 2}}};
    Graph graph;
    const Tensor y = update_kv_cache(graph.input("cache", shape), graph.input("entry", of_entry),
                                     graph.input("position", {batch}, DType::kInt32),
                                     graph.input("parent", {batch, beam}, DType::kInt32),
                                     graph.input("common", {batch, beam}, DType::kInt32), "beam", "memory");
    graph.set_output("y", y);
    const Layouts on = mesh.empty() ? Layouts::single() : layouts(mesh, layout);
    const Values result = run_on_mesh(graph, on, feeds).outputs.at("y");
    for (int64_t i = 0; i < shape.size(); ++i) {
      std::map<std::string, int64_t> at;
      const std::vector<int64_t> strides = shape.strides();
      for (int a = 0; a < shape.rank(); ++a) at[shape[a].name] = i / strides[a] % shape[a].size;
      const auto position = static_cast<int64_t>(element({batch}, feeds.at("position"), at));
      const auto parent = static_cast<int64_t>(element({batch, beam}, feeds.at("parent"), at));
      double expected = element(shape, feeds.at("cache"), at);
      if (at.at("memory") == position) expected = element(of_entry, feeds.at("entry"), at);
      const auto common = static_cast<int64_t>(element({batch, beam}, feeds.at("common"), at));
      if (at.at("memory") < position && at.at("memory") >= common && parent >= 0 && parent < beam.size) {
        at["beam"] = parent;
        expected = element(shape, feeds.at("cache"), at);
      }
      ASSERT_EQ(result[static_cast<size_t>(i)], expected) << shape.to_string() << " " << i;
    }
  }
};

TEST_F(UpdateKvCacheTest, WhereverTheDimensionsStand) {
  expect_on({batch, beam, heads, memory, d}, {batch, beam, heads, d}, "", "");
  expect_on({batch, beam, memory, heads, d}, {batch, beam, heads, d}, "", "");
  expect_on({d, memory, batch, heads, beam}, {heads, d, beam, batch}, "", "");
  expect_on({memory, beam, batch}, {batch, beam}, "", "");
}

TEST_F(UpdateKvCacheTest, HypothesesContinueEachOther) {
  constexpr int64_t kBeam = 6, kMemory = 3;
  for (const Values& parents :
       {Values{1, 0, 3, 2, 0, 5}, Values{1, 2, 3, 4, 5, 0}, Values{1, 0, 1, 2, 3, 3},
        Values{5, 5, 5, 5, 5, 0}, Values{0, 0, 1, 2, 3, 4}, Values{3, 4, 5, 0, 1, 2}}) {
    Graph graph;
    const Dimension rows{"beam", kBeam}, entries{"memory", kMemory};
    const Tensor y = update_kv_cache(graph.input("cache", {rows, entries}), graph.input("entry", {rows}),
                                     graph.input("position", {}, DType::kInt32),
                                     graph.input("parent", {rows}, DType::kInt32),
                                     graph.input("common", {rows}, DType::kInt32), "beam", "memory");
    Values cache, entry, expected, common;
    for (int64_t i = 0; i < kBeam; ++i) {
      common.push_back(static_cast<double>(i % 2));
      for (int64_t m = 0; m < kMemory; ++m) {
        cache.push_back(static_cast<double>(10 * i + m));
        const double from = m < i % 2 ? static_cast<double>(i) : parents[static_cast<size_t>(i)];
        expected.push_back(m + 1 < kMemory ? 10 * from + static_cast<double>(m)
                                           : static_cast<double>(100 + i));
      }
      entry.push_back(static_cast<double>(100 + i));
    }
    EXPECT_EQ(evaluate(graph, {y},
                       {{"cache", cache},
                        {"entry", entry},
                        {"position", {kMemory - 1}},
                        {"parent", parents},
                        {"common", common}})[0],
              expected);
  }
}

TEST_F(UpdateKvCacheTest, OnMeshes) {
  for (const char* layout : {"batch:x;heads:y", "batch:x;d:y", "d:x;heads:y"}) {
    SCOPED_TRACE(layout);
    expect_on({batch, beam, heads, memory, d}, {batch, beam, heads, d}, "x:2;y:2", layout);
  }
}

}  // namespace
}  // namespace mtf::testing
