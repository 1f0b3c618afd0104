// Tests the alignment that an attention tells, and its loss, against loops over doubles.
#include "layers/alignment.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/graph/gradients.h"
#include "tests/support/failure.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

constexpr int64_t kBatch = 2, kLength = 4, kMemory = 6, kGroups = 2, kQueries = 2, kSize = 3;

/// Attention of 2 x 2 heads, of which pairs share keys. The last two positions of the memory are padding in row 1.
struct AlignmentRun {
  explicit AlignmentRun(std::optional<int64_t> heads, Mode mode = Mode::kTrain) {
    const Dimension batch{"batch", kBatch}, length{"length", kLength}, memory{"memory_length", kMemory},
        groups{"heads", kGroups}, queries{"query_heads", kQueries}, size{"d_kv", kSize};
    const AttentionInputs inputs{.q = input("q", {batch, length, groups, queries, size}),
                                 .k = input("k", {batch, memory, groups, size}),
                                 .v = input("v", {batch, memory, groups, size}),
                                 .query_segment = graph.constant(1, DType::kInt32, Shape{batch}),
                                 .memory_segment = graph.input("segment", {batch, memory}, DType::kInt32)};
    feeds["segment"] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0};
    Alignment alignment{
        .heads = heads, .guide = graph.input("guide", {batch, length, memory}), .loss_scale = 0.5};
    feeds["guide"].assign(kBatch * kLength * kMemory, 0);
    feeds["guide"][1] = 1;                                  // target 0 of row 0
    feeds["guide"][30 + 0] = feeds["guide"][30 + 2] = 0.5;  // target 1 of row 1
    Context context(graph, mode, {}, batch);
    AttentionOptions options;
    options.extra_logit = 0;  // it takes no part
    add_alignment(context, inputs, options, Shape{groups, queries}, alignment);
    graph.set_output("weights", alignment.weights);
    const Tensor loss = context.terms().at(0).value;
    graph.set_output("loss", loss);
    graph.set_output("dq", gradients({loss}, {inputs.q})[0]);
  }

  Tensor input(const std::string& name, const Shape& shape) {
    for (int64_t i = 0; i < shape.size(); ++i)
      feeds[name].push_back(std::sin(1.7 * static_cast<double>(i) + name[0]));
    return graph.input(name, shape);
  }

  std::map<std::string, Values> outputs(const Layouts& layouts = Layouts::single()) const {
    return run_on_mesh(graph, layouts, feeds).outputs;
  }

  Graph graph;
  std::map<std::string, Values> feeds;
};

/// The mean of the first `heads` heads' softmax.
Values expected_weights(const std::map<std::string, Values>& feeds, int64_t heads) {
  Values weights(kBatch * kLength * kMemory);
  for (int64_t b = 0; b < kBatch; ++b) {
    for (int64_t l = 0; l < kLength; ++l) {
      for (int64_t h = 0; h < heads; ++h) {
        const int64_t known = b == 0 ? 6 : 4;
        std::vector<double> exponentials;
        double sum = 0;
        for (int64_t m = 0; m < known; ++m) {
          double logit = 0;
          for (int64_t s = 0; s < kSize; ++s)
            logit += feeds.at("q")[((b * kLength + l) * kGroups * kQueries + h) * kSize + s] *
                     feeds.at("k")[((b * kMemory + m) * kGroups + h / kQueries) * kSize + s];
          exponentials.push_back(std::exp(logit));
          sum += exponentials.back();
        }
        for (int64_t m = 0; m < known; ++m)
          weights[(b * kLength + l) * kMemory + m] += exponentials[m] / sum / static_cast<double>(heads);
      }
    }
  }
  return weights;
}

TEST(Alignment, IsTheMeanOfTheFirstHeads) {
  for (const int64_t heads : {1, 3, 4}) {
    const AlignmentRun run(heads);
    const Values expected = expected_weights(run.feeds, heads), actual = run.outputs().at("weights");
    EXPECT_LT(relative_difference(actual, expected), 1e-5) << heads;
  }
  EXPECT_EQ(AlignmentRun(4).outputs().at("weights"), AlignmentRun({}).outputs().at("weights"));
}

TEST(Alignment, LossIsTheCrossEntropyOfTheGuide) {
  const AlignmentRun run(3);
  const Values weights = expected_weights(run.feeds, 3);
  const auto term = [&](size_t i) { return -std::log(weights[i] + 1e-6); };
  const double expected = 0.5 * (term(1) + 0.5 * term(30) + 0.5 * term(32));
  EXPECT_NEAR(run.outputs().at("loss")[0], expected, 1e-5);
}

TEST(Alignment, EveryLayoutGivesTheSame) {
  const AlignmentRun run(3);
  const std::map<std::string, Values> expected = run.outputs();
  for (const char* layout : {"batch:x", "heads:x", "query_heads:x", "length:x", "memory_length:x", "d_kv:y",
                             "batch:x;memory_length:y"}) {
    const std::map<std::string, Values> actual = run.outputs(layouts("x:2;y:3", layout));
    for (const auto& [name, values] : expected)
      EXPECT_LT(relative_difference(actual.at(name), values), 1e-5) << layout << " " << name;
  }
}

TEST(Alignment, MoreHeadsThanThereAreAreRefused) {
  EXPECT_EQ(failure([] { AlignmentRun run(5); }),
            "`model.alignment.heads` is 5, and the attention has 4; a smaller number, or null for all heads");
}

}  // namespace
}  // namespace mtf::testing
