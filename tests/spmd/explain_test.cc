// Facts about programs: the counters agree with the original system, and work and traffic agree with the
// executor's counts.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include "engine/graph/structural.h"
#include "engine/ops/binary.h"
#include "engine/ops/dynamic_update_slice.h"
#include "engine/ops/einsum.h"
#include "engine/ops/indexing.h"
#include "engine/ops/normalization.h"
#include "engine/ops/reduce.h"
#include "engine/ops/reshape.h"
#include "engine/ops/shift.h"
#include "engine/ops/unary.h"
#include "engine/spmd/program_facts.h"
#include "tests/support/random_graph.h"
#include "tests/support/run_on_mesh.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

const Dimension kA{"a", 4}, kB{"b", 4}, kC{"c", 6};

/// The elements of the counters whose names begin with `prefix`.
std::map<std::string, double> elements(const ProgramFacts& facts, const std::string& prefix) {
  std::map<std::string, double> result;
  for (const auto& [name, counter] : facts.counters) {
    if (name.starts_with(prefix)) result[name] = counter.elements;
  }
  return result;
}

double bytes(const ProgramFacts& facts, const std::string& name) {
  const auto found = facts.counters.find(name);
  return found == facts.counters.end() ? 0 : found->second.bytes;
}

TEST(Counters, ASumOfTwoPartialContractionsIsReducedOnce) {
  Graph graph;
  const Tensor z = einsum({graph.input("x", {kA, kB}), graph.input("y", {kB, kC})}, {kA, kC});
  graph.set_output("sum", add(z, z));
  const ProgramFacts facts = program_facts(partition(graph, layouts("x:2;y:2", "b:x;a:y")));
  // The counts of Mesh TensorFlow 0.1.21.
  EXPECT_THAT(elements(facts, "einsum"), UnorderedElementsAre(Pair("einsum", 96), Pair("einsum_unique", 96)));
  EXPECT_THAT(elements(facts, "allreduce"), ElementsAre(Pair("allreduce/[0]/einsum_op", 48)));
  EXPECT_EQ(bytes(facts, "allreduce/[0]/einsum_op"), 48 * 4);  // each of 2 sends half of its part twice
  EXPECT_THAT(
      elements(facts, "output/"),
      UnorderedElementsAre(Pair("output/add", 48), Pair("output/einsum", 48), Pair("output/input", 64)));
  EXPECT_EQ(elements(facts, "output_unique/").at("output_unique/einsum"), 24);
}

TEST(Counters, AShiftCountsWhatLeavesItsPosition) {
  const auto shifted = [](int64_t offset, bool wrap) {
    Graph graph;
    graph.set_output("y", shift(graph.input("x", {{"length", 8}}), offset, "length", wrap));
    const ProgramFacts facts = program_facts(partition(graph, layouts("all:4", "length:all")));
    double sent = 0;
    for (const auto& [name, elements] : elements(facts, "shift")) sent += bytes(facts, name);
    EXPECT_EQ(sent, facts.bytes_sent * 4) << offset;
    return elements(facts, "shift");
  };
  // The counts of Mesh TensorFlow 0.1.21.
  EXPECT_THAT(shifted(3, false), UnorderedElementsAre(Pair("shift[1]", 4), Pair("shift[2]", 4)));
  EXPECT_THAT(shifted(-3, true), UnorderedElementsAre(Pair("shift[-2]", 4), Pair("shift[-1]", 4)));
  EXPECT_THAT(shifted(2, false), ElementsAre(Pair("shift[1]", 8)));
  EXPECT_THAT(shifted(1, false), ElementsAre(Pair("shift[1]", 4)));  // the other half stays
  EXPECT_THAT(shifted(8, false), IsEmpty());
  EXPECT_THAT(shifted(8, true), IsEmpty());
}

TEST(Counters, ReshapesThatCommunicate) {
  const auto renamed = [](const std::string& layout) {
    Graph graph;
    const Tensor x = graph.input("x", {kA, kB});
    graph.set_output("y", rename(x, "a", "d"));
    return program_facts(partition(graph, layouts("x:2", layout)));
  };
  const ProgramFacts moved = renamed("a:x");
  // The counter counts the elements of the gathered results.
  EXPECT_THAT(elements(moved, "allconcat"), ElementsAre(Pair("allconcat/0/reshape_op", 32)));
  EXPECT_EQ(bytes(moved, "allconcat/0/reshape_op"), 2 * 8 * 4);
  EXPECT_THAT(elements(renamed("d:x"), "all"), IsEmpty());  // a slice sends nothing

  Graph graph;
  graph.set_output("y", reshape(graph.input("x", {kA, kB}), {{"c", 4}, {"d", 4}}));
  const ProgramFacts exchanged = program_facts(partition(graph, layouts("x:2", "a:x;d:x")));
  EXPECT_THAT(elements(exchanged, "all"), ElementsAre(Pair("alltoall/0/reshape_op", 16)));
  EXPECT_EQ(exchanged.counters.at("output/reshape").elements, 16);
}

TEST(Counters, VariablesCountOnce) {
  Graph graph;
  graph.variable("w", {kA, kB}, DType::kFloat32, Initializer::zeros());
  graph.variable("slot", {kC}, DType::kFloat32, Initializer::zeros(), Variable::Kind::kSlot);
  const ProgramFacts facts = program_facts(partition(graph, layouts("x:2", "a:x")));
  EXPECT_THAT(elements(facts, "variables"),
              UnorderedElementsAre(Pair("variables/trainable", 16), Pair("variables/untrainable", 6)));
  EXPECT_EQ(bytes(facts, "variables/trainable"), 64);
}

TEST(Counters, TotalsSumEveryPrefix) {
  const ProgramCounters totals = counter_totals({{"allreduce/[0]/einsum_op", {4, 32}},
                                                 {"allreduce/[0]/reduce_op", {1, 8}},
                                                 {"allreduce/[1]/x", {2, 0}},
                                                 {"einsum", {9, 0}}});
  std::map<std::string, double> elements;
  for (const auto& [name, counter] : totals) elements[name] = counter.elements;
  EXPECT_THAT(elements, ElementsAre(Pair("allreduce", 7), Pair("allreduce/[0]", 5),
                                    Pair("allreduce/[0]/einsum_op", 4), Pair("allreduce/[0]/reduce_op", 1),
                                    Pair("allreduce/[1]", 2), Pair("allreduce/[1]/x", 2), Pair("einsum", 9)));
  EXPECT_EQ(totals.at("allreduce").bytes, 40);
}

/// loss = sum of x w over two layers, with the batch in `count` parts.
std::unique_ptr<Graph> looped(int64_t count) {
  auto graph = std::make_unique<Graph>();
  const Dimension batch{"batch", 8};
  const Tensor x = graph->input("x", {batch, kA});
  const Tensors sums = repeat(*graph, count, {}, {"batch", count}, [&](const Tensors&) -> LoopResult {
    const auto scope = graph->scope("layer");
    const Tensor part = microbatch_slice(x);
    const Tensor w = graph->read(graph->variable("w", {kA, kC}, DType::kFloat32, Initializer::zeros()));
    return {{}, {reduce_sum(einsum({part, w}, Shape{{"batch", 8 / count}, kC}), {})}, {}};
  });
  graph->set_output("loss", sums[0]);
  return graph;
}

TEST(Facts, BodiesOfLoopsCountAsOftenAsTheyRun) {
  const std::unique_ptr<Graph> graph = looped(4);
  const ProgramFacts facts = program_facts(partition(*graph, layouts("x:2", "batch:x")));
  ASSERT_EQ(facts.contractions.size(), 1u);
  EXPECT_EQ(facts.contractions[0].times, 4);
  EXPECT_EQ(facts.contractions[0].origin.layer.path(), "layer");
  EXPECT_EQ(facts.flops, 2 * 8 * 4 * 6 / 2);
  EXPECT_EQ(facts.unique_flops, 2 * 8 * 4 * 6);
  EXPECT_EQ(elements(facts, "einsum").at("einsum"), 8 * 4 * 6);
  ASSERT_EQ(facts.collectives.size(), 1u);  // the sum, once after the loop
  EXPECT_EQ(facts.collectives[0].times, 1);
  EXPECT_EQ(facts.collectives[0].origin.operation, "reduce_sum");
  EXPECT_EQ(facts.collectives[0].origin.layer.path(), "layer");
}

/// The operations of a program with its updates or moves as "kind bytes", in their order.
std::vector<std::string> work(const Program& program) {
  std::vector<std::string> texts;
  for_each_work(program, [&](const WorkFact& fact) {
    texts.push_back(fmt::format("{} {}", name_of(fact.work.kind), fact.work.bytes));
  });
  return texts;
}

TEST(Work, CountsTheBytesThatAPositionReadsAndWrites) {
  Graph graph;
  const Tensor x = graph.input("x", {kA, kB});
  const Tensor z = einsum({relu(x), graph.input("w", {kB, kC})}, {kA, kC});
  graph.set_output("z", rms_norm(z, "c", graph.input("scale", {kC})));
  // A position has half of each tensor but w and the scale.
  EXPECT_THAT(work(partition(graph, layouts("all:2", "a:all"))),
              ElementsAre("elementwise 64", "products 176", "norms 128"));
}

TEST(Work, ViewsMoveNothingAndChangesInPlaceOnlyTheirPart) {
  Graph graph;
  const Tensor table = graph.input("table", {{"row", 100}, kA});
  const Tensor found = gather(table, graph.input("ids", {kB}, DType::kInt32), "row");
  const Variable& cache =
      graph.variable("cache", {kB, kA, {"place", 50}}, DType::kFloat32, Initializer::zeros());
  const Tensor index = graph.input("index", {}, DType::kInt32);
  graph.assign(cache, dynamic_update_slice(graph.read(cache), found, index, "place"));
  graph.set_output("y", negative(reshape(found, Shape{{"all", 16}})));
  EXPECT_THAT(work(partition(graph, layouts("", ""))),
              ElementsAre("movement 128", "movement 136", "elementwise 128"));
}

TEST(Work, IsCountedAsOftenAsALoopRuns) {
  const std::unique_ptr<Graph> graph = looped(4);
  int64_t products = 0, collectives = 0;
  for_each_work(partition(*graph, layouts("x:2", "batch:x")), [&](const WorkFact& fact) {
    if (fact.work.kind == WorkKind::kProduct) products += fact.times;
    if (fact.work.kind == WorkKind::kCollective) collectives += fact.times;
  });
  EXPECT_EQ(products, 4);
  EXPECT_EQ(collectives, 1);
}

TEST(Facts, RepeatedWorkNamesTheMeshDimensionsThatDoNotShareIt) {
  const auto matmul_on = [](const std::string& mesh, const std::string& layout) {
    Graph graph;
    graph.set_output("z", einsum({graph.input("x", {kA, kB}), graph.input("y", {kB, kC})}, {kA, kC}));
    return program_facts(partition(graph, layouts(mesh, layout)));
  };
  const ProgramFacts repeated = matmul_on("x:2;y:3;one:1", "b:x");
  ASSERT_EQ(repeated.contractions.size(), 1u);
  const ContractionFact& contraction = repeated.contractions[0];
  EXPECT_EQ(contraction.repeated, axis_bit(1));  // a mesh dimension of size one repeats nothing
  EXPECT_EQ(contraction.volume, (Shape{kA, kB, kC}));
  EXPECT_EQ(contraction.layout.split[1], std::vector<int>{0});
  EXPECT_EQ(repeated.flops, 2 * 4 * 2 * 6);
  EXPECT_EQ(repeated.unique_flops, 2 * 4 * 4 * 6);
  EXPECT_NEAR(repeated.repeated_flops, repeated.flops * 2 / 3, 1e-9);
  EXPECT_EQ(elements(repeated, "einsum").at("einsum"), 3 * elements(repeated, "einsum").at("einsum_unique"));
  EXPECT_EQ(matmul_on("x:2;y:3", "b:x;c:y").repeated_flops, 0);
}

TEST(Facts, TensorsOfABucketTravelTogetherAndBelongToTheirOwnLayers) {
  Graph graph;
  const Tensor x = graph.input("x", {kA, kB});
  for (const char* layer : {"first", "second"}) {
    const auto scope = graph.scope(layer);
    graph.set_output(layer, reduce_sum(x, {kB}));
  }
  const ProgramFacts facts = program_facts(partition(graph, layouts("x:2", "a:x")));
  ASSERT_EQ(facts.collectives.size(), 2u);
  EXPECT_EQ(facts.messages, 1);
  EXPECT_EQ(facts.collectives[0].message, facts.collectives[1].message);
  EXPECT_THAT(
      (std::vector{facts.collectives[0].origin.layer.path(), facts.collectives[1].origin.layer.path()}),
      UnorderedElementsAre("first", "second"));
  EXPECT_EQ(facts.traffic.at(axis_bit(0)).messages, 1);
  EXPECT_EQ(facts.traffic.at(axis_bit(0)).bytes_sent, facts.bytes_sent);
}

TEST(Facts, GathersNameTheVariableAndWhatNeedsIt) {
  Graph graph;
  const auto scope = graph.scope("layer");
  const Tensor w = graph.read(graph.variable("w", {kA, kB}, DType::kFloat32, Initializer::zeros()));
  graph.set_output("y", einsum({graph.input("x", {kB, kC}), w}, {kA, kC}));
  const ProgramFacts facts = program_facts(partition(graph, layouts("x:2", "", "a:x")));
  ASSERT_EQ(facts.collectives.size(), 1u);
  EXPECT_EQ(facts.collectives[0].kind, "all_gather");
  EXPECT_EQ(facts.collectives[0].variable, "w");
  EXPECT_EQ(facts.collectives[0].origin.operation, "einsum");
  EXPECT_EQ(facts.collectives[0].bytes_sent, 8 * 4);
  EXPECT_THAT(elements(facts, "allconcat"), ElementsAre(Pair("allconcat/0/einsum_op", 2 * 16)));
}

TEST(Facts, WorkAndTrafficAreThoseThatAreCountedInARun) {
  int compared = 0;
  for (uint32_t seed = 0; compared < 150; ++seed) {
    const RandomGraph random = random_graph(seed);
    for (const char* mesh : {"x:2", "x:3", "x:2;y:2", "x:2;y:3"}) {
      const std::unique_ptr<Layouts> layouts = random_layouts(seed, *random.graph, mesh);
      if (!layouts) continue;
      ++compared;
      MeshRunOptions options;
      options.variables = random.variables;
      options.check_replicas = seed % 2 == 0;
      const MeshRun run = run_on_mesh(*random.graph, *layouts, random.feeds, options);
      const ProgramFacts facts = program_facts(run.program);
      EXPECT_NEAR(run.counters.flops_per_position, facts.flops, 1e-9 * facts.flops) << seed << " " << mesh;
      EXPECT_NEAR(run.counters.bytes_per_position, facts.bytes_sent, 1e-9 * facts.bytes_sent)
          << seed << " " << mesh << "\n"
          << run.program.to_string();
      double of_counters = 0, of_axes = 0;
      for (const auto& [name, counter] : facts.counters) {
        if (name.starts_with("all") || name.starts_with("reducescatter") || name.starts_with("shift"))
          of_counters += counter.bytes;
      }
      for (const auto& [axes, traffic] : facts.traffic) of_axes += traffic.bytes_sent;
      const auto positions = static_cast<double>(layouts->mesh.size());
      EXPECT_NEAR(of_counters, facts.bytes_sent * positions, 1e-6 * of_counters) << seed << " " << mesh;
      EXPECT_NEAR(of_axes, facts.bytes_sent, 1e-6 * of_axes);
      if (HasFailure()) return;
    }
  }
}

}  // namespace
}  // namespace mtf::testing
