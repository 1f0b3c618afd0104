#include "data/text/preferences.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "data/text/text_formats.h"

namespace mtf {
namespace {

using Json = nlohmann::json;

/// The messages with which both lists begin, but for the last ones of the shorter list: an answer is never empty.
Json common_beginning(const Json& chosen, const Json& rejected) {
  const size_t most = std::min(chosen.size(), rejected.size());
  Json common = Json::array();
  for (size_t i = 0; i + 1 < most && chosen[i] == rejected[i]; ++i) common.push_back(chosen[i]);
  return common;
}

Json without_first(const Json& messages, size_t count) {
  return Json(messages.begin() + static_cast<std::ptrdiff_t>(count), messages.end());
}

class PreferencesFormat final : public TextFormat {
 public:
  PreferencesFormat(const PreferencesOptions& options, const FormatContext& context)
      : options_(options),
        turns_(options),
        lines_(context.files[0], context.problems, context.limit, context.blank_lines) {}

  /// The two texts of a line follow each other.
  bool next(TextExample& example) override {
    if (rejected_) {
      example.targets = *std::exchange(rejected_, std::nullopt);
      return true;
    }
    while (const auto object = lines_.next()) {
      TextField chosen, rejected;
      if (!read_pair(*object, chosen, rejected)) continue;
      example.targets = std::move(chosen);
      rejected_ = std::move(rejected);
      return true;
    }
    return false;
  }
  int64_t bytes_read() const override { return lines_.bytes_read(); }

 private:
  /// False after a report.
  bool read_pair(const Json& object, TextField& chosen, TextField& rejected) const {
    const auto first = object.find(options_.chosen), second = object.find(options_.rejected),
               given = object.find(options_.prompt);
    const Json prompt = given == object.end() ? Json() : *given;
    for (const auto& [key, answer] :
         {std::pair(&options_.chosen, first), std::pair(&options_.rejected, second)}) {
      if (answer == object.end() || (!answer->is_string() && !answer->is_array()))
        return lines_.wrong(fmt::format("`{}` is {}", *key, answer == object.end() ? "missing" : "no answer"),
                            "a text, or a list of messages");
    }
    if (first->is_array() != second->is_array())
      return lines_.wrong(fmt::format("one of `{}` and `{}` is a text, and the other a list of messages",
                                      options_.chosen, options_.rejected),
                          "both texts, or both lists");
    return first->is_array() ? read_messages(prompt, *first, *second, chosen, rejected)
                             : read_texts(prompt, *first, *second, chosen, rejected);
  }

  bool read_texts(const Json& prompt, const Json& first, const Json& second, TextField& chosen,
                  TextField& rejected) const {
    if (!turns_.empty())
      return lines_.wrong(fmt::format("`{}` is a text, and `turns` are for messages", options_.chosen),
                          "lists of messages, or no `turns`");
    if (!prompt.is_string())
      return lines_.wrong(
          fmt::format("`{}` is {}", options_.prompt, prompt.is_null() ? "missing" : "no text"),
          "a text before both answers");
    for (const auto& [answer, field] : {std::pair(&first, &chosen), std::pair(&second, &rejected)}) {
      add_part(prompt.get_ref<const std::string&>(), false, *field);
      field->text += answer->get_ref<const std::string&>();
      field->parts.push_back(
          {field->text.size(), true});  // its end is learned, too, where the answer is empty
    }
    return true;
  }

  bool read_messages(const Json& prompt, const Json& first, const Json& second, TextField& chosen,
                     TextField& rejected) const {
    if (turns_.empty())
      return lines_.wrong(
          fmt::format("`{}` is a list of messages, and there are no `turns`", options_.chosen),
          "`turns` with the text around a message of each role");
    if (!prompt.is_null() && !prompt.is_array())
      return lines_.wrong(
          fmt::format("`{}` is no list of messages, and `{}` is one", options_.prompt, options_.chosen),
          "a list, or nothing: the messages with which both answers begin");
    const Json common = prompt.is_null() ? common_beginning(first, second) : prompt;
    const size_t repeated = prompt.is_null() ? common.size() : 0;
    return write(common, without_first(first, repeated), options_.chosen, chosen) &&
           write(common, without_first(second, repeated), options_.rejected, rejected);
  }

  bool write(const Json& prompt, const Json& answer, const std::string& key, TextField& field) const {
    ChatText text(turns_, lines_, field);
    return text.add(prompt, fmt::format(" of `{}`", options_.prompt), false) &&
           text.add(answer, fmt::format(" of `{}`", key), true);
  }

  const PreferencesOptions& options_;
  ChatTurns turns_;
  JsonLines lines_;
  std::optional<TextField> rejected_;
};

const config::Registration<SourceOptions, PreferencesOptions> preferences_registration;

}  // namespace

void describe(config::Visitor& visit, PreferencesOptions& options) {
  visit("path", options.path, "files of JSON objects, one a line, plain or .gz: a path, a list or a glob",
        config::required);
  visit("prompt", options.prompt,
        "key of the text or the messages before both answers; of messages it may lack: what both begin with");
  visit("chosen", options.chosen, "key of the answer that is preferred: a text or a list of messages");
  visit("rejected", options.rejected, "key of the other one");
  describe_chat_turns(visit, options);
  visit.check([&options](const config::Report& report) {
    if (options.chosen == options.rejected)
      report.error("rejected", fmt::format("`{}` is the key of both answers", options.rejected),
                   "another key");
  });
}

std::unique_ptr<TextFormat> PreferencesOptions::open_format(const FormatContext& context) const {
  return std::make_unique<PreferencesFormat>(*this, context);
}

}  // namespace mtf
