#include "engine/core/hosted_mesh.h"

#include <gtest/gtest.h>

#include <optional>
#include <set>

namespace mtf {
namespace {

/// Calls `check` for each process of each number of processes on some meshes.
template <class Check>
void for_each_hosting(const Check& check) {
  for (const char* text : {"a:1", "a:6", "a:2;b:3", "a:3;b:4", "a:4;b:3;c:2", "a:2;b:1;c:6", "a:5;b:2;c:3",
                           "a:2;b:3;c:2;d:2", "a:3;b:1;c:2;d:4"}) {
    const Mesh mesh(Shape::parse(text));
    for (int processes = 1; processes <= mesh.size(); ++processes) {
      if (mesh.size() % processes != 0) continue;
      for (int process = 0; process < processes; ++process) {
        SCOPED_TRACE(::testing::Message() << "process " << process << " of " << processes << " on " << text);
        check(HostedMesh(mesh, {processes, process}));
      }
    }
  }
}

TEST(HostedMesh, CountsCopiesAsItListsThem) {
  for_each_hosting([](const HostedMesh& hosted) {
    for (AxisMask mask = 0; mask <= hosted.mesh().all_axes(); ++mask) {
      const HostedCopies copies = hosted.copies(mask);
      EXPECT_EQ(hosted.size_of(mask), copies.size()) << hosted.mesh().names(mask);
      int64_t first_held = 0;
      for (int64_t copy = 0; copy < copies.size(); ++copy)
        first_held += hosted.holds_first(copies.position(copy), mask) ? 1 : 0;
      EXPECT_EQ(hosted.first_held(mask), first_held) << hosted.mesh().names(mask);
    }
  });
}

TEST(HostedMesh, PinnedCopiesAreAtTheirCoordinateOnly) {
  for_each_hosting([](const HostedMesh& hosted) {
    const Mesh& mesh = hosted.mesh();
    for (int axis = 0; axis < mesh.rank(); ++axis) {
      for (int64_t coordinate = 0; coordinate < mesh.size(axis); ++coordinate) {
        for (AxisMask mask = 0; mask <= mesh.all_axes(); ++mask) {
          if (has_axis(mask, axis)) continue;
          const Copies pinned{mask, Pin{axis, coordinate}};
          const HostedCopies copies = hosted.copies(pinned);
          EXPECT_EQ(hosted.size_of(pinned), copies.size());
          std::set<int64_t> distinct;
          int64_t first_held = 0;
          for (int64_t position = 0; position < mesh.size(); ++position) {
            const std::optional<int64_t> copy = copies.find(position);
            if (!mesh.is_at(position, *pinned.pin)) {
              EXPECT_FALSE(copy.has_value());
              continue;
            }
            if (!hosted.hosts(position)) continue;
            ASSERT_TRUE(copy.has_value());
            distinct.insert(mesh.project(position, mask));
            EXPECT_EQ(mesh.project(copies.position(*copy), mask), mesh.project(position, mask));
            EXPECT_TRUE(mesh.is_at(copies.position(*copy), *pinned.pin));
          }
          EXPECT_EQ(copies.size(), std::ssize(distinct));
          for (int64_t copy = 0; copy < copies.size(); ++copy)
            first_held += hosted.holds_first(copies.position(copy), pinned) ? 1 : 0;
          EXPECT_EQ(hosted.first_held(pinned), first_held);
          EXPECT_EQ(hosted.of_first(pinned).size_of(pinned) > 0, true);
        }
      }
    }
  });
}

TEST(HostedMesh, ProcessesThatHostBlocksHoldEquallyManyCopies) {
  for_each_hosting([](const HostedMesh& hosted) {
    if (!hosted.hosts_blocks()) return;
    for (AxisMask mask = 0; mask <= hosted.mesh().all_axes(); ++mask)
      EXPECT_EQ(hosted.size_of(mask), hosted.of(0).size_of(mask)) << hosted.mesh().names(mask);
  });
  EXPECT_TRUE(HostedMesh(Mesh(Shape::parse("a:4;b:6")), {8, 0}).hosts_blocks());
  EXPECT_FALSE(HostedMesh(Mesh(Shape::parse("a:6;b:4")), {4, 0}).hosts_blocks()) << "a row and a half each";
}

TEST(HostedMesh, CountsOnMeshesThatCannotBeListed) {
  const Mesh mesh(Shape::parse("a:1048576;b:1048576"));
  EXPECT_EQ(HostedMesh(mesh, {4, 1}).size_of(1), 262144);
  EXPECT_EQ(HostedMesh(mesh, {4, 1}).size_of(2), 1048576);
  EXPECT_EQ(HostedMesh(mesh, {4, 1}).first_held(2), 0);
  EXPECT_EQ(HostedMesh(mesh, {4, 0}).first_held(2), 1048576);
}

}  // namespace
}  // namespace mtf
