// The entry for a whole configuration. Lines that begin with %%% cut the input into parts:
//
//   include: b.yaml             the first part is a.yaml
//   %%% file                    the next file (b.yaml, c.yaml, ...), which is also on the command line
//   %%% included                the next file, which can only be included
//   %%% arguments               key=value, one per line
#include <fmt/format.h>

#include "engine/base/check.h"
#include "models/model.h"
#include "tests/fuzz/entries.h"
#include "tests/fuzz/expectations.h"
#include "trainer/config/config.h"

namespace mtf::fuzz {
namespace {

constexpr std::string_view kMarker = "%%% ";
constexpr size_t kMostFiles = 4;

struct CommandLine {
  std::vector<std::string> files;
  std::vector<std::string> arguments;
};

std::string_view take_line(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

/// Writes the files of the input and removes those of the previous input.
CommandLine command_line_of(std::string_view input) {
  CommandLine result;
  std::string kind = "file", text;
  size_t written = 0;
  const auto end_part = [&] {
    if (kind == "arguments" || written == kMostFiles) return;
    const std::string name = write_input(fmt::format("{}.yaml", "abcd"[written++]), text);
    if (kind == "file") result.files.push_back(name);
    text.clear();
  };
  while (!input.empty()) {
    const std::string_view line = take_line(input);
    if (line.starts_with(kMarker)) {
      end_part();
      kind = line.substr(kMarker.size());
    } else if (kind == "arguments") {
      result.arguments.emplace_back(line);
    } else {
      text += line;
      if (!input.empty()) text += '\n';
    }
  }
  end_part();
  for (size_t i = written; i < kMostFiles; ++i) remove_input(fmt::format("{}.yaml", "abcd"[i]));
  return result;
}

struct Loaded {
  Config config;
  Diagnostics diagnostics;
};

Loaded load(const CommandLine& command_line) {
  Loaded loaded;
  loaded.config = load_config(command_line.files, command_line.arguments, loaded.diagnostics);
  if (!loaded.config.model.is_null()) make_model(loaded.config.model, loaded.diagnostics);
  return loaded;
}

}  // namespace

void run_config(std::string_view input) {
  const Loaded loaded = load(command_line_of(input));
  expect_printable(loaded.diagnostics);
  if (loaded.diagnostics.has_errors()) return;
  std::string text;
  if (!succeeds([&] { text = resolved_yaml(loaded.config); })) return;
  const Loaded again = load({{write_input("config.yaml", text)}, {}});
  MTF_CHECK(!again.diagnostics.has_errors(), "{} in the resolved configuration\n{}",
            again.diagnostics.errors().front().to_string(), text);
  const std::string text_again = resolved_yaml(again.config);
  MTF_CHECK(text_again == text, "another resolved configuration after reading back\n{}\n{}", text,
            text_again);
}

}  // namespace mtf::fuzz
