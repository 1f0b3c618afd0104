#include "data/text/chat_turns.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "engine/base/nearest.h"
#include "engine/base/printable.h"

namespace mtf {
namespace {

/// The end of the text without the white space behind it.
size_t trimmed_size(std::string_view text) { return text.find_last_not_of(" \t\n\v\f\r") + 1; }

}  // namespace

ChatTurns::ChatTurns(const ChatTurnsOptions& options) : options_(options) {
  for (const auto& [role, text] : options.turns) {
    const size_t place = text.find(ChatTurnsOptions::placeholder);
    turns_.emplace_back(role,
                        Turn{text.substr(0, place), text.substr(place + ChatTurnsOptions::placeholder.size()),
                             std::ranges::find(options.learn, role) != options.learn.end()});
  }
}

const Turn* ChatTurns::find(std::string_view role) const {
  const auto turn = std::ranges::find(turns_, role, &std::pair<std::string, Turn>::first);
  return turn == turns_.end() ? nullptr : &turn->second;
}

std::vector<std::string> ChatTurns::roles() const {
  std::vector<std::string> roles;
  for (const auto& [role, turn] : turns_) roles.push_back(role);
  return roles;
}

void add_part(std::string_view text, bool learned, TextField& field) {
  if (text.empty()) return;
  field.text += text;
  if (field.parts.empty() || field.parts.back().learned != learned) field.parts.push_back({0, learned});
  field.parts.back().end = field.text.size();
}

bool ChatText::add(const nlohmann::json& messages, std::string_view place, bool learned) {
  for (size_t i = 0; i < messages.size(); ++i) {
    const std::string* const role = text_of(messages[i], turns_.role_key(), i, place);
    const std::string* const said = role ? text_of(messages[i], turns_.content_key(), i, place) : nullptr;
    if (!said) return false;
    last_ = turn_of(*role, i, place);
    if (!last_) return false;
    add_part(between_ + last_->before, false, field_);
    const std::string text = *said + last_->after;
    const size_t end = last_->learned ? std::max(said->size(), trimmed_size(text)) : text.size();
    add_part(text.substr(0, end), last_->learned && learned, field_);
    between_ = text.substr(end);
  }
  return true;
}

void ChatText::begin_answer() {
  if (last_ && last_ != &turns_.answering()) add_part(between_ + turns_.answering().before, false, field_);
}

const std::string* ChatText::text_of(const nlohmann::json& message, const std::string& key, size_t i,
                                     std::string_view place) const {
  const auto value = message.is_object() ? message.find(key) : message.end();
  if (value != message.end() && value->is_string()) return value->get_ptr<const std::string*>();
  lines_.wrong(
      fmt::format("message {}{} has {} under `{}`", i + 1, place,
                  value == message.end() ? "nothing" : "no text", key),
      fmt::format("objects with texts under `{}` and `{}`", turns_.role_key(), turns_.content_key()));
  return nullptr;
}

const Turn* ChatText::turn_of(const std::string& role, size_t i, std::string_view place) const {
  if (const Turn* const turn = turns_.find(role)) return turn;
  lines_.wrong(
      fmt::format("message {}{} is by `{}`, for whom `turns` has no text", i + 1, place, printable(role)),
      fmt::format("one of {}", fmt::join(turns_.roles(), ", ")));
  return nullptr;
}

void check_chat_turns(const ChatTurnsOptions& options, const config::Report& report) {
  std::vector<std::string> roles;
  for (const auto& [role, text] : options.turns) {
    roles.push_back(role);
    const size_t place = text.find(ChatTurnsOptions::placeholder);
    const bool once = place != std::string::npos &&
                      text.find(ChatTurnsOptions::placeholder, place + 1) == std::string::npos;
    if (!once)
      report.error(
          "turns." + role,
          fmt::format("the turn of `{}` has {} {}", role, place == std::string::npos ? "no" : "more than one",
                      ChatTurnsOptions::placeholder),
          fmt::format("the text around a message, in which {} stands once for what it says",
                      ChatTurnsOptions::placeholder));
  }
  if (options.learn.empty()) report.error("learn", "`learn` is empty", "roles, such as [assistant]");
  for (const std::string& role : options.learn) {
    if (!options.turns.empty() && std::ranges::find(roles, role) == roles.end())
      report.error("learn", fmt::format("`turns` has no text for `{}`", role), did_you_mean(role, roles));
  }
}

}  // namespace mtf
