// Tests how collectives between processes are divided into messages.
#include "engine/comm/process/message_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "engine/comm/process/owned_elements.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::vector<MessageSlice>> cut(const std::vector<int64_t>& lengths, int64_t most, int64_t alone) {
  return cut_messages(lengths, most, alone);
}

TEST(CutMessages, ShortSequencesShareAMessage) {
  EXPECT_THAT(cut({3, 0, 4}, 10, 5), ElementsAre(ElementsAre(MessageSlice{0, 0, 3}, MessageSlice{2, 0, 4})));
  EXPECT_THAT(cut({4, 4, 4}, 10, 5),
              ElementsAre(ElementsAre(MessageSlice{0, 0, 4}, MessageSlice{1, 0, 4}, MessageSlice{2, 0, 2}),
                          ElementsAre(MessageSlice{2, 2, 4})));
  EXPECT_THAT(cut({}, 10, 5), IsEmpty());
  EXPECT_THAT(cut({0, 0}, 10, 0), IsEmpty());
}

TEST(CutMessages, LongSequencesShareNone) {
  EXPECT_THAT(cut({2, 12, 2}, 10, 5),
              ElementsAre(ElementsAre(MessageSlice{0, 0, 2}), ElementsAre(MessageSlice{1, 0, 10}),
                          ElementsAre(MessageSlice{1, 10, 12}), ElementsAre(MessageSlice{2, 0, 2})));
}

TEST(Shares, AreEqualUpToOneElement) {
  EXPECT_EQ(share_begin(10, 3, 0), 0);
  EXPECT_EQ(share_begin(10, 3, 1), 4);
  EXPECT_EQ(share_begin(10, 3, 2), 7);
  EXPECT_EQ(share_begin(10, 3, 3), 10);
  EXPECT_EQ(share_begin(1, 4, 1), 1);
  EXPECT_EQ(share_begin(1, 4, 4), 1);
  EXPECT_EQ(share_begin(0, 4, 3), 0);
}

TEST(Segments, KnowWhereTheyAreInOnePiece) {
  const Segment runs{.rows = 2, .count = 3, .length = 4};
  const SegmentStrides dense{.begin = 100, .row = 12, .step = 4}, rows{.begin = 100, .row = 50, .step = 4},
      apart{.begin = 100, .row = 50, .step = 10};
  EXPECT_EQ(runs.contiguous(dense, 3, 23), 103);
  EXPECT_EQ(runs.contiguous(rows, 2, 12), 102);
  EXPECT_EQ(runs.contiguous(rows, 12, 24), 150);
  EXPECT_EQ(runs.contiguous(rows, 11, 13), std::nullopt);
  EXPECT_EQ(runs.contiguous(apart, 17, 20), 161);
  EXPECT_EQ(runs.contiguous(apart, 3, 5), std::nullopt);
}

TEST(Segments, PackAndUnpackAnyPart) {
  const Segment runs{.rows = 2, .count = 2, .length = 3};
  const SegmentStrides places{.begin = 1, .row = 10, .step = 4};
  std::vector<std::byte> source(20), message(12), result(20);
  for (size_t i = 0; i < source.size(); ++i) source[i] = static_cast<std::byte>(i);
  pack(runs, places, source.data(), 0, 12, message.data());
  std::vector<int> packed;
  for (std::byte b : message) packed.push_back(static_cast<int>(b));
  EXPECT_THAT(packed, ElementsAre(1, 2, 3, 5, 6, 7, 11, 12, 13, 15, 16, 17));
  for (int64_t begin = 0; begin < 12; begin += 5) {
    unpack(runs, places, result.data(), begin, std::min<int64_t>(12, begin + 5), message.data() + begin);
  }
  for (int i = 0; i < 20; ++i) {
    const bool covered = std::find(packed.begin(), packed.end(), i) != packed.end();
    EXPECT_EQ(static_cast<int>(result[i]), covered ? i : 0);
  }
}

/// Returns the tree as text: "(01)2" is the subtree of members 0 and 1, then the leaf 2.
std::string text(const std::vector<TreeNode>& tree, int node) {
  if (tree[node].left < 0) return std::to_string(tree[node].member);
  return "(" + text(tree, tree[node].left) + text(tree, tree[node].right) + ")";
}

std::string supplied(const std::vector<int64_t>& group, const std::vector<int>& suppliers, int supplier) {
  const std::vector<TreeNode> tree = reduction_tree(group);
  std::string result;
  const std::map<int, std::vector<int>> all = supplied_subtrees(tree, suppliers);
  if (!all.contains(supplier)) return result;
  for (int node : all.at(supplier)) result += text(tree, node);
  return result;
}

TEST(SuppliedSubtrees, AreTheLargestCompleteOnes) {
  EXPECT_EQ(supplied({4}, {0, 0, 1, 1}, 1), "(23)");
  EXPECT_EQ(supplied({4}, {0, 1, 1, 1}, 1), "(23)1") << "what is pre-added comes first";
  EXPECT_EQ(supplied({4}, {0, 1, 1, 0}, 1), "12") << "1 and 2 are no subtree";
  EXPECT_EQ(supplied({6}, {0, 0, 0, 1, 1, 1}, 0), "(01)2");
  EXPECT_EQ(supplied({6}, {0, 0, 0, 1, 1, 1}, 1), "(45)3");
  EXPECT_EQ(supplied({2, 2}, {0, 0, 0, 0}, 0), "((01)(23))");
  EXPECT_EQ(supplied({2}, {0, 0}, 1), "");
}

TEST(OwnerTrees, HaveLeavesForWhatOthersSend) {
  const OwnerTree owner = owner_tree(reduction_tree({6}), {0, 0, 0, 1, 1, 1}, 0);
  // ((0 1) (2 3)) (4 5): the owner has 0, 1 and 2; it receives 3 as it is, and the sum 4 + 5.
  EXPECT_EQ(text(owner.tree, static_cast<int>(owner.tree.size()) - 1), "(((01)(23))4)");
  ASSERT_EQ(owner.operands.size(), 5u);
  EXPECT_EQ(owner.operands[2].member, 2);
  EXPECT_EQ(owner.operands[3].supplier, 1);
  EXPECT_EQ(owner.operands[3].member, 3);
  EXPECT_EQ(owner.operands[4].supplier, 1);
  EXPECT_EQ(owner.operands[4].member, -1);
  const TreeNode& root = owner.tree.back();
  EXPECT_TRUE(owner.tree[root.right].added);
  EXPECT_FALSE(owner.tree[0].added);
}

RemotePart part_of(Collective::Kind kind, std::vector<int64_t> input,
                   const std::vector<std::vector<int64_t>>& members) {
  RemotePart part;
  part.collective = {kind, Reduction::kSum, DType::kFloat32, {2}, std::move(input), 1, -1, {}};
  const auto suppliers = std::make_shared<const std::vector<int>>(std::vector<int>{0, 1});
  std::vector<RemoteGroup::Consumer> consumers;
  for (size_t process = 0; process < members.size(); ++process)
    consumers.push_back({static_cast<int>(process), members[process], suppliers});
  RemoteGroup group;
  group.consumers = std::make_shared<const std::vector<RemoteGroup::Consumer>>(std::move(consumers));
  group.inputs.resize(2);
  part.groups = {group};
  return part;
}

TEST(OwnedElements, AllReduceSharesTheWholeBucketEqually) {
  const std::vector<RemotePart> parts{part_of(Collective::Kind::kAllReduce, {1, 3}, {{0}, {0}}),
                                      part_of(Collective::Kind::kAllReduce, {2, 2}, {{0}, {0}})};
  const std::vector<ReduceBucket> buckets = reduce_buckets(parts);
  ASSERT_EQ(buckets.size(), 1u);
  const std::vector<OwnedElements> first = owned_elements(buckets[0], 0),
                                   second = owned_elements(buckets[0], 1);
  ASSERT_EQ(first.size(), 2u);  // 3 elements of the first part and 1 of the second
  EXPECT_EQ(first[0].runs.bytes(), 12);
  EXPECT_EQ(first[1].runs.bytes(), 4);
  EXPECT_EQ(first[1].input.begin, 0);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].group, 1u);
  EXPECT_EQ(second[0].runs.bytes(), 12);
  EXPECT_EQ(second[0].input.begin, 4);
  EXPECT_EQ(second[0].output.begin, 4);
}

TEST(OwnedElements, ReduceScatterGivesEachMemberItsPart) {
  const std::vector<RemotePart> parts{part_of(Collective::Kind::kReduceScatter, {5, 4, 3}, {{0}, {1}})};
  const std::vector<OwnedElements> second = owned_elements(reduce_buckets(parts)[0], 1);
  ASSERT_EQ(second.size(), 1u);
  EXPECT_EQ(second[0].runs, (Segment{5, 1, 2 * 3 * 4}));
  EXPECT_EQ(second[0].input, (SegmentStrides{2 * 3 * 4, 4 * 3 * 4, 0}));
  EXPECT_EQ(second[0].output, (SegmentStrides{0, 2 * 3 * 4, 0}));
}

TEST(OwnedElements, GroupsThatAreSpreadDifferentlyAreReducedApart) {
  const RemotePart other = part_of(Collective::Kind::kAllReduce, {1, 3}, {{0}});
  EXPECT_EQ(reduce_buckets({part_of(Collective::Kind::kAllReduce, {1, 3}, {{0}, {0}}), other}).size(), 2u);
}

TEST(MessageMarks, TellMessagesApart) {
  const auto mark = [](int64_t number, int64_t bytes) {
    return message_mark(number, MessagePhase::kResult, bytes, DType::kFloat32);
  };
  std::set<uint32_t> marks;
  for (int64_t number = 0; number < 256; ++number) marks.insert(mark(number, 100));
  EXPECT_EQ(marks.size(), 256u);
  EXPECT_LT(*marks.rbegin(), 1u << 24);
  EXPECT_NE(mark(3, 100), mark(3, 104));
  EXPECT_NE(mark(3, 100), message_mark(3, MessagePhase::kContribution, 100, DType::kFloat32));
  EXPECT_NE(mark(3, 100), message_mark(3, MessagePhase::kResult, 100, DType::kInt32));
  EXPECT_EQ(message_tag(0x1'0000'0002, 0x030405), 0x40'00000002'030405u);
}

TEST(Subtree, IsATreeOfItsOwn) {
  const std::vector<TreeNode> tree = reduction_tree({3, 2});
  for (int node = 0; node < static_cast<int>(tree.size()); ++node) {
    const Subtree part = subtree(tree, node);
    const std::function<int64_t(const std::vector<TreeNode>&, int)> leaves = [&](const auto& nodes, int at) {
      return nodes[at].left < 0 ? 1 : leaves(nodes, nodes[at].left) + leaves(nodes, nodes[at].right);
    };
    EXPECT_EQ(std::ssize(part.members), leaves(tree, node));
    EXPECT_EQ(leaves(part.tree, static_cast<int>(part.tree.size()) - 1), leaves(tree, node));
  }
  const Subtree pair = subtree(tree, tree.back().right);  // members 4 and 5
  EXPECT_EQ(pair.members, (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(pair.tree[1].member, 1);
}

}  // namespace
}  // namespace mtf
