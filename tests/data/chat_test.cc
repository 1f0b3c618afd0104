#include "data/text/chat.h"

#include <algorithm>
#include <cctype>

#include "data/text/text_scan.h"
#include "engine/config/load.h"
#include "tests/data/text_testing.h"

namespace mtf::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class Chats : public TextTest {
 protected:
  ChatOptions chats(const std::string& lines) const {
    ChatOptions options;
    options.path = {{file("chats.jsonl", lines)}};
    options.turns = {{"system", "S{content}.\n"}, {"user", "U{content}.\n"}, {"assistant", "A{content}.\n"}};
    return options;
  }

  /// Returns the texts, with brackets around what is learned.
  static std::vector<std::string> marked(const ChatOptions& options) {
    std::vector<std::string> result;
    for_each(options, [&](const TextField& field) {
      std::string& text = result.emplace_back();
      size_t begin = 0;
      for (const TextPart& part : field.parts) {
        const std::string piece = field.text.substr(begin, part.end - begin);
        text += part.learned ? "[" + piece + "]" : piece;
        begin = part.end;
      }
      EXPECT_EQ(begin, field.text.size());
    });
    return result;
  }

  static void for_each(const ChatOptions& options, const std::function<void(const TextField&)>& use) {
    std::vector<Problem> missing;
    TextProblems problems;
    const TextFiles files = find_text_files(options, {}, missing);
    TextReader reader(files, {}, problems);
    for (TextExample example; reader.next(example);) use(example.targets);
    EXPECT_TRUE(problems.empty() && missing.empty());
  }

  std::string problem_of(const std::string& line) const {
    return failure([&] {
      std::vector<Problem> missing;
      scan_texts(find_text_files(chats(line + "\n"), {}, missing), {});
    });
  }

  /// The ids of a row with bytes as tokens as text: what is not learned in lower case, ends of sequence as | and !.
  static std::string shown(const std::vector<int32_t>& row) {
    std::string text;
    for (const int32_t id : row) {
      if (id == kEosId) text += '|';
      if (id == -kEosId) text += '!';
      if (id > 2) text += static_cast<char>(id - 3);
      if (id < -2) text += static_cast<char>(std::tolower(-id - 3));
    }
    return text;
  }
};

/// Bytes as tokens, of which byte 1 is the end of sequence.
class WithEnd final : public Vocabulary {
 public:
  int64_t size() const override { return bytes_.size(); }
  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids = bytes_.encode(text);
    std::ranges::replace(ids, 1 + 3, kEosId);
    return ids;
  }
  std::string decode(std::span<const int32_t> ids) const override { return bytes_.decode(ids); }
  std::string piece(int32_t id) const override { return bytes_.piece(id); }
  std::string fingerprint() const override { return "with end"; }

 private:
  ByteVocabulary bytes_;
};

const std::string kTwoTurns =
    R"({"messages": [{"role": "system", "content": "Be"}, {"role": "user", "content": "Hi"}, )"
    R"({"role": "assistant", "content": "Yo"}, {"role": "user", "content": "Go"}, )"
    R"({"role": "assistant", "content": "No", "name": "x"}]})"
    "\n";

TEST_F(Chats, TheAnswersAreLearnedWithTheEndsOfTheirTurns) {
  EXPECT_THAT(marked(chats(kTwoTurns)), ElementsAre("SBe.\nUHi.\nA[Yo.]\nUGo.\nA[No.]"));
  ChatOptions users = chats(kTwoTurns);
  users.learn = {"assistant", "user"};
  EXPECT_THAT(marked(users), ElementsAre("SBe.\nU[Hi.]\nA[Yo.]\nU[Go.]\nA[No.]"));
}

TEST_F(Chats, ALastQuestionIsFollowedByTheBeginningOfAnAnswer) {
  const std::string question = R"({"messages": [{"role": "user", "content": "Hi"}]})"
                               "\n";
  EXPECT_THAT(marked(chats(question)), ElementsAre("UHi.\nA"));
  ChatOptions both = chats(question);
  both.learn = {"assistant", "user"};
  EXPECT_THAT(marked(both), ElementsAre("U[Hi.]\nA"));
  for_each(chats(question), [](const TextField& field) {
    EXPECT_EQ(field.prompt(), "UHi.\nA");
    EXPECT_EQ(field.answer(), "");
  });
  for_each(chats(kTwoTurns), [](const TextField& field) {
    EXPECT_EQ(field.prompt(), "SBe.\nUHi.\nAYo.\nUGo.\nA");
    EXPECT_EQ(field.answer(), "No.");
  });
}

TEST_F(Chats, KeysRolesAndTurnsAreFree) {
  ChatOptions other =
      chats(R"({"id": 1, "conversations": [{"from": "human", "value": " a "}, {"from": "gpt", "value": ""}, )"
            R"({"from": "human", "value": "b\n"}, {"from": "gpt", "value": "c "}]})"
            "\n\n"
            R"({"conversations": []})"
            "\n");
  other.messages = "conversations", other.role = "from", other.content = "value", other.learn = {"gpt"};
  other.turns = {{"human", "{content}"}, {"gpt", "{content}"}};
  EXPECT_THAT(marked(other), ElementsAre(" a b\n[c ]", ""));
  other.turns = {{"human", "[INST] {content} [/INST]"}, {"gpt", " {content} </s>\t\n"}};
  EXPECT_THAT(marked(other), ElementsAre("[INST]  a  [/INST] [ </s>]\t\n[INST] b\n [/INST] [c  </s>]", ""));
}

TEST_F(Chats, TokensWithoutALossAreNegative) {
  const std::string long_one =
      R"({"messages": [{"role": "user", "content": "HIJKLMNOPQRSTUVWX"}, {"role": "assistant", "content": "A"}]})"
      "\n";
  const ChatOptions options = chats(kTwoTurns + long_one);
  TextSettings how = settings(0, 28);
  const std::unique_ptr<TextSource> source = make_text_source(options, how, {});
  std::vector<std::string> rows;
  for (const auto& row : rows_of(*source, "targets")) rows.push_back(shown(row));
  EXPECT_THAT(rows, ElementsAre("sbe.\nuhi.\naYo.\nugo.\naNo.|", "uhijklmnopqrstuvwx.\naA.|"));
  EXPECT_EQ(rows_of(*source, "targets_segmentation")[0][0], 1);

  // A chat that is too long has no place, or loses its end.
  how.lengths.targets = 24;
  EXPECT_EQ(make_text_source(options, how, {})->examples(), 1);
  how.lengths.targets = 13;
  how.filter.too_long = TooLong::kCut;
  rows.clear();
  for (const auto& row : rows_of(*make_text_source(options, how, {}), "targets")) rows.push_back(shown(row));
  EXPECT_THAT(rows, ElementsAre("sbe.\nuhi.\naYo")) << "of the other one nothing is learned";
  how.purpose = TextPurpose::kEvaluation;
  EXPECT_EQ(make_text_source(options, how, {})->examples(), 2);
}

TEST_F(Chats, TheLastPartMaySpellOutTheEndOfSequence) {
  ChatOptions options =
      chats(R"({"messages": [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}]})"
            "\n");
  options.turns = {{"user", "{content}"}, {"assistant", "{content}\x01"}};
  TextSettings how = settings(0, 8);
  how.vocabularies.targets = std::make_shared<const WithEnd>();
  EXPECT_EQ(shown(rows_of(*make_text_source(options, how, {}), "targets")[0]), "aB|");
}

TEST_F(Chats, SaysWhichMessageIsWrong) {
  EXPECT_THAT(problem_of(R"({"message": []})"),
              HasSubstr("line 1: `messages` is missing; a list of messages under"));
  EXPECT_THAT(problem_of(R"({"messages": "x"})"), HasSubstr("`messages` is no list"));
  EXPECT_THAT(problem_of(R"({"messages": [{"role": "user", "content": "a"}, "b"]})"),
              HasSubstr("message 2 has nothing under `role`; objects with texts under `role` and `content`"));
  EXPECT_THAT(problem_of(R"({"messages": [{"role": "user", "content": [1]}]})"),
              HasSubstr("message 1 has no text under `content`"));
  EXPECT_THAT(
      problem_of(R"({"messages": [{"role": "tool", "content": "a"}]})"),
      HasSubstr("message 1 is by `tool`, for whom `turns` has no text; one of system, user, assistant"));
}

std::string refusal(const std::string& yaml) {
  return failure([&] {
    Diagnostics diagnostics;
    config::parse<ChatOptions>(config::parse_yaml("path: x\n" + yaml, "run.yaml", diagnostics), diagnostics,
                               "train");
    diagnostics.throw_if_errors();
  });
}

TEST(ChatOptionsTest, ATurnHasOnePlaceForItsMessage) {
  EXPECT_THAT(refusal("turns: {assistant: 'a'}"), HasSubstr("the turn of `assistant` has no {content}"));
  EXPECT_THAT(refusal("turns: {assistant: '{content}{content}'}"), HasSubstr("has more than one {content}"));
  EXPECT_THAT(refusal("turns: {bot: '{content}'}"), HasSubstr("`turns` has no text for `assistant`"));
  EXPECT_THAT(refusal("turns: {bot: '{content}'}\nlearn: []"), HasSubstr("`learn` is empty"));
  EXPECT_THAT(refusal("learn: [bot]"), HasSubstr("turns"));
}

}  // namespace
}  // namespace mtf::testing
