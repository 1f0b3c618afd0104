// A source of conversations: JSON Lines, each with a list of messages. Each message is put into the text of its role's turn,
// and the model learns what some roles say.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/chat_turns.h"
#include "data/text/text_options.h"

namespace mtf {

struct ChatOptions final : FilesOfTexts, ChatTurnsOptions {
  static constexpr std::string_view type_name = "chat";

  std::string messages = "messages";

  std::vector<Side> sides() const override { return {Side::kTargets}; }
  bool has_answers() const override { return true; }
  std::unique_ptr<TextFormat> open_format(const FormatContext& context) const override;
  SourceChoice choice() const override { return *this; }
};

void describe(config::Visitor& visit, ChatOptions& options);

}  // namespace mtf
