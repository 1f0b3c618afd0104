#include "engine/backend/cuda/collectives/nccl_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "engine/comm/remote_groups.h"

namespace mtf::cuda {
namespace {

using ::testing::ElementsAre;
using Kind = Collective::Kind;

/// The group of a process in a collective over `axes` of a mesh with one position in each process.
NcclGroup group_of(const Mesh& mesh, AxisMask axes, Kind kind, AxisMask varies, int process, int parts = 1) {
  Collective collective{.kind = kind, .group = {}, .input = {4}, .transfers = {}};
  for (int axis = 0; axis < mesh.rank(); ++axis)
    if (has_axis(axes, axis)) collective.group.push_back(mesh.size(axis));
  const bool same = kind == Kind::kAllReduce || kind == Kind::kAllGather;
  std::byte memory{};
  const RemoteGroupRequest request{.kind = kind,
                                   .axes = axes,
                                   .computed = same ? varies & ~axes : varies,
                                   .stored = varies,
                                   .input = [&](int64_t) { return &memory; },
                                   .result = [&](int64_t) { return &memory; }};
  const HostedMesh hosted(mesh, {static_cast<int>(mesh.size()), process});
  std::vector<RemotePart> all(static_cast<size_t>(parts), {collective, remote_groups(hosted, request)});
  return nccl_group(all, process);
}

TEST(NcclGroup, RowsAndColumnsOfAMesh) {
  const Mesh mesh(Shape::parse("rows:2;cols:3"));
  const AxisMask rows = 1, cols = 2;
  const NcclGroup row = group_of(mesh, cols, Kind::kAllReduce, cols, 4);
  EXPECT_THAT(row.processes, ElementsAre(3, 4, 5));
  EXPECT_EQ(row.rank, 1);
  EXPECT_EQ(row.color(), 3);
  const NcclGroup column = group_of(mesh, rows, Kind::kReduceScatter, rows | cols, 4, 3);
  EXPECT_THAT(column.processes, ElementsAre(1, 4));
  EXPECT_EQ(column.rank, 1);
  EXPECT_EQ(column.color(), 1);
  EXPECT_EQ(group_of(mesh, rows | cols, Kind::kAllGather, rows | cols, 4).size(), 6);
}

TEST(NcclGroup, RanksCountAsMembersDoOnEveryMesh) {
  for (const char* text :
       {"a:2", "a:5", "a:2;b:2", "a:3;b:2", "a:2;b:3;c:2", "a:2;b:1;c:4", "a:2;b:2;c:2;d:2"}) {
    const Mesh mesh(Shape::parse(text));
    for (AxisMask axes = 1; axes <= mesh.all_axes(); ++axes) {
      for (const Kind kind : {Kind::kAllReduce, Kind::kReduceScatter, Kind::kAllGather, Kind::kExchange}) {
        for (const AxisMask varies : {axes, mesh.all_axes()}) {
          for (int process = 0; process < mesh.size(); ++process) {
            SCOPED_TRACE(testing::Message()
                         << text << " over " << mesh.names(axes) << ", process " << process);
            const NcclGroup group = group_of(mesh, axes, kind, varies, process);
            ASSERT_EQ(group.size(), mesh.size_of(axes));
            EXPECT_EQ(group.rank, mesh.project(process, axes));
            const AxisMask others = ~axes & mesh.all_axes();
            for (int rank = 0; rank < group.size(); ++rank) {
              const int other = group.processes[static_cast<size_t>(rank)];
              EXPECT_EQ(mesh.project(other, axes), rank);
              EXPECT_EQ(mesh.project(other, others), mesh.project(process, others));
            }
          }
        }
      }
    }
  }
}

/// Communicators are made at the first collective over a set of processes: all processes must see the same
/// collectives as the first.
TEST(NcclGroup, ProcessesAgreeWhetherAGroupIsNew) {
  const Mesh mesh(Shape::parse("a:2;b:1;c:3;d:2"));
  std::vector<std::set<std::vector<int>>> known(static_cast<size_t>(mesh.size()));
  for (AxisMask axes = 1; axes <= mesh.all_axes(); ++axes) {
    std::set<bool> answers;
    std::map<int, std::set<int>> keys_of_color;
    for (int process = 0; process < mesh.size(); ++process) {
      const NcclGroup group = group_of(mesh, axes, Kind::kAllReduce, mesh.all_axes(), process);
      answers.insert(known[static_cast<size_t>(process)].insert(group.processes).second);
      EXPECT_TRUE(keys_of_color[group.color()].insert(group.rank).second);
    }
    EXPECT_EQ(answers.size(), 1u) << mesh.names(axes);
    EXPECT_EQ(std::ssize(keys_of_color), mesh.size() / mesh.size_of(axes));
  }
}

TEST(OwnedShare, CoversAllElementsInWholeUnits) {
  for (const int64_t elements : {0, 1, 63, 64, 65, 1000, 100003}) {
    for (const int64_t bytes : {1, 2, 4, 8}) {
      for (const int size : {1, 2, 3, 8}) {
        int64_t end = 0;
        for (int rank = 0; rank < size; ++rank) {
          const OwnedShare share = OwnedShare::of(elements, bytes, size, rank);
          EXPECT_EQ(share.begin, end);
          EXPECT_GE(share.count, 0);
          EXPECT_TRUE(share.count == 0 || share.begin * bytes % 256 == 0);
          end = share.begin + share.count;
        }
        EXPECT_EQ(end, elements);
      }
    }
  }
}

}  // namespace
}  // namespace mtf::cuda
