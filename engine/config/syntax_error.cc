#include "engine/config/syntax_error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <string_view>

#include "engine/base/nearest.h"
#include "engine/config/json_escapes.h"

namespace mtf::config {
namespace {

std::string_view without_indentation(std::string_view line) {
  return line.substr(std::min(line.find_first_not_of(" \t"), line.size()));
}

/// Returns "steps" for the line `steps:100`: the colon lacks a blank, so that YAML reads a text.
std::string_view key_without_blank(std::string_view line) {
  line = without_indentation(line);
  const size_t end =
      line.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  if (end == std::string_view::npos || end == 0 || end + 1 >= line.size() || line[end] != ':') return {};
  return line[end + 1] == ' ' || line[end + 1] == '/' ? std::string_view{} : line.substr(0, end);
}

/// Returns the word at the front of `text`.
std::string_view first_word(std::string_view text) {
  return text.substr(0, std::min(text.find_first_of(" \t,]}"), text.size()));
}

class SyntaxError {
 public:
  SyntaxError(const YAML::ParserException& error, const SourceText& source,
              const std::optional<OpenBracket>& bracket, Diagnostics& diagnostics)
      : what_(error.msg),
        line_(std::max(0, error.mark.line)),
        column_(std::max(0, error.mark.column)),
        source_(source),
        bracket_(bracket),
        diagnostics_(diagnostics) {}

  void report(const std::vector<std::string>& anchors) const {
    if (report_expression() || report_tab()) return;
    const bool open = bracket_ && !source_.bracket_is_closed(bracket_->line, bracket_->column);
    if (open && !says(YAML::ErrorMsg::FLOW_END)) return report_open_bracket();
    if (bracket_ && says("flow not found")) {
      return error(column_, 1, fmt::format("`,` or `{}` is missing before this place", closing_bracket()),
                   "separate entries by `, ` and quote texts with special characters");
    }
    if (says(YAML::ErrorMsg::FLOW_END)) return report_closing_bracket();
    if (says(YAML::ErrorMsg::MAP_VALUE)) return report_map_value();
    if (says(YAML::ErrorMsg::END_OF_MAP) || says(YAML::ErrorMsg::END_OF_SEQ)) return report_place();
    if (says(YAML::ErrorMsg::INVALID_ESCAPE) || says(YAML::ErrorMsg::INVALID_HEX) ||
        says(YAML::ErrorMsg::INVALID_UNICODE))
      return report_escape();
    if (says(YAML::ErrorMsg::UNKNOWN_ANCHOR)) return report_anchor(anchors);
    if (says("alias") || says("anchor")) return report_sign();
    if (says(YAML::ErrorMsg::BLOCK_ENTRY)) {
      return error(column_, 1, "a list cannot begin here",
                   "put `- ` at the front of a line of its own, or write [...]");
    }
    if (says(YAML::ErrorMsg::UNKNOWN_TOKEN)) {
      return error(column_, 1, fmt::format("a value cannot begin with `{}`", rest().substr(0, 1)),
                   "quote it");
    }
    if (says(YAML::ErrorMsg::EOF_IN_SCALAR) || says(YAML::ErrorMsg::DOC_IN_SCALAR)) {
      return error(column_, 1, "a quoted text is not closed before this place", "end it with its quote");
    }
    error(column_, 1, "not YAML: " + what_);
  }

 private:
  bool says(std::string_view words) const { return what_.find(words) != std::string::npos; }
  std::string_view line() const { return source_.line(line_); }
  std::string_view rest() const { return source_.rest(line_, column_); }

  void error(int column, size_t length, std::string message, std::string hint = {}) const {
    diagnostics_.error(source_.mark(line_, column, length), std::move(message), std::move(hint));
  }

  /// Reports an unquoted `${` inside brackets, where YAML takes its `{` for a map.
  bool report_expression() const {
    if (!bracket_ || column_ == 0 || !source_.rest(line_, column_ - 1).starts_with("${")) return false;
    const std::string_view text = source_.rest(line_, column_ - 1);
    const std::string_view expression = text.substr(0, std::min(text.find('}'), text.size() - 1) + 1);
    error(column_ - 1, expression.size(),
          fmt::format("`{}` has to be quoted inside {{...}} and [...]", expression),
          fmt::format("write \"{}\"; for a name alone `$name`", expression));
    return true;
  }

  /// Reports a tab in the indentation of the line of the error or of the line above.
  bool report_tab() const {
    for (int i = line_; i >= std::max(0, line_ - 1); --i) {
      const std::string_view text = source_.line(i);
      const size_t tab = text.substr(0, text.size() - without_indentation(text).size()).find('\t');
      if (tab == std::string_view::npos) continue;
      diagnostics_.error(source_.mark(i, static_cast<int>(tab)), "a tab in the indentation",
                         "indent with blanks");
      return true;
    }
    return false;
  }

  char opening_bracket() const { return source_.rest(bracket_->line, bracket_->column).front(); }
  char closing_bracket() const { return opening_bracket() == '{' ? '}' : ']'; }

  void report_open_bracket() const {
    diagnostics_.error(source_.mark(bracket_->line, bracket_->column),
                       fmt::format("`{}` is not closed", opening_bracket()),
                       fmt::format("close it with `{}`", closing_bracket()));
  }

  void report_closing_bracket() const {
    const char close = rest().empty() ? '}' : rest().front();
    if (!bracket_) return error(column_, 1, fmt::format("`{}` closes nothing", close), "leave it out");
    error(column_, 1,
          fmt::format("`{}` cannot close the `{}` of line {}", close, opening_bracket(), bracket_->line + 1),
          fmt::format("close that with `{}`", closing_bracket()));
  }

  /// Reports a `: ` in a place where YAML allows none.
  void report_map_value() const {
    int above = line_ - 1;
    while (above >= 0 && without_indentation(source_.line(above)).empty()) --above;
    if (const std::string_view key = key_without_blank(source_.line(above)); !key.empty()) {
      const std::string_view text = without_indentation(source_.line(above));
      const int begin = static_cast<int>(source_.line(above).size() - text.size());
      diagnostics_.error(source_.value_mark(above, begin, text),
                         fmt::format("`{}` has no blank after the colon", text),
                         fmt::format("write `{}: {}`", key, text.substr(key.size() + 1)));
      return;
    }
    const std::string_view before = line().substr(0, static_cast<size_t>(column_));
    if (before.find(": ") != std::string_view::npos) {
      error(column_, 1, "a second `: ` in one line",
            "quote a text that contains it, or put the inner key in {...}");
    } else {
      const size_t begin = before.size() - without_indentation(before).size();
      error(static_cast<int>(begin), before.size() - begin, "a key cannot stand here",
            "give it the indentation of the keys beside it");
    }
  }

  /// Reports text that belongs neither to the list or map before it nor to the one around that.
  void report_place() const {
    const std::string_view before = line().substr(0, std::min(static_cast<size_t>(column_), line().size()));
    if (without_indentation(before).empty()) {
      error(column_, 1, "this line fits neither the list or map above nor the one around it",
            "give it the indentation of its neighbours");
    } else {
      error(column_, rest().size(), fmt::format("`{}` stands behind the end of a value", rest()),
            "quote the whole value, or begin a new line");
    }
  }

  void report_escape() const {
    // The place of the error is behind the escape.
    const size_t backslash = line().rfind('\\', static_cast<size_t>(std::max(0, column_ - 1)));
    if (backslash == std::string_view::npos) return error(column_, 1, "not YAML: " + what_);
    if (says(YAML::ErrorMsg::INVALID_UNICODE)) return report_no_character(static_cast<int>(backslash));
    const std::string_view escape = line().substr(backslash, 2);
    error(static_cast<int>(backslash), escape.size(),
          fmt::format("`{}` means nothing in a text in \"...\"", escape),
          "write `\\\\` for a backslash, or put the text in '...'");
  }

  /// Reports the escape from `backslash` on, whose number is that of no character.
  void report_no_character(int backslash) const {
    constexpr size_t kPair = 12;  // bytes of `\ud83d\ude00`
    const std::string_view text = source_.rest(line_, backslash);
    if (const auto character = surrogate_pair(text)) {
      return error(backslash, kPair,
                   fmt::format("`{}` is a pair of surrogates, which stands for a character in JSON alone",
                               text.substr(0, kPair)),
                   fmt::format("in YAML write `\\U{:08x}`, or the character itself",
                               static_cast<uint32_t>(*character)));
    }
    const std::string_view escape = text.substr(0, static_cast<size_t>(std::max(1, column_ - backslash)));
    if (escape.starts_with("\\u")) {
      return error(backslash, escape.size(),
                   fmt::format("`{}` is half of a pair of surrogates, and no character", escape),
                   "write the character itself");
    }
    error(backslash, escape.size(), fmt::format("`{}` is no character of Unicode", escape),
          "the last one is `\\U0010ffff`");
  }

  void report_anchor(const std::vector<std::string>& anchors) const {
    const std::string_view alias = first_word(rest());
    const std::string_view name = alias.substr(std::min<size_t>(1, alias.size()));
    const bool is_name =
        std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '-'; });
    if (!is_name) return report_sign();
    error(column_, alias.size(), fmt::format("there is no anchor `{}` before this alias", name),
          anchors.empty() ? fmt::format("define it with `&{}`, or quote a text that begins with `*`", name)
                          : did_you_mean(name, anchors));
  }

  /// Reports a `*` or `&` that begins neither an alias nor an anchor.
  void report_sign() const {
    const size_t sign = line().find_last_of("*&", static_cast<size_t>(column_));
    if (sign == std::string_view::npos) return error(column_, 1, "not YAML: " + what_);
    const std::string_view word = first_word(line().substr(sign));
    error(static_cast<int>(sign), word.size(),
          fmt::format("`{}` at the front of a value means {}", word[0],
                      word[0] == '*' ? "an alias" : "an anchor"),
          fmt::format("quote the text: \"{}\"", word));
  }

  const std::string& what_;
  int line_, column_;
  const SourceText& source_;
  const std::optional<OpenBracket>& bracket_;
  Diagnostics& diagnostics_;
};

}  // namespace

void report_syntax_error(const YAML::ParserException& error, const SourceText& source,
                         const std::optional<OpenBracket>& bracket, const std::vector<std::string>& anchors,
                         Diagnostics& diagnostics) {
  SyntaxError(error, source, bracket, diagnostics).report(anchors);
}

}  // namespace mtf::config
