#include "data/text/word_alignment.h"

#include "tests/data/text_testing.h"

namespace mtf::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(WordAlignment, IsReadInPharaohFormat) {
  const auto links = parse_word_links(" 0-1 12-3\t4-4\r");
  ASSERT_TRUE(links);
  ASSERT_EQ(links->size(), 3u);
  EXPECT_EQ((*links)[1].input, 12);
  EXPECT_EQ((*links)[1].target, 3);
  EXPECT_THAT(*parse_word_links(" "), IsEmpty());
  for (const char* wrong : {"0", "0-", "-0", "0-1-2", "0:1", "a-b", "0 -1", "-1-0", "0--1", "99999999999-0"})
    EXPECT_FALSE(parse_word_links(wrong)) << wrong;
}

TEST(WordAlignment, LinksAllTokensOfItsWordsOnce) {
  const std::vector<WordLink> links{{1, 0}, {0, 2}, {1, 0}};
  const std::vector<int32_t> inputs{0, 1, 1}, targets{0, 0, 1, 2};
  std::vector<int32_t> tokens;
  append_token_links(links, inputs, targets, tokens);
  EXPECT_THAT(tokens, ElementsAre(1, 0, 2, 0, 1, 1, 2, 1, 0, 3));
}

class AlignedRows : public TextTest {
 protected:
  ParallelOptions aligned(const std::string& inputs, const std::string& targets,
                          const std::string& links) const {
    ParallelOptions options = parallel(file("en", inputs), file("de", targets));
    options.alignments = {{file("links", links)}};
    return options;
  }

  /// The alignment of row 0, [targets, inputs]; of `box` only that part.
  static std::vector<float> alignment(const Source& source, const Box* box = nullptr) {
    std::vector<std::vector<std::byte>> buffers;
    std::vector<FeatureSlice> slices;
    for (const Feature& feature : source.features()) buffers.emplace_back(feature.bytes());
    for (auto& buffer : buffers) slices.push_back({buffer.data()});
    slices.back().box = box;
    const int64_t row = 0;
    source.read({&row, 1}, slices);
    const auto* values = reinterpret_cast<const float*>(buffers.back().data());
    const int64_t count = box ? box->shape.size() : source.features().back().shape.size();
    return {values, values + count};
  }
};

TEST_F(AlignedRows, TokensOfATargetShareOne) {
  const auto source =
      make_text_source(aligned("a bc\nd\n", "x y\nz\n", "1-0\n0-0\n"), settings(8, 6, Packing::kDense));
  ASSERT_EQ(source->features().size(), 7u);
  const Feature& feature = source->features().back();
  EXPECT_EQ(feature,
            (Feature{"alignment", Shape{{"length", 6}, {"memory_length", 8}}, DType::kFloat32, 0, true}));
  // Inputs a, " bc", </s>, d, </s>; targets x, " y", </s>, z, </s>: packed one behind the other.
  std::vector<float> expected(6 * 8);
  for (const size_t i : {1, 2, 3}) expected[0 * 8 + i] = 1.0F / 3;
  expected[4 * 8 + 5] = 1;
  const std::vector<float> whole = alignment(*source);
  EXPECT_EQ(whole, expected);
  const Box box{{3, 4}, {{"length", 2}, {"memory_length", 3}}};
  EXPECT_THAT(alignment(*source, &box), ElementsAre(0, 0, 0, 0, 1, 0));
}

TEST_F(AlignedRows, LinksOfTokensThatAreCutOffAreLost) {
  TextSettings how = settings(4, 3);
  how.filter.too_long = TooLong::kCut;
  // The inputs are cut to "ab " and the targets to "x ", each with an end of sequence; the blanks begin the second words.
  const auto source = make_text_source(aligned("ab cd\n", "x yz\n", "0-0 1-0 1-1\n"), how);
  EXPECT_THAT(alignment(*source), ElementsAre(1.0F / 3, 1.0F / 3, 1.0F / 3, 0, 0, 0, 1, 0, 0, 0, 0, 0));
}

TEST_F(AlignedRows, WithoutLinksTheRowIsEmpty) {
  const auto source = make_text_source(aligned("a\n", "x\n", "\n"), settings(2, 2));
  EXPECT_THAT(alignment(*source), ElementsAre(0, 0, 0, 0));
}

TEST_F(AlignedRows, WrongLinesAreNamed) {
  const auto open = [&](const std::string& links) {
    return failure([&] { make_text_source(aligned("a b\nc\n", "x\ny\n", links), settings(8, 8)); });
  };
  EXPECT_THAT(open("0-0\n0:0\n"),
              AllOf(HasSubstr("links: line 2: this is no alignment"), HasSubstr("0-0 1-2")));
  EXPECT_THAT(open("1-0\n0-1\n"), HasSubstr("links: line 2: 0-1, and the texts have 1 and 1 words"));
  EXPECT_THAT(open("0-0\n"), AllOf(HasSubstr("en has 2 lines, and "), HasSubstr("links has 1")));
}

TEST_F(AlignedRows, HaveAStoreOfTheirOwn) {
  const auto with = make_text_source(aligned("a b\nc\n", "x\ny\n", "0-0\n\n"), settings(8, 8));
  ParallelOptions plain = parallel(path("en"), path("de"));
  const auto without = make_text_source(plain, settings(8, 8));
  EXPECT_EQ(without->features().size(), 6u);
  EXPECT_NE(with->fingerprint(), without->fingerprint());
}

}  // namespace
}  // namespace mtf::testing
