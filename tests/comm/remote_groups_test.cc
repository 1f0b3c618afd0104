#include "engine/comm/remote_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Kind = Collective::Kind;

/// Returns the process groups of a collective over `axes`; checks that all processes compute the same ones.
ProcessGroups process_groups_of(const char* text, int processes, AxisMask axes, Kind kind, AxisMask varies) {
  const Mesh mesh(Shape::parse(text));
  const bool same = kind == Kind::kAllReduce || kind == Kind::kAllGather;
  const RemoteGroupRequest request{
      .kind = kind, .axes = axes, .computed = same ? varies & ~axes : varies, .stored = varies};
  const auto groups_in = [&](int process) {
    const auto groups = RemoteGroupPlan(HostedMesh(mesh, {processes, process}), request).process_groups();
    return groups ? *groups : ProcessGroups();
  };
  ProcessGroups process_groups = groups_in(0);
  for (int process = 1; process < processes; ++process) EXPECT_EQ(groups_in(process), process_groups);
  return process_groups;
}

constexpr AxisMask kFirst = 1, kSecond = 2, kBoth = 3;

TEST(EvenProcessGroups, RowsAndColumnsWithAPositionInEachProcess) {
  EXPECT_THAT(process_groups_of("rows:2;cols:3", 6, kSecond, Kind::kAllReduce, kSecond),
              ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5)));
  EXPECT_THAT(process_groups_of("rows:2;cols:3", 6, kFirst, Kind::kReduceScatter, kBoth),
              ElementsAre(ElementsAre(0, 3), ElementsAre(1, 4), ElementsAre(2, 5)));
  EXPECT_THAT(process_groups_of("rows:2;cols:3", 6, kBoth, Kind::kAllGather, kBoth),
              ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5)));
}

TEST(EvenProcessGroups, RanksCountAsMembersDoOnEveryMeshWithAPositionInEachProcess) {
  for (const char* text :
       {"a:2", "a:5", "a:2;b:2", "a:3;b:2", "a:2;b:3;c:2", "a:2;b:1;c:4", "a:2;b:2;c:2;d:2"}) {
    const Mesh mesh(Shape::parse(text));
    for (AxisMask axes = 1; axes <= mesh.all_axes(); ++axes) {
      if (mesh.size_of(axes) == 1) continue;
      const AxisMask others = ~axes & mesh.all_axes();
      for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather}) {
        for (const AxisMask varies : {axes, mesh.all_axes()}) {
          SCOPED_TRACE(::testing::Message() << text << " over " << mesh.names(axes));
          const ProcessGroups process_groups =
              process_groups_of(text, static_cast<int>(mesh.size()), axes, kind, varies);
          ASSERT_EQ(std::ssize(process_groups), mesh.size() / mesh.size_of(axes));
          for (const std::vector<int>& process_group : process_groups) {
            ASSERT_EQ(std::ssize(process_group), mesh.size_of(axes));
            for (size_t rank = 0; rank < process_group.size(); ++rank) {
              EXPECT_EQ(mesh.project(process_group[rank], axes), static_cast<int64_t>(rank));
              EXPECT_EQ(mesh.project(process_group[rank], others), mesh.project(process_group[0], others));
            }
          }
        }
      }
    }
  }
}

TEST(EvenProcessGroups, SeveralPositionsInAProcess) {
  EXPECT_THAT(process_groups_of("a:8", 2, kFirst, Kind::kReduceScatter, kFirst),
              ElementsAre(ElementsAre(0, 1)));
  // Two groups in each process, with one position of each group, or with two.
  EXPECT_THAT(process_groups_of("a:2;b:2", 2, kFirst, Kind::kAllReduce, kBoth),
              ElementsAre(ElementsAre(0, 1)));
  EXPECT_THAT(process_groups_of("a:4;b:2", 2, kFirst, Kind::kAllGather, kBoth),
              ElementsAre(ElementsAre(0, 1)));
  EXPECT_THAT(process_groups_of("a:2;b:4", 4, kSecond, Kind::kAllReduce, kBoth),
              ElementsAre(ElementsAre(0, 1), ElementsAre(2, 3)));
}

TEST(EvenProcessGroups, NoneWhereGroupsAreSpreadOtherwise) {
  // Columns of three over two positions in each process: the second process has parts of both rows.
  EXPECT_THAT(process_groups_of("rows:2;cols:3", 3, kSecond, Kind::kAllReduce, kBoth), IsEmpty());
  // The second row is completely within its process, the others are not.
  EXPECT_THAT(process_groups_of("rows:4;cols:2", 2, kSecond, Kind::kAllReduce, kBoth), IsEmpty());
  // Both processes are in both groups, with one member and with two, which is even only for all_reduce.
  EXPECT_THAT(process_groups_of("a:3;b:2", 2, kFirst, Kind::kAllReduce, kBoth),
              ElementsAre(ElementsAre(0, 1)));
  EXPECT_THAT(process_groups_of("a:3;b:2", 2, kFirst, Kind::kReduceScatter, kBoth), IsEmpty());
  EXPECT_THAT(process_groups_of("a:3;b:2", 2, kFirst, Kind::kAllGather, kBoth), IsEmpty());
  EXPECT_THAT(process_groups_of("a:2", 2, kFirst, Kind::kExchange, kFirst), IsEmpty());
}

TEST(RemoteGroupPlan, AllPairsOfThousandsOfProcessesShareOneListOfSuppliers) {
  const Mesh mesh(Shape::parse("a:16;b:256"));
  for (const Kind kind : {Kind::kAllGather, Kind::kReduceScatter}) {
    const AxisMask computed = kind == Kind::kAllGather ? 0 : kBoth;
    const RemoteGroupPlan plan(HostedMesh(mesh, {4096, 7}), {kind, kBoth, computed, kBoth});
    const std::vector<RemoteGroup> groups =
        plan.groups([](int64_t) { return nullptr; }, [](int64_t) { return nullptr; });
    ASSERT_EQ(groups.size(), 1u);
    ASSERT_EQ(groups[0].consumers->size(), 4096u);
    for (const RemoteGroup::Consumer& consumer : *groups[0].consumers) {
      ASSERT_EQ(consumer.suppliers, groups[0].consumers->front().suppliers);
      ASSERT_EQ(consumer.suppliers->size(), 4096u);
    }
    ASSERT_TRUE(plan.process_groups());
    EXPECT_EQ(plan.process_groups()->size(), 1u);
  }
}

TEST(RemoteGroupPlan, HasOnlyTheGroupsOfItsProcess) {
  const Mesh mesh(Shape::parse("a:64;b:64"));
  const RemoteGroupPlan plan(HostedMesh(mesh, {4096, 65}), {Kind::kAllReduce, kFirst, kSecond, kBoth});
  const std::vector<RemoteGroup> groups =
      plan.groups([](int64_t) { return nullptr; }, [](int64_t) { return nullptr; });
  ASSERT_EQ(groups.size(), 1u);
  EXPECT_EQ(groups[0].base, 1);
  EXPECT_EQ(groups[0].consumers->size(), 64u);
  ASSERT_TRUE(plan.process_groups());
  EXPECT_EQ(plan.process_groups()->size(), 64u);
}

TEST(RemoteGroupPlan, PlansOneOfManyRequests) {
  RemoteGroupPlans plans(HostedMesh(Mesh(Shape::parse("a:4")), {4, 0}));
  const RemoteGroupRequest gather{Kind::kAllGather, kFirst, 0, kFirst},
      sum{Kind::kAllReduce, kFirst, 0, kFirst};
  EXPECT_EQ(&plans.of(gather), &plans.of(gather));
  EXPECT_NE(&plans.of(gather), &plans.of(sum));
}

}  // namespace
}  // namespace mtf
