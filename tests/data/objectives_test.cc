#include <fmt/format.h>

#include <map>
#include <random>
#include <set>

#include "data/loader.h"
#include "data/vocabulary/extra_ids.h"
#include "engine/config/load.h"
#include "tests/data/text_testing.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Words of small letters, each text a line or several.
std::string some_texts(int texts, int lines, int letters) {
  std::mt19937 random(7);
  std::string all;
  for (int text = 0; text < texts; ++text) {
    for (int line = 0; line < lines; ++line) {
      for (int i = 0; i < 1 + static_cast<int>(random() % static_cast<unsigned>(letters)); ++i)
        all += static_cast<char>(random() % 6 == 0 ? ' ' : 'a' + random() % 26);
      all += "x\n";
    }
    if (lines > 1) all += "\n";
  }
  return all;
}

class Objectives : public TextTest {
 protected:
  static constexpr int64_t kExtra = 100;

  /// A source of the texts of `bytes` with this objective. Byte b is id b + 3, and there are extra ids.
  std::shared_ptr<const Source> open(const std::string& bytes, const std::string& objective, int64_t inputs,
                                     int64_t targets, TextUnit unit = TextUnit::kLine,
                                     Packing packing = Packing::kDense) const {
    TextOptions options = text(file("texts", bytes), unit);
    Diagnostics diagnostics;
    options.objective =
        config::parse<ObjectiveChoice>(config::parse_yaml(objective, "test", diagnostics), diagnostics);
    diagnostics.throw_if_errors();
    SourceContext context;
    context.text = settings(inputs, targets, packing);
    const std::shared_ptr<const Vocabulary> vocabulary =
        with_extra_ids(std::make_unique<ByteVocabulary>(), kExtra);
    context.text.vocabularies = {vocabulary, vocabulary};
    std::shared_ptr<const Source> source = options.open(context);
    EXPECT_EQ(options.declared_features({inputs, targets}, {vocabulary->size(), vocabulary->size()}),
              source->features());
    return source;
  }
};

/// Feature `name` of the rows in one epoch of training, [rows][entries].
std::vector<std::vector<int32_t>> trained_rows(const Source& source, const std::string& name, int64_t epoch) {
  std::vector<std::vector<int32_t>> rows;
  for (int64_t row = 0; row < source.examples(); ++row) {
    std::vector<std::vector<std::byte>> buffers;
    std::vector<FeatureSlice> slices;
    for (const Feature& feature : source.features())
      slices.push_back({buffers.emplace_back(feature.bytes()).data()});
    const std::array examples = {row, row}, epochs = {epoch, epoch};
    source.read_training(examples, epochs, slices);
    for (size_t f = 0; f < slices.size(); ++f) {
      if (source.features()[f].name != name) continue;
      const auto* values = reinterpret_cast<const int32_t*>(slices[f].output);
      rows.emplace_back(values, values + source.features()[f].shape.size());
    }
  }
  return rows;
}

/// The ids of each example of the rows, by the feature's segmentation.
std::vector<std::vector<int32_t>> examples_of(const Source& source, const std::string& side, int64_t epoch) {
  const auto ids = trained_rows(source, side, epoch),
             segments = trained_rows(source, side + "_segmentation", epoch);
  const auto positions = trained_rows(source, side + "_position", epoch);
  std::vector<std::vector<int32_t>> examples;
  for (size_t row = 0; row < ids.size(); ++row) {
    for (size_t i = 0; i < ids[row].size(); ++i) {
      if (segments[row][i] == 0) {
        EXPECT_EQ(ids[row][i], 0);
        continue;
      }
      if (i == 0 || segments[row][i] != segments[row][i - 1]) {
        EXPECT_EQ(segments[row][i], i == 0 ? 1 : segments[row][i - 1] + 1);
        examples.emplace_back();
      }
      EXPECT_EQ(positions[row][i], std::ssize(examples.back()));
      examples.back().push_back(ids[row][i]);
    }
  }
  return examples;
}

constexpr int32_t kSentinel = 259 + 100 - 1;
bool is_sentinel(int32_t id) { return id > kSentinel - 100; }

/// What inputs and targets were made of; both end with the end of sequence.
std::string uncorrupted(std::vector<int32_t> inputs, std::vector<int32_t> targets) {
  EXPECT_EQ(inputs.back(), kEosId);
  EXPECT_EQ(targets.back(), kEosId);
  std::string text;
  size_t next = 0;
  for (const int32_t id : inputs) {
    if (!is_sentinel(id)) {
      if (id != kEosId) text += static_cast<char>(id - 3);
      continue;
    }
    while (next < targets.size() && targets[next] != id) ++next;
    for (++next; next < targets.size() && !is_sentinel(targets[next]) && targets[next] != kEosId; ++next)
      text += static_cast<char>(targets[next] - 3);
  }
  return text;
}

TEST_F(Objectives, SpanCorruptionGoesThroughAllTexts) {
  const std::string texts = some_texts(300, 1, 40);
  std::string stream;
  for (const char c : texts) {
    if (c != '\n') stream += c;
  }
  const auto source = open(texts, "{type: span_corruption, joined: 0}", 64, 64);
  EXPECT_EQ(source->features()[3].shape.size(), 14);  // as many targets as 64 inputs need
  std::set<std::string> epochs;
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const auto inputs = examples_of(*source, "inputs", epoch),
               targets = examples_of(*source, "targets", epoch);
    ASSERT_EQ(inputs.size(), targets.size());
    std::string all;
    for (size_t i = 0; i < inputs.size(); ++i) all += uncorrupted(inputs[i], targets[i]);
    EXPECT_EQ(all, stream);
    epochs.insert(fmt::format("{}", fmt::join(inputs[0], " ")));
  }
  EXPECT_EQ(epochs.size(), 3u);
}

TEST_F(Objectives, TextsAreJoinedSoManyAtATime) {
  const std::string texts = "abcdefgh\nijkl\nmnopqrst\nuvwx\n";
  const auto pieces = [&](const std::string& objective) {
    const auto source = open(texts, objective, 10, 20, TextUnit::kLine, Packing::kNone);
    const auto inputs = examples_of(*source, "inputs", 0), targets = examples_of(*source, "targets", 0);
    std::vector<std::string> found;
    for (size_t i = 0; i < inputs.size(); ++i) found.push_back(uncorrupted(inputs[i], targets[i]));
    return found;
  };
  EXPECT_THAT(pieces("{type: span_corruption, joined: 2}"),
              ElementsAre("abcdefghij", "kl", "mnopqrstuv", "wx"));
  EXPECT_THAT(pieces("{type: span_corruption, joined: 1}"),
              ElementsAre("abcdefgh", "ijkl", "mnopqrst", "uvwx"));
}

TEST_F(Objectives, ShortPiecesShareRows) {
  const auto source = open(some_texts(300, 1, 20), "{type: span_corruption, joined: 1}", 64, 40);
  EXPECT_LT(source->examples(), 90);
  EXPECT_EQ(examples_of(*source, "inputs", 0).size(), 300u);
  EXPECT_EQ(examples_of(*source, "targets", 0).size(), 300u);
}

TEST_F(Objectives, InputsAndTargetsMayBeOneText) {
  const std::string texts = some_texts(50, 1, 40);
  const auto apart =
      open(texts, "{type: span_corruption, joined: 1}", 100, 100, TextUnit::kLine, Packing::kNone);
  const auto inputs = examples_of(*apart, "inputs", 2), targets = examples_of(*apart, "targets", 2);
  const auto joined =
      open(texts, "{type: span_corruption, joined: 1, as: targets}", 0, 100, TextUnit::kLine, Packing::kNone);
  ASSERT_EQ(joined->features().size(), 3u);
  const auto both = examples_of(*joined, "targets", 2);
  ASSERT_EQ(both.size(), inputs.size());
  for (size_t i = 0; i < both.size(); ++i) {
    std::vector<int32_t> expected = inputs[i];
    expected.insert(expected.end(), targets[i].begin(), targets[i].end());
    EXPECT_EQ(both[i], expected);
  }
}

TEST_F(Objectives, APrefixAndTheRestAreTheText) {
  const std::string texts = some_texts(200, 1, 30);
  const auto source = open(texts, "{type: prefix_lm, joined: 1, mode: '[S]'}", 40, 40);
  const auto inputs = examples_of(*source, "inputs", 1), targets = examples_of(*source, "targets", 1);
  std::multiset<std::string> found, expected;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const std::string front = decoded(inputs[i]), rest = decoded(targets[i]);
    EXPECT_TRUE(front.starts_with("[S]") && front.ends_with('|') && rest.ends_with('|')) << front << rest;
    found.insert(front.substr(3, front.size() - 4) + rest.substr(0, rest.size() - 1));
  }
  for (size_t begin = 0, end = 0; (end = texts.find('\n', begin)) != std::string::npos; begin = end + 1)
    expected.insert(texts.substr(begin, end - begin));
  EXPECT_EQ(found, expected);
}

TEST_F(Objectives, PrefixesHaveAllLengthsEquallyOften) {
  std::string texts;
  for (int i = 0; i < 9000; ++i) texts += "abcdefghij\n";
  const auto source = open(texts, "{type: prefix_lm, joined: 1}", 12, 12, TextUnit::kLine, Packing::kNone);
  std::map<size_t, int> lengths;
  for (const auto& inputs : examples_of(*source, "inputs", 0)) ++lengths[inputs.size() - 1];
  EXPECT_EQ(lengths.begin()->first, 1u);
  EXPECT_EQ(lengths.rbegin()->first, 9u);
  for (const auto& [length, count] : lengths) EXPECT_NEAR(count, 1000, 3 * 30) << length;
}

TEST_F(Objectives, DenoisersOfUl2TakeTurns) {
  const std::string texts = some_texts(400, 1, 40);
  const auto source = open(texts,
                           "{type: ul2, denoisers: {r: {mode: R}, s: {prefix: true, mode: S, weight: 2}, "
                           "x: {noise_density: 0.5, mode: X}}}",
                           64, 64);
  const BatchStream stream(source, TrainingBatches{.batch_size = 1, .seed = 1});
  Batch batch = stream.make_batch();
  std::map<char, int> rows;
  for (int64_t row = 0; row < 400; ++row) {
    stream.read(row, batch);
    ++rows[static_cast<char>(batch.values<int32_t>(0)[0] - 3)];
  }
  EXPECT_NEAR(rows['R'], 100, 2);
  EXPECT_NEAR(rows['S'], 200, 2);
  EXPECT_NEAR(rows['X'], 100, 2);
  // The seven of the paper need rows of a usual length.
  EXPECT_GT(open(texts, "ul2", 128, 128)->examples(), 7);
}

TEST_F(Objectives, PartsOfATextChangePlacesToFillInTheMiddle) {
  const std::string texts = some_texts(2000, 1, 30);
  const auto source = open(texts, "{type: fill_in_the_middle, rate: 0.8, spm_rate: 0.25}", 0, 64);
  std::multiset<std::string> found, expected;
  std::map<std::string, int> kinds;
  for (const auto& ids : examples_of(*source, "targets", 1)) {
    ASSERT_EQ(ids.back(), kEosId);
    if (ids[0] != kSentinel) {
      ++kinds["plain"];
      const std::string text = decoded(ids);
      found.insert(text.substr(0, text.size() - 1));
      continue;
    }
    const auto suffix = std::ranges::find(ids, kSentinel - 1), middle = std::ranges::find(ids, kSentinel - 2);
    const std::string before = decoded({ids.begin() + 1, suffix}), behind = decoded({suffix + 1, middle}),
                      last = decoded({middle + 1, ids.end() - 1});
    if (!before.empty()) {
      ++kinds["psm"];
      found.insert(before + last + behind);
    } else {  // SPM, or PSM with nothing before
      ++kinds["spm"];
      found.insert(last + behind);
    }
  }
  for (size_t begin = 0, end = 0; (end = texts.find('\n', begin)) != std::string::npos; begin = end + 1)
    expected.insert(texts.substr(begin, end - begin));
  EXPECT_EQ(found, expected);
  EXPECT_NEAR(kinds["plain"], 400, 3 * 18);
  EXPECT_GT(kinds["spm"], 400);
  EXPECT_LT(kinds["spm"], 800);
}

constexpr const char* kMasked = "{{type: masked_lm, mask: <extra_id_0>{}}}";

TEST_F(Objectives, MaskedTokensAreTheTargets) {
  const std::string texts = some_texts(3000, 1, 60);
  const auto source = open(texts, fmt::format(kMasked, ""), 128, 128);
  EXPECT_EQ(source->features()[4].shape.size(), 20);
  const auto inputs = trained_rows(*source, "inputs", 5),
             segments = trained_rows(*source, "inputs_segmentation", 5);
  const auto targets = trained_rows(*source, "targets", 5),
             places = trained_rows(*source, "targets_place", 5);
  int hidden = 0, random = 0, kept = 0, tokens = 0;
  std::multiset<std::string> found, expected;
  for (size_t row = 0; row < inputs.size(); ++row) {
    std::vector<int32_t> ids = inputs[row];
    for (size_t i = 0; i < targets[row].size(); ++i) {
      if (targets[row][i] == 0) continue;
      int32_t& id = ids[static_cast<size_t>(places[row][i])];
      EXPECT_NE(targets[row][i], kEosId);
      (id == kSentinel ? hidden : id == targets[row][i] ? kept : random)++;
      id = targets[row][i];
    }
    std::string text;
    for (size_t i = 0; i < ids.size(); ++i) {
      tokens += segments[row][i] != 0;
      if (ids[i] > 2) text += static_cast<char>(ids[i] - 3);
      if (ids[i] != kEosId || text.empty()) continue;
      found.insert(text);
      text.clear();
    }
  }
  for (size_t begin = 0, end = 0; (end = texts.find('\n', begin)) != std::string::npos; begin = end + 1)
    expected.insert(texts.substr(begin, end - begin));
  EXPECT_EQ(found, expected);
  const double all = hidden + random + kept;
  EXPECT_NEAR(all / tokens, 0.15, 0.005);
  EXPECT_NEAR(hidden / all, 0.8, 0.01);
  EXPECT_NEAR(random / all, 0.1, 0.01);
  EXPECT_NE(trained_rows(*source, "targets_place", 6), places);
}

TEST_F(Objectives, OnlyPairsTakeLinesForSentences) {
  const auto takes = [](const std::string& objective) {
    Diagnostics diagnostics;
    const auto choice =
        config::parse<ObjectiveChoice>(config::parse_yaml(objective, "test", diagnostics), diagnostics);
    diagnostics.throw_if_errors();
    return choice->lines_are_sentences();
  };
  EXPECT_TRUE(takes(fmt::format(kMasked, ", pairs: sentence_order")));
  EXPECT_FALSE(takes(fmt::format(kMasked, "")));
  EXPECT_FALSE(takes("{type: span_corruption}"));
}

TEST_F(Objectives, PairsOfSentencesFollowEachOtherOrNot) {
  const std::string texts = some_texts(60, 30, 25);
  for (const std::string pairs : {"next_sentence", "sentence_order"}) {
    const auto source = open(texts, fmt::format(kMasked, ", masked: 0, random: 0, pairs: " + pairs), 64, 64,
                             TextUnit::kDocument);
    const auto inputs = trained_rows(*source, "inputs", 1), types = trained_rows(*source, "inputs_type", 1);
    const auto labels = trained_rows(*source, "next_sentence", 1),
               segments = trained_rows(*source, "inputs_segmentation", 1);
    std::string stream;
    for (const char c : texts) stream += c == '\n' ? std::string() : std::string(1, c);
    int others = 0, full = 0;
    for (size_t row = 0; row < inputs.size(); ++row) {
      std::string first, second;
      int ends = 0, tokens = 0;
      for (size_t i = 0; i < inputs[row].size(); ++i) {
        if (segments[row][i] == 0) continue;
        ++tokens;
        if (inputs[row][i] == kEosId) {
          EXPECT_EQ(types[row][i], ends < 2 ? 0 : 1);
          ++ends;
        } else if (inputs[row][i] != '\n' + 3) {
          EXPECT_EQ(types[row][i], ends < 2 ? 0 : 1);
          (ends < 2 ? first : second) += static_cast<char>(inputs[row][i] - 3);
        }
      }
      EXPECT_EQ(ends, 3);
      full += tokens == 64;
      EXPECT_FALSE(first.empty() && second.empty());
      EXPECT_NE(stream.find(first), std::string::npos);
      EXPECT_NE(stream.find(second), std::string::npos);
      others += labels[row][0];
      // What belongs together stands together, but for what was cut from the ends where both meet.
      if (labels[row][0] == 0 && tokens < 64 && tokens > 50 && pairs == "sentence_order") {
        EXPECT_LE(stream.find(first), stream.rfind(second));
      }
    }
    EXPECT_NEAR(others, static_cast<double>(inputs.size()) / 2,
                3 * std::sqrt(inputs.size() / 4.0) + 0.08 * static_cast<double>(inputs.size()))
        << pairs;
    EXPECT_GT(full, static_cast<int>(inputs.size()) / 3);
  }
}

TEST_F(Objectives, APartOfARowIsThatOfTheWhole) {
  const auto source = open(some_texts(40, 1, 40), "{type: span_corruption, joined: 1}", 48, 48);
  const auto whole = trained_rows(*source, "inputs", 3);
  for (int64_t row = 0; row < source->examples(); ++row) {
    const Box box{{12}, {{"length", 24}}};
    std::vector<std::vector<std::byte>> buffers;
    std::vector<FeatureSlice> slices;
    for (const Feature& feature : source->features())
      slices.push_back({buffers.emplace_back(feature.bytes()).data()});
    slices[0].box = &box;
    const std::array examples = {row, row}, epochs = {int64_t{3}, int64_t{3}};
    source->read_training(examples, epochs, slices);
    const auto* values = reinterpret_cast<const int32_t*>(slices[0].output);
    const auto& expected = whole[static_cast<size_t>(row)];
    EXPECT_TRUE(std::equal(values, values + 24, expected.begin() + 12));
  }
}

TEST_F(Objectives, AResumedStreamHasTheSameRows) {
  const auto source = open(some_texts(300, 1, 40), "ul2", 128, 128);
  const auto batches = [&](int64_t start, int64_t count, std::optional<int64_t> begin = {}) {
    const BatchPart part{.begin = begin.value_or(0),
                         .count = begin ? std::optional<int64_t>(2) : std::nullopt};
    const BatchStream stream(source, TrainingBatches{.batch_size = 4, .seed = 5, .start_row = start}, part);
    Batch batch = stream.make_batch();
    std::vector<std::vector<int32_t>> found;
    for (int64_t i = 0; i < count; ++i) {
      stream.read(i, batch);
      found.emplace_back(batch.values<int32_t>(0).begin(), batch.values<int32_t>(0).end());
    }
    return found;
  };
  const auto all = batches(0, 200);
  const auto resumed = batches(4 * 120, 80);
  for (size_t i = 0; i < resumed.size(); ++i) EXPECT_EQ(resumed[i], all[i + 120]);
  const auto second_half = batches(0, 200, 2);
  for (size_t i = 0; i < all.size(); ++i)
    EXPECT_TRUE(
        std::equal(second_half[i].begin(), second_half[i].end(), all[i].begin() + std::ssize(all[i]) / 2));
}

TEST_F(Objectives, MistakesAreNamed) {
  const auto message = [&](const std::string& objective, int64_t inputs, int64_t targets,
                           TextUnit unit = TextUnit::kLine) -> std::string {
    try {
      open("abc\nde\n", objective, inputs, targets, unit);
    } catch (const Error& error) {
      return error.problems().front().message;
    }
    return "none";
  };
  EXPECT_THAT(message("{type: span_corruption, noise_density: 0.5, mean_span: 1}", 512, 512),
              HasSubstr("spans out of"));
  EXPECT_THAT(message("{type: fill_in_the_middle, sentinels: [a, b, <mid>]}", 0, 64),
              HasSubstr("no piece `<mid>`"));
  EXPECT_THAT(message("masked_lm", 64, 64), HasSubstr("no piece `[MASK]`"));
  EXPECT_THAT(message(fmt::format(kMasked, ", pairs: next_sentence"), 64, 64),
              HasSubstr("each text has one line"));
  EXPECT_THAT(message("{type: span_corruption}", 0, 64), HasSubstr("no number for `inputs`"));
  EXPECT_THAT(message("{type: fill_in_the_middle}", 0, 4), HasSubstr("no room"));
  EXPECT_THAT(message("{type: span_corruption, noise_density: 1}", 64, 64), HasSubstr("leaves nothing"));
}

TEST(ExtraIds, StandBehindTheOthersAndCountDown) {
  const auto vocabulary = with_extra_ids(std::make_unique<ByteVocabulary>(), 5);
  EXPECT_EQ(vocabulary->size(), 264);
  EXPECT_EQ(vocabulary->piece(263), "<extra_id_0>");
  EXPECT_EQ(vocabulary->piece(259), "<extra_id_4>");
  EXPECT_THAT(vocabulary->encode("a<extra_id_0><extra_id_5><"),
              ElementsAre('a' + 3, 263, '<' + 3, 'e' + 3, 'x' + 3, 't' + 3, 'r' + 3, 'a' + 3, '_' + 3,
                          'i' + 3, 'd' + 3, '_' + 3, '5' + 3, '>' + 3, '<' + 3));
  EXPECT_EQ(vocabulary->decode(std::vector<int32_t>{263, 'a' + 3, 'b' + 3, 262, 1, 'c' + 3}),
            "<extra_id_0> ab <extra_id_1>");
}

}  // namespace
}  // namespace mtf::testing
