// A source of pairs of answers: JSON Lines, each with a prompt, the answer that was chosen and the one that was rejected.
// These are texts, or lists of messages, which are put into the texts of their roles' turns. Each line becomes two texts,
// of which the answers are learned.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/text/chat_turns.h"
#include "data/text/text_options.h"

namespace mtf {

struct PreferencesOptions final : FilesOfTexts, ChatTurnsOptions {
  static constexpr std::string_view type_name = "preferences";

  std::string prompt = "prompt";
  std::string chosen = "chosen";
  std::string rejected = "rejected";

  std::vector<Side> sides() const override { return {Side::kTargets}; }
  bool has_answers() const override { return true; }
  bool has_preferences() const override { return true; }
  std::unique_ptr<TextFormat> open_format(const FormatContext& context) const override;
  SourceChoice choice() const override { return *this; }
};

void describe(config::Visitor& visit, PreferencesOptions& options);

}  // namespace mtf
