#include "data/text/chat.h"

#include <fmt/format.h>

#include "data/text/text_formats.h"

namespace mtf {
namespace {

class ChatFormat final : public TextFormat {
 public:
  ChatFormat(const ChatOptions& options, const FormatContext& context)
      : options_(options),
        turns_(options),
        lines_(context.files[0], context.problems, context.limit, context.blank_lines) {}

  bool next(TextExample& example) override {
    while (const auto object = lines_.next()) {
      if (read_chat(*object, example.targets)) return true;
    }
    return false;
  }
  int64_t bytes_read() const override { return lines_.bytes_read(); }

 private:
  bool read_chat(const nlohmann::json& object, TextField& field) const {
    field = {};
    const auto messages = object.find(options_.messages);
    if (messages == object.end() || !messages->is_array())
      return lines_.wrong(
          fmt::format("`{}` is {}", options_.messages, messages == object.end() ? "missing" : "no list"),
          fmt::format("a list of messages under `{}` in each line", options_.messages));
    ChatText text(turns_, lines_, field);
    if (!text.add(*messages, "", true)) return false;
    text.begin_answer();
    return true;
  }

  const ChatOptions& options_;
  ChatTurns turns_;
  JsonLines lines_;
};

const config::Registration<SourceOptions, ChatOptions> chat_registration;

}  // namespace

void describe(config::Visitor& visit, ChatOptions& options) {
  visit("path", options.path, "files of JSON objects, one a line, plain or .gz: a path, a list or a glob",
        config::required);
  visit("messages", options.messages, "key of the list of messages in each object");
  describe_chat_turns(visit, options, config::required);
  describe_sampling(visit, options);
  visit.check([&options](const config::Report& report) {
    if (options.turns.empty())
      report.error("turns", "`turns` is empty", "the text around a message of each role");
  });
}

std::unique_ptr<TextFormat> ChatOptions::open_format(const FormatContext& context) const {
  return std::make_unique<ChatFormat>(*this, context);
}

}  // namespace mtf
