#include "data/text/chat.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "data/text/json_lines.h"
#include "data/text/text_formats.h"
#include "engine/base/nearest.h"
#include "engine/base/printable.h"

namespace mtf {
namespace {

/// The end of the text without the white space behind it.
size_t trimmed_size(std::string_view text) { return text.find_last_not_of(" \t\n\v\f\r") + 1; }

/// What stands around a message.
struct Turn {
  std::string before, after;
  bool learned = false;
};

class ChatFormat final : public TextFormat {
 public:
  ChatFormat(const ChatOptions& options, const FormatContext& context)
      : options_(options), lines_(context.files[0], context.problems, context.limit, context.blank_lines) {
    for (const auto& [role, text] : options.turns) {
      const size_t place = text.find(ChatOptions::placeholder);
      turns_.emplace_back(role,
                          Turn{text.substr(0, place), text.substr(place + ChatOptions::placeholder.size()),
                               std::ranges::find(options.learn, role) != options.learn.end()});
    }
  }

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
    const Turn* last = nullptr;
    std::string between;  // white space at the end of what is learned, which belongs to what follows
    for (size_t i = 0; i < messages->size(); ++i) {
      const nlohmann::json& message = (*messages)[i];
      const std::string* const role = text_of(message, options_.role, i);
      const std::string* const said = role ? text_of(message, options_.content, i) : nullptr;
      if (!said) return false;
      last = turn_of(*role, i);
      if (!last) return false;
      add_part(between + last->before, false, field);
      const std::string text = *said + last->after;
      const size_t end = last->learned ? std::max(said->size(), trimmed_size(text)) : text.size();
      add_part(text.substr(0, end), last->learned, field);
      between = text.substr(end);
    }
    if (last && last != &answering_turn()) add_part(between + answering_turn().before, false, field);
    return true;
  }

  /// Returns the text under a key of message `i`, or null after a report.
  const std::string* text_of(const nlohmann::json& message, const std::string& key, size_t i) const {
    const auto value = message.is_object() ? message.find(key) : message.end();
    if (value != message.end() && value->is_string()) return value->get_ptr<const std::string*>();
    lines_.wrong(fmt::format("message {} has {} under `{}`", i + 1,
                             value == message.end() ? "nothing" : "no text", key),
                 fmt::format("objects with texts under `{}` and `{}`", options_.role, options_.content));
    return nullptr;
  }

  const Turn* turn_of(const std::string& role, size_t i) const {
    const auto turn = std::ranges::find(turns_, role, &std::pair<std::string, Turn>::first);
    if (turn != turns_.end()) return &turn->second;
    std::vector<std::string> roles;
    for (const auto& [known, ignored] : turns_) roles.push_back(known);
    lines_.wrong(fmt::format("message {} is by `{}`, for whom `turns` has no text", i + 1, printable(role)),
                 fmt::format("one of {}", fmt::join(roles, ", ")));
    return nullptr;
  }

  static void add_part(std::string_view text, bool learned, TextField& field) {
    if (text.empty()) return;
    field.text += text;
    if (field.parts.empty() || field.parts.back().learned != learned) field.parts.push_back({0, learned});
    field.parts.back().end = field.text.size();
  }

  const Turn& answering_turn() const {
    return std::ranges::find(turns_, options_.learn.front(), &std::pair<std::string, Turn>::first)->second;
  }

  const ChatOptions& options_;
  JsonLines lines_;
  std::vector<std::pair<std::string, Turn>> turns_;
};

void check_turns(const ChatOptions& options, const config::Report& report) {
  std::vector<std::string> roles;
  for (const auto& [role, text] : options.turns) {
    roles.push_back(role);
    const size_t place = text.find(ChatOptions::placeholder);
    const bool once =
        place != std::string::npos && text.find(ChatOptions::placeholder, place + 1) == std::string::npos;
    if (!once)
      report.error("turns." + role,
                   fmt::format("the turn of `{}` has {} {}", role,
                               place == std::string::npos ? "no" : "more than one", ChatOptions::placeholder),
                   fmt::format("the text around a message, in which {} stands once for what it says",
                               ChatOptions::placeholder));
  }
  if (options.turns.empty())
    report.error("turns", "`turns` is empty", "the text around a message of each role");
  if (options.learn.empty()) report.error("learn", "`learn` is empty", "roles, such as [assistant]");
  for (const std::string& role : options.learn) {
    if (!options.turns.empty() && std::ranges::find(roles, role) == roles.end())
      report.error("learn", fmt::format("`turns` has no text for `{}`", role), did_you_mean(role, roles));
  }
}

const config::Registration<SourceOptions, ChatOptions> chat_registration;

}  // namespace

void describe(config::Visitor& visit, ChatOptions& options) {
  visit("path", options.path, "files of JSON objects, one a line, plain or .gz: a path, a list or a glob",
        config::required);
  visit("messages", options.messages, "key of the list of messages in each object");
  visit("role", options.role, "key of who says a message");
  visit("content", options.content, "key of what it says");
  visit("turns", options.turns,
        "the text around a message of each role, in which {content} stands for what it says, as in {user: "
        "\"<|im_start|>user\\n{content}<|im_end|>\\n\", ...}",
        config::required);
  visit("learn", options.learn,
        "roles whose messages have a loss, up to the end of their turn; the first one answers prompts");
  visit.check([&options](const config::Report& report) { check_turns(options, report); });
}

std::unique_ptr<TextFormat> ChatOptions::open_format(const FormatContext& context) const {
  return std::make_unique<ChatFormat>(*this, context);
}

}  // namespace mtf
