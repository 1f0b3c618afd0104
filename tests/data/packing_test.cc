#include "data/text/packing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>

#include "engine/safetensors/safetensors.h"
#include "tests/data/text_testing.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;

/// Returns the examples of a golden case as TFRecords: SIDE_flat, cut by SIDE_lengths.
std::string records(const SafetensorsFile& golden, const std::vector<std::string>& sides) {
  std::string bytes;
  std::map<std::string, int64_t> begin;
  for (int64_t i = 0; i < golden.at("input/targets_lengths").size(); ++i) {
    std::vector<std::pair<std::string, std::vector<int64_t>>> features;
    for (const std::string& side : sides) {
      const std::vector<int32_t> flat = golden.at("input/" + side + "_flat").values<int32_t>();
      const int64_t length = golden.at("input/" + side + "_lengths").values<int32_t>()[i];
      const auto first = flat.begin() + begin[side];
      features.emplace_back(side, std::vector<int64_t>(first, first + length));
      begin[side] += length;
    }
    bytes += tfrecord_frame(example_message(features));
  }
  return bytes;
}

class Packing10 : public TextTest {
 protected:
  void expect_rows(const std::string& name, const std::vector<std::string>& sides, BySide<int64_t> lengths,
                   Packing packing) {
    const SafetensorsFile golden(MTF_SOURCE_DIR "/tests/golden/" + name + "/tensors.safetensors");
    TfrecordOptions options = tfrecord(file("records", records(golden, sides)));
    options.features.clear();
    for (const std::string& side : sides) options.features.emplace_back(side, TfrecordFeature{});
    TextSettings how = settings(lengths.inputs, lengths.targets, packing);
    how.filter.too_long = TooLong::kCut;
    const auto source = make_text_source(options, how);
    for (size_t i = 0; i < source->features().size(); ++i)
      EXPECT_EQ(source->features()[i].one_text, packing == Packing::kNone && i % 3 == 0) << "ids come first";
    int compared = 0;
    for (const StoredTensor& tensor : golden.tensors()) {
      if (!tensor.name.starts_with("output/")) continue;
      std::vector<int32_t> values;
      for (const std::vector<int32_t>& row : rows_of(*source, tensor.name.substr(7)))
        values.insert(values.end(), row.begin(), row.end());
      EXPECT_THAT(values, ElementsAreArray(tensor.values<int32_t>())) << tensor.name;
      ++compared;
    }
    EXPECT_GE(compared, 2);
  }
};

TEST_F(Packing10, ReferenceOfOneFeature) {
  expect_rows("10_packing_one_key", {"targets"}, {0, 10}, Packing::kReference);
}
TEST_F(Packing10, ReferenceOfPairs) {
  expect_rows("10_packing_two_keys", {"inputs", "targets"}, {16, 12}, Packing::kReference);
}
TEST_F(Packing10, NoneEndsCutTextsWithTheEndOfSequence) {
  expect_rows("10_pad_only", {"inputs", "targets"}, {8, 6}, Packing::kNone);
}

/// Returns lengths like those of sentences: most are short, a few long; translations have about the same
/// length.
std::vector<TokenCounts> sentences(int64_t count, const BySide<int64_t>& longest, unsigned seed) {
  std::mt19937 random(seed);
  std::lognormal_distribution<double> length(3.2, 0.6);
  std::normal_distribution<double> ratio(1.0, 0.2);
  std::vector<TokenCounts> lengths(count);
  for (TokenCounts& example : lengths) {
    const double targets = length(random), inputs = targets * std::max(0.3, ratio(random));
    const auto limited = [](double tokens, int64_t most) {
      return static_cast<int32_t>(std::clamp<int64_t>(std::llround(tokens), most > 0 ? 1 : 0, most));
    };
    example = {limited(inputs, longest.inputs), limited(targets, longest.targets)};
  }
  return lengths;
}

/// Expects that each example occurs once, examples and rows are in order, and no row is too full. Returns the
/// fraction of padding on the fuller side.
double padding(const PackedRows& rows, const std::vector<TokenCounts>& lengths, const BySide<int64_t>& row) {
  std::vector<int> seen(lengths.size(), 0);
  BySide<int64_t> tokens;
  int64_t previous_first = -1;
  for (int64_t r = 0; r < rows.rows(); ++r) {
    BySide<int64_t> used;
    int64_t previous = -1;
    EXPECT_LT(previous_first, rows.examples[rows.first[r]]) << "rows in the order of their first examples";
    previous_first = rows.examples[rows.first[r]];
    for (int64_t p = rows.first[r]; p < rows.first[r + 1]; ++p) {
      const int64_t i = rows.examples[p];
      EXPECT_LT(previous, i);
      previous = i;
      ++seen[i];
      used.inputs += lengths[i].inputs;
      used.targets += lengths[i].targets;
    }
    EXPECT_LE(used.inputs, row.inputs);
    EXPECT_LE(used.targets, row.targets);
    tokens.inputs += used.inputs;
    tokens.targets += used.targets;
  }
  EXPECT_EQ(std::ranges::count(seen, 1), static_cast<int64_t>(seen.size()));
  const auto share = [&](int64_t used, int64_t all) {
    return all == 0 ? 0.0 : static_cast<double>(used) / static_cast<double>(all * rows.rows());
  };
  return 1 - std::max(share(tokens.inputs, row.inputs), share(tokens.targets, row.targets));
}

TEST(PackDense, LeavesLittleEmpty) {
  for (const int64_t length : {64, 128, 256, 1000, 3000}) {
    for (const int64_t inputs : {int64_t{0}, length, length * 3 / 4}) {
      const BySide<int64_t> row{inputs, length};
      for (const unsigned seed : {1u, 2u}) {
        const auto lengths = sentences(20000, row, seed);
        EXPECT_LT(padding(pack_dense(lengths, row), lengths, row), 0.03)
            << inputs << " " << length << " " << seed;
      }
    }
  }
}

TEST(PackDense, IsAFunctionOfTheLengths) {
  const BySide<int64_t> row{64, 64};
  const auto lengths = sentences(70000, row, 3);  // more than one window
  const PackedRows once = pack_dense(lengths, row), again = pack_dense(lengths, row);
  EXPECT_EQ(once.first, again.first);
  EXPECT_EQ(once.examples, again.examples);
  EXPECT_LT(padding(once, lengths, row), 0.03);
}

TEST(PackDense, BothSidesMustFit) {
  const std::vector<TokenCounts> lengths = {{9, 1}, {9, 1}, {1, 9}, {1, 9}};
  const PackedRows rows = pack_dense(lengths, {10, 10});
  EXPECT_EQ(rows.rows(), 2);
  EXPECT_THAT(rows.first, ElementsAre(0, 2, 4));
}

TEST(PackDense, FewExamples) {
  EXPECT_EQ(pack_dense({}, {4, 4}).rows(), 0);
  EXPECT_THAT(pack_dense(std::vector<TokenCounts>{{4, 4}}, {4, 4}).examples, ElementsAre(0));
}

TEST(PackNone, GivesEachExampleARow) {
  const PackedRows rows = pack_none(3);
  EXPECT_THAT(rows.first, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(rows.examples, ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace mtf::testing
