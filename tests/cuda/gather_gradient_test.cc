#include <gtest/gtest.h>

#include "engine/ops/indexing.h"
#include "tests/cuda/kernel_comparison.h"

namespace mtf::testing {
namespace {

/// The gradient of a look-up with respect to its table; ids are below `bound`, and a few select nothing.
struct Lookup {
  Shape table, ids;
  DType dtype = DType::kFloat32, out = DType::kFloat32;

  KernelComparison comparison(Graph& graph) const {
    const Tensor dy = graph.input("dy", ids + (table - Shape{table.dimension("vocab")}), dtype);
    const Tensor index = graph.input("ids", ids, DType::kInt32);
    KernelComparison comparison(graph.add<GatherGradient>(dy, index, "vocab", table, out).output());
    const int64_t vocab = table.dimension("vocab").size;
    comparison.inputs[1].values = random_whole_values(ids.size(), -1, vocab + 1, 3);
    return comparison;
  }
};

constexpr std::pair<DType, DType> kTypePairs[] = {{DType::kFloat32, DType::kFloat32},
                                                  {DType::kBFloat16, DType::kBFloat16},
                                                  {DType::kBFloat16, DType::kFloat32},
                                                  {DType::kFloat64, DType::kFloat64},
                                                  {DType::kInt32, DType::kInt32}};

/// Entries with few places are added in the order of the CPU's kernel, so the bits are the same.
TEST(GatherGradient, AddsInTheOrderOfTheIds) {
  const Dimension vocab{"vocab", 12}, a{"a", 5}, b{"b", 30}, heads{"heads", 2};
  for (const auto& [dtype, out] : kTypePairs) {
    for (int64_t width : {1, 3, 8, 40}) {
      const Dimension d{"d", width};
      const Lookup lookups[] = {{{vocab, d}, {a, b}, dtype, out},
                                {{d, vocab}, {a, b}, dtype, out},
                                {{a, vocab, d}, {b, a}, dtype, out},
                                {{heads, vocab, d}, {b}, dtype, out},
                                {{d, vocab, b, heads}, {b, a}, dtype, out},
                                {{vocab}, {a, b}, dtype, out},
                                {{vocab, d}, {}, dtype, out}};
      for (const Lookup& lookup : lookups) {
        Graph graph;
        lookup.comparison(graph).expect_same();
      }
    }
  }
}

TEST(GatherGradient, OfASliceOfTheTable) {
  Graph graph;
  const Lookup lookup{{{"vocab", 12}, {"d", 8}}, {{"a", 50}}};
  KernelComparison comparison = lookup.comparison(graph);
  comparison.outputs[0].take({{"vocab", 4}, {"d", 8}}, {4, 0});
  comparison.expect_same();
}

/// Vocabularies whose ids have several digits, and more places than a block sorts.
TEST(GatherGradient, SortsManyPlaces) {
  for (int64_t vocab : {255, 256, 70000}) {
    Graph graph;
    const Lookup lookup{{{"vocab", vocab}, {"d", 4}}, {{"a", 9000}}};
    KernelComparison comparison = lookup.comparison(graph);
    comparison.tolerance = vocab < 1000 ? 1e-5 : 0;
    comparison.expect_same();
  }
}

TEST(GatherGradient, SortsManyPlacesOfSeveralBatches) {
  Graph graph;
  const Lookup lookup{{{"batch", 3}, {"vocab", 500}, {"d", 2}}, {{"batch", 3}, {"a", 3000}}};
  lookup.comparison(graph).expect_same();
}

/// Uses whole numbers, whose sums are exact in any order.
TEST(GatherGradient, EntriesWithManyPlaces) {
  for (const auto& [dtype, out] : kTypePairs) {
    if (out == DType::kBFloat16) continue;
    for (int64_t width : {1, 8}) {
      for (int64_t places : {511, 512, 1024, 5000}) {
        Graph graph;
        const Lookup lookup{{{"vocab", 7}, {"d", width}}, {{"a", places}}, dtype, out};
        KernelComparison comparison = lookup.comparison(graph);
        comparison.inputs[0].values = random_whole_values(places * width, -9, 10, 4);
        for (size_t i = 0; i < comparison.inputs[1].values.size(); ++i) {
          if (i % 5 != 0) comparison.inputs[1].values[i] = 3;
        }
        comparison.expect_same();
        comparison.inputs[1].values.assign(static_cast<size_t>(places), 6);
        comparison.expect_same();
        comparison.inputs[1].values.assign(static_cast<size_t>(places), -1);
        comparison.expect_same();
      }
    }
  }
}

}  // namespace
}  // namespace mtf::testing
