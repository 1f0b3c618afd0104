// Tests writing one entry along a dimension.
#include "engine/ops/dynamic_update_slice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/base/error.h"
#include "engine/ops/binary.h"
#include "tests/support/evaluate_tensors.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;

TEST(DynamicUpdateSlice, ReplacesOneEntryOfEachRow) {
  Graph graph;
  const Tensor y =
      dynamic_update_slice(graph.input("x", {{"row", 3}, {"n", 4}}), graph.input("entry", {{"row", 3}}),
                           graph.input("index", {{"row", 3}}, DType::kInt32), "n");
  EXPECT_EQ(y.shape(), Shape({{"row", 3}, {"n", 4}}));
  EXPECT_THAT(
      evaluate(graph, {y}, {{"x", count_from(0, 12)}, {"entry", {-1, -2, -3}}, {"index", {0, 3, 1}}})[0],
      ElementsAre(-1, 1, 2, 3, 4, 5, 6, -2, 8, -3, 10, 11));
}

TEST(DynamicUpdateSlice, AnIndexOutsideChangesNothing) {
  Graph graph;
  const Tensor x = graph.input("x", {{"row", 2}, {"n", 4}});
  const Tensor y = dynamic_update_slice(x, graph.input("entry", {{"row", 2}}),
                                        graph.input("index", {{"row", 2}}, DType::kInt32), "n");
  EXPECT_EQ(evaluate(graph, {y}, {{"x", count_from(0, 8)}, {"entry", {-1, -2}}, {"index", {-1, 4}}})[0],
            count_from(0, 8));
}

/// Computes y[.., i, ..] = i == index ? entry : x by the definition; index has dimension batch.
Values by_definition(const Shape& shape, const Values& x, const Values& entry, const Values& index) {
  const int axis = *shape.find("memory"), batch = *shape.find("batch");
  const Shape others = shape - shape[axis];
  const std::vector<int64_t> strides = shape.strides();
  Values y = x;
  for (int64_t at = 0; at < shape.size(); ++at) {
    int64_t of_entry = 0;
    for (int a = 0; a < shape.rank(); ++a) {
      if (a != axis) of_entry = of_entry * shape[a].size + at / strides[a] % shape[a].size;
    }
    const auto row = static_cast<size_t>(at / strides[batch] % shape[batch].size);
    if (at / strides[axis] % shape[axis].size == static_cast<int64_t>(index[row]))
      y[static_cast<size_t>(at)] = entry[static_cast<size_t>(of_entry)];
  }
  return y;
}

TEST(DynamicUpdateSlice, WhereverTheDimensionStands) {
  const Values index{4, 0};
  for (const Shape& shape : {Shape{{"batch", 2}, {"beam", 3}, {"heads", 2}, {"memory", 5}, {"d", 4}},
                             Shape{{"batch", 2}, {"memory", 5}}, Shape{{"memory", 5}, {"batch", 2}, {"d", 4}},
                             Shape{{"d", 4}, {"memory", 5}, {"batch", 2}}}) {
    Graph graph;
    const Shape others = shape - shape.dimension("memory");
    const Tensor y = dynamic_update_slice(graph.input("x", shape), graph.input("entry", others),
                                          graph.input("index", {{"batch", 2}}, DType::kInt32), "memory");
    const Values x = count_from(0, shape.size()), entry = count_from(1000, others.size());
    EXPECT_EQ(evaluate(graph, {y}, {{"x", x}, {"entry", entry}, {"index", index}})[0],
              by_definition(shape, x, entry, index))
        << shape.to_string();
  }
}

TEST(DynamicUpdateSlice, OneIndexForAllRows) {
  Graph graph;
  const Tensor y =
      dynamic_update_slice(graph.input("x", {{"row", 2}, {"n", 3}}), graph.input("entry", {{"row", 2}}),
                           graph.constant(1, DType::kInt32), "n");
  EXPECT_THAT(evaluate(graph, {y}, {{"x", count_from(0, 6)}, {"entry", {-1, -2}}})[0],
              ElementsAre(0, -1, 2, 3, -2, 5));
}

TEST(DynamicUpdateSlice, KeepsWhatOthersStillRead) {
  Graph graph;
  const Tensor x = graph.input("x", {{"n", 3}});
  const Tensor y =
      dynamic_update_slice(x, graph.constant(7, DType::kFloat32), graph.constant(1, DType::kInt32), "n");
  const auto values = evaluate(graph, {y, add(x, y)}, {{"x", {1, 2, 3}}});
  EXPECT_THAT(values[0], ElementsAre(1, 7, 3));
  EXPECT_THAT(values[1], ElementsAre(2, 9, 6));
}

TEST(DynamicUpdateSlice, RefusesWhatDoesNotFit) {
  Graph graph;
  const Tensor x = graph.input("x", {{"a", 2}, {"n", 4}}), entry = graph.input("entry", {{"a", 2}}),
               index = graph.input("index", {{"a", 2}}, DType::kInt32);
  EXPECT_THROW(dynamic_update_slice(x, graph.input("long", {{"a", 2}, {"n", 4}}), index, "n"), Error);
  EXPECT_THROW(dynamic_update_slice(x, graph.input("whole", {{"a", 2}}, DType::kInt32), index, "n"), Error);
  EXPECT_THROW(dynamic_update_slice(x, entry, graph.input("number", {{"a", 2}}), "n"), Error);
  EXPECT_THROW(dynamic_update_slice(x, entry, graph.input("other", {{"b", 2}}, DType::kInt32), "n"), Error);
  EXPECT_THROW(dynamic_update_slice(x, entry, graph.input("along", {{"n", 4}}, DType::kInt32), "n"), Error);
}

// A cache as in decoding: hypotheses, heads and the entry's dimension may be split; memory is gathered.
TEST(DynamicUpdateSlice, OnLayouts) {
  const Shape shape{{"batch", 4}, {"beam", 2}, {"heads", 2}, {"memory", 6}, {"d", 4}};
  const Shape others = shape - shape.dimension("memory");
  Graph graph;
  graph.set_output("y", dynamic_update_slice(graph.input("x", shape), graph.input("entry", others),
                                             graph.input("index", {{"batch", 4}}, DType::kInt32), "memory"));
  const Values x = count_from(0, shape.size()), entry = count_from(1000, others.size()), index{5, 0, 3, 9};
  const Values expected = by_definition(shape, x, entry, index);
  for (const char* layout : {"", "batch:x", "heads:x", "batch:x;heads:y", "batch:x;d:y", "beam:x;heads:y",
                             "memory:x", "batch:y;memory:x", "heads:x;memory:y"}) {
    const MeshRun run =
        run_on_mesh(graph, layouts("x:2;y:2", layout), {{"x", x}, {"entry", entry}, {"index", index}});
    EXPECT_EQ(run.outputs.at("y"), expected) << layout;
  }
}

}  // namespace
}  // namespace mtf::testing
