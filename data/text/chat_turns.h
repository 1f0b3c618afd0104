// The text of a conversation: each message stands in the text of its role's turn, and what some roles say is learned.
//
//   ChatText text(turns, lines, example.targets);
//   if (text.add(object.at("messages"), "", true)) text.begin_answer();
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/text/json_lines.h"
#include "data/text/text_reader.h"

namespace mtf {

/// The keys of sources of conversations.
struct ChatTurnsOptions {
  /// Stands in a turn for what a message says.
  static constexpr std::string_view placeholder = "{content}";

  std::string role = "role";
  std::string content = "content";
  config::Named<std::string> turns;
  std::vector<std::string> learn = {"assistant"};
};
/// The keys `role`, `content`, `turns` and `learn`, which are checked where there are turns.
template <class... Attributes>
void describe_chat_turns(config::Visitor& visit, ChatTurnsOptions& options, const Attributes&... of_turns);

/// What stands around a message.
struct Turn {
  std::string before, after;
  bool learned = false;
};

class ChatTurns {
 public:
  explicit ChatTurns(const ChatTurnsOptions& options);

  const std::string& role_key() const { return options_.role; }
  const std::string& content_key() const { return options_.content; }
  bool empty() const { return turns_.empty(); }
  /// Null for a role that has none.
  const Turn* find(std::string_view role) const;
  /// The turn of the role that answers prompts.
  const Turn& answering() const { return *find(options_.learn.front()); }
  std::vector<std::string> roles() const;

 private:
  const ChatTurnsOptions& options_;
  std::vector<std::pair<std::string, Turn>> turns_;
};

/// Adds text to a field, as a part of its own unless the part before is learned as well, or neither is.
void add_part(std::string_view text, bool learned, TextField& field);

class ChatText {
 public:
  /// The arguments must outlive this object.
  ChatText(const ChatTurns& turns, const JsonLines& lines, TextField& field)
      : turns_(turns), lines_(lines), field_(field) {}

  /// Adds a list of messages, of which none is learned unless `learned`. `place` follows their numbers in reports: " of
  /// `chosen`". False after a report.
  bool add(const nlohmann::json& messages, std::string_view place, bool learned);
  /// Adds the beginning of an answer behind a message that is none.
  void begin_answer();

 private:
  /// Returns the text under a key of message `i`, or null after a report.
  const std::string* text_of(const nlohmann::json& message, const std::string& key, size_t i,
                             std::string_view place) const;
  const Turn* turn_of(const std::string& role, size_t i, std::string_view place) const;

  const ChatTurns& turns_;
  const JsonLines& lines_;
  TextField& field_;
  const Turn* last_ = nullptr;
  std::string between_;  ///< white space at the end of what is learned, which belongs to what follows
};

/// Reports turns without a place for the message, and roles without a turn.
void check_chat_turns(const ChatTurnsOptions& options, const config::Report& report);

template <class... Attributes>
void describe_chat_turns(config::Visitor& visit, ChatTurnsOptions& options, const Attributes&... of_turns) {
  visit("role", options.role, "key of who says a message");
  visit("content", options.content, "key of what it says");
  visit("turns", options.turns,
        "the text around a message of each role, in which {content} stands for what it says, as in {user: "
        "\"<|im_start|>user\\n{content}<|im_end|>\\n\", ...}",
        of_turns...);
  visit("learn", options.learn,
        "roles whose messages have a loss, up to the end of their turn; the first one answers prompts");
  visit.check([&options](const config::Report& report) { check_chat_turns(options, report); });
}

}  // namespace mtf
