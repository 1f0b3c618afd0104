// Tests the contents of plans of collectives between devices; their results are tested on devices.
#include "engine/comm/device/device_plan.h"

#include <gtest/gtest.h>

#include <array>

#include "engine/comm/process/owned_elements.h"
#include "engine/comm/remote_groups.h"

namespace mtf {
namespace {

using Kind = Collective::Kind;

struct Case {
  const char* mesh;
  int processes;
  AxisMask axes;
  Kind kind;
  DType dtype;
  std::vector<int64_t> input;
  bool is_guarded = false;
};

/// Returns the plan of process 0. Every value has a place of its own.
DevicePlan plan_of(const Case& c) {
  const Mesh mesh(Shape::parse(c.mesh));
  Collective collective{
      .kind = c.kind, .dtype = c.dtype, .group = {}, .input = c.input, .dimension = 0, .transfers = {}};
  for (int axis = 0; axis < mesh.rank(); ++axis)
    if (has_axis(c.axes, axis)) collective.group.push_back(mesh.size(axis));
  if (c.kind == Kind::kExchange) collective.transfers = {{{0, 0, 1, 7}}, {{0, 7, 0, 1}, {1, 0, 1, 7}}};
  const bool is_same_for_all = c.kind == Kind::kAllReduce || c.kind == Kind::kAllGather;
  static std::array<std::byte, 2000> values;
  static const bool guard = true;
  const RemoteGroupRequest request{.kind = c.kind,
                                   .axes = c.axes,
                                   .computed = mesh.all_axes() & (is_same_for_all ? ~c.axes : ~AxisMask{0}),
                                   .stored = mesh.all_axes()};
  const RemoteGroupPlan plan(HostedMesh(mesh, {c.processes, 0}), request);
  return plan_on_device({{.collective = collective,
                          .groups = plan.groups([&](int64_t position) { return &values[position]; },
                                                [&](int64_t position) { return &values[1000 + position]; }),
                          .process_groups = plan.process_groups(),
                          .guard = c.is_guarded ? &guard : nullptr}},
                        0, c.processes);
}

/// The numbers of copies, sums, and messages or calls.
struct Counts {
  int64_t copies = 0, sums = 0, messages = 0, calls = 0, scratch_bytes = 0;

  friend bool operator==(const Counts&, const Counts&) = default;
  friend std::ostream& operator<<(std::ostream& out, const Counts& c) {
    return out << c.copies << " copies, " << c.sums << " sums, " << c.messages << " messages, " << c.calls
               << " calls, " << c.scratch_bytes << " bytes";
  }
};

Counts counts_of(const DevicePlan& plan) {
  Counts counts{.scratch_bytes = plan.scratch_bytes};
  const auto add = [&](const DeviceWork& work) {
    for (const auto& item : work) {
      const auto* copies = std::get_if<DeviceCopies>(&item);
      counts.copies += copies == nullptr ? 0 : std::ssize(copies->copies);
      counts.sums += copies == nullptr ? 1 : 0;
    }
  };
  add(plan.before);
  for (const DeviceRound& round : plan.rounds) {
    counts.messages += std::ssize(round.sent) + std::ssize(round.received);
    counts.calls += std::ssize(round.calls);
    add(round.after);
  }
  return counts;
}

TEST(DevicePlan, OfOnePositionInEachProcessNeedsNothingBesidesTheLibrary) {
  const Counts one_call{.calls = 1};
  EXPECT_EQ(counts_of(plan_of({"a:4", 4, 1, Kind::kAllReduce, DType::kFloat32, {8, 6}})), one_call);
  EXPECT_EQ(counts_of(plan_of({"a:4", 4, 1, Kind::kReduceScatter, DType::kFloat32, {8, 6}})), one_call);
  EXPECT_EQ(counts_of(plan_of({"a:4", 4, 1, Kind::kAllGather, DType::kBFloat16, {8, 6}})), one_call);
  EXPECT_EQ(counts_of(plan_of({"a:2;b:2", 4, 2, Kind::kAllReduce, DType::kFloat32, {8, 6}})), one_call);
}

TEST(DevicePlan, AGuardedResultIsCopiedOnceItIsThere) {
  EXPECT_EQ(counts_of(plan_of({"a:4", 4, 1, Kind::kAllReduce, DType::kFloat32, {8, 6}, true})),
            (Counts{.copies = 1, .calls = 1, .scratch_bytes = 256}));
}

TEST(DevicePlan, MembersOfAProcessAreAddedBeforeTheLibraryAdds) {
  EXPECT_EQ(counts_of(plan_of({"a:8", 2, 1, Kind::kAllReduce, DType::kFloat32, {8, 6}})),
            (Counts{.sums = 1, .calls = 1}));
  // The sum goes into scratch memory, and the results of the four members are copied from there.
  EXPECT_EQ(counts_of(plan_of({"a:8", 2, 1, Kind::kReduceScatter, DType::kFloat32, {8, 6}})),
            (Counts{.copies = 4, .sums = 1, .calls = 1, .scratch_bytes = 256 + 256}));
}

TEST(DevicePlan, OwnersOfSharesAddBFloat16) {
  // Shares of 128 elements are sent from and received into their places.
  EXPECT_EQ(counts_of(plan_of({"a:2", 2, 1, Kind::kAllReduce, DType::kBFloat16, {256}})),
            (Counts{.sums = 1, .messages = 2 + 2, .scratch_bytes = 256}));
}

TEST(DevicePlan, GroupsThatAreSpreadUnevenlyAreNotForTheLibrary) {
  const DevicePlan plan = plan_of({"rows:2;cols:3", 3, 2, Kind::kAllReduce, DType::kFloat32, {8, 6}});
  EXPECT_FALSE(plan.is_by_library);
  EXPECT_EQ(plan.rounds.size(), 2u);
}

TEST(DevicePlan, WhatLiesTogetherTravelsWithoutCopies) {
  EXPECT_EQ(counts_of(plan_of({"a:2", 2, 1, Kind::kExchange, DType::kFloat32, {8, 6}})),
            (Counts{.copies = 2, .messages = 1}))
      << "rows 0 to 6 to row 1 and on in the process, row 0 becomes zero, row 7 to the other one";
}

TEST(OwnedElements, SharesBeginAtMultiplesOfAUnitOfEachGroup) {
  for (const int64_t unit : {1, 64}) {
    const std::vector<int64_t> sizes = {0, 1, 63, 64, 65, 1000, 100'003};
    std::vector<RemotePart> parts;
    std::vector<RemoteGroup::Consumer> consumers;
    const auto suppliers = std::make_shared<const std::vector<int>>(std::vector<int>{0, 1, 2});
    for (int process = 0; process < 3; ++process) consumers.push_back({process, {0}, suppliers});
    const RemoteGroup group{
        .base = 0,
        .consumers = std::make_shared<const std::vector<RemoteGroup::Consumer>>(consumers),
        .inputs = {},
        .results = {}};
    for (const int64_t size : sizes) {
      Collective collective;
      collective.group = {3};
      collective.input = {size};
      parts.push_back({.collective = collective, .groups = {group}, .process_groups = {}});
    }
    const std::vector<ReduceBucket> buckets = reduce_buckets(parts);
    ASSERT_EQ(buckets.size(), 1u);
    std::vector<int64_t> ends(sizes.size());  // in elements
    for (size_t owner = 0; owner < 3; ++owner) {
      for (const OwnedElements& e : owned_elements(buckets[0], owner, unit)) {
        EXPECT_EQ(e.input.begin / 4, ends[e.group]);
        EXPECT_EQ(ends[e.group] % unit, 0);
        ends[e.group] += e.runs.bytes() / 4;
      }
    }
    EXPECT_EQ(ends, sizes);
  }
}

}  // namespace
}  // namespace mtf
