// parse_yaml(): yaml-cpp's events become Nodes with places; what yaml-cpp accepts silently but the language
// does not, and its terse syntax errors, become Problems.
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>

#include "engine/config/load.h"
#include "engine/config/source_text.h"

namespace mtf::config {
namespace {

/// Aliases may multiply; a tree of this many nodes is an accident or an attack.
constexpr int64_t kMostNodes = 1'000'000;

class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const SourceText& source, Diagnostics& diagnostics)
      : source_(source), diagnostics_(diagnostics) {}

  Node root() const { return root_; }
  bool stopped() const { return stopped_; }
  /// The innermost `{` or `[` that is open, if any.
  const Mark* open_bracket() const {
    return !frames_.empty() && frames_.back().flow ? &frames_.back().mark : nullptr;
  }
  /// Ends all open lists and maps after a syntax error.
  void close_all() {
    while (!frames_.empty()) close(/*incomplete=*/true);
    root_ = root_.as_incomplete();
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ == 0) return;
    diagnostics_.error(source_.mark(mark.line, 0, 3), "a second document begins here",
                       "put it in a file of its own");
    stopped_ = true;
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const std::string_view text = source_.rest(mark.line, mark.column);
    const bool written = text.starts_with('~') || text.starts_with("null") || text.starts_with("Null") ||
                         text.starts_with("NULL");
    const bool value_of_key = !frames_.empty() && frames_.back().is_map && frames_.back().key;
    add(Node::null(value_of_key && !written ? frames_.back().key->mark()
                                            : source_.value_mark(mark.line, mark.column)),
        anchor, 1);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const Mark place = source_.value_mark(mark.line, mark.column);
    const auto found = anchors_.find(anchor);
    if (found != anchors_.end()) return add(found->second.first.at(place), 0, found->second.second);
    diagnostics_.error(place, "an alias inside the value that it stands for", "write the value out");
    add(Node::null(place), 0, 1);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    // After an anchor or a tag the mark is that of the anchor or tag.
    int column = mark.column;
    for (std::string_view text = source_.rest(mark.line, column);
         text.starts_with('&') || text.starts_with('!');) {
      const size_t end = text.find(' ');
      if (end == std::string_view::npos) break;
      const size_t next = text.find_first_not_of(' ', end);
      if (next == std::string_view::npos) break;
      column += static_cast<int>(next);
      text.remove_prefix(next);
    }
    const Mark place = source_.value_mark(mark.line, column, value);
    check_tag(tag, place);
    const bool quoted = tag == "!";
    const std::string_view text = source_.rest(mark.line, column);
    if (quoted && (text.starts_with('"') || text.starts_with('\'')) &&
        !source_.quote_is_closed(mark.line, column)) {
      diagnostics_.error(place, "the quote is not closed", fmt::format("end the text with {}", text.front()));
    }
    add(Node::scalar(value, place, quoted), anchor, 1);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    open(false, mark, tag, anchor, style);
  }
  void OnSequenceEnd() override { close(false); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(true, mark, tag, anchor, style);
  }
  void OnMapEnd() override { close(false); }

 private:
  struct Frame {
    bool is_map = false;
    bool flow = false;
    Mark mark;
    YAML::anchor_t anchor = 0;
    std::optional<Node> key;  ///< waits for its value
    std::vector<Node> elements;
    std::vector<Entry> entries;
    int64_t size = 1;
  };

  void check_tag(const std::string& tag, const Mark& place) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    diagnostics_.error(place, fmt::format("the YAML tag `{}` has no meaning here", tag),
                       "quote a value to make it a text");
  }

  void open(bool is_map, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YAML::EmitterStyle::value style) {
    const Mark place = source_.value_mark(mark.line, mark.column);
    check_tag(tag, place);
    frames_.push_back({is_map, style == YAML::EmitterStyle::Flow, place, anchor, {}, {}, {}});
  }

  void close(bool incomplete) {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    Node node = frame.is_map ? Node::map(std::move(frame.entries), frame.mark)
                             : Node::list(std::move(frame.elements), frame.mark);
    const bool stands_for_key = !frames_.empty() && frames_.back().is_map && !frames_.back().key;
    if (incomplete && stands_for_key) return;
    add(incomplete ? node.as_incomplete() : node, frame.anchor, frame.size);
  }

  void add(Node node, YAML::anchor_t anchor, int64_t size) {
    if (anchor) anchors_[anchor] = {node, size};
    if (stopped_) return;
    if (frames_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = frames_.back();
    frame.size += size;
    if (frame.size > kMostNodes) {
      diagnostics_.error(node.mark(),
                         fmt::format("aliases make more than {} values of this file", kMostNodes));
      stopped_ = true;
    } else if (!frame.is_map) {
      frame.elements.push_back(std::move(node));
    } else if (!frame.key) {
      frame.key = as_key(node);
    } else {
      add_entry(frame, *frame.key, std::move(node));
      frame.key.reset();
    }
  }

  Node as_key(const Node& node) {
    if (node.is_scalar()) return node;
    diagnostics_.error(node.mark(), fmt::format("a key is a word, not {}", node.describe()));
    return Node::null(node.mark());
  }

  void add_entry(Frame& frame, const Node& key, Node value) {
    if (key.is_null()) return;
    const std::string& name = key.text();
    if (name == "<<" && !key.quoted()) {
      diagnostics_.error(key.mark(), "`<<` is not merged",
                         "repeat the keys, or put them in a file of its own and `include` it");
      return;
    }
    const size_t colon = name.find(':');
    if (frame.flow && !key.quoted() && value.is_null() && colon != std::string::npos && colon > 0) {
      const std::string front = name.substr(0, colon), back = name.substr(colon + 1);
      diagnostics_.error(key.mark(), fmt::format("`{}` is a key without a value", name),
                         fmt::format("write a blank after the colon: `{}: {}`", front, back));
      frame.entries.push_back({front, key.mark(), Node::scalar(back, key.mark())});
      return;
    }
    for (const Entry& other : frame.entries) {
      if (other.key != name) continue;
      diagnostics_.error(key.mark(), fmt::format("`{}` occurs twice in one map", name),
                         fmt::format("it stands in line {} already", other.mark.line));
      return;
    }
    frame.entries.push_back({name, key.mark(), std::move(value)});
  }

  const SourceText& source_;
  Diagnostics& diagnostics_;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, std::pair<Node, int64_t>> anchors_;
  Node root_;
  int documents_ = 0;
  bool stopped_ = false;
};

std::string_view without_indentation(std::string_view line) {
  return line.substr(std::min(line.find_first_not_of(" \t"), line.size()));
}

/// "steps" when the line is `steps:100`: a colon without a blank, which YAML takes for a text.
std::string_view key_without_blank(std::string_view line) {
  line = without_indentation(line);
  const size_t end =
      line.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
  if (end == std::string_view::npos || end == 0 || end + 1 >= line.size() || line[end] != ':') return {};
  return line[end + 1] == ' ' || line[end + 1] == '/' ? std::string_view{} : line.substr(0, end);
}

/// A tab before the first character of the line where the error is, or of the one above.
std::optional<int> line_indented_by_tab(const SourceText& source, int line) {
  for (int i = line; i >= std::max(0, line - 1); --i) {
    const std::string_view text = source.line(i);
    if (text.substr(0, text.size() - without_indentation(text).size()).find('\t') != std::string_view::npos)
      return i;
  }
  return std::nullopt;
}

/// Explains `illegal map value`: a `: ` where none can be.
void report_map_value(const SourceText& source, int line, int column, Diagnostics& diagnostics) {
  int above = line - 1;
  while (above >= 0 && without_indentation(source.line(above)).empty()) --above;
  if (const std::string_view key = key_without_blank(source.line(above)); !key.empty()) {
    const std::string_view text = without_indentation(source.line(above));
    const int begin = static_cast<int>(source.line(above).size() - text.size());
    diagnostics.error(source.value_mark(above, begin, text),
                      fmt::format("`{}` has no blank after the colon", text),
                      fmt::format("write `{}: {}`", key, text.substr(key.size() + 1)));
    return;
  }
  const std::string_view before = source.line(line).substr(0, static_cast<size_t>(column));
  if (before.find(": ") != std::string_view::npos) {
    diagnostics.error(source.mark(line, column), "a second `: ` in one line",
                      "quote a text that contains it, or put the inner key in {...}");
  } else {
    const int begin = static_cast<int>(before.size() - without_indentation(before).size());
    diagnostics.error(source.mark(line, begin, before.size() - begin), "a key cannot stand here",
                      "give it the indentation of the keys beside it");
  }
}

void report_syntax_error(const YAML::ParserException& error, const SourceText& source,
                         const TreeBuilder& builder, Diagnostics& diagnostics) {
  const int line = std::max(0, error.mark.line), column = std::max(0, error.mark.column);
  const std::string_view text = source.line(line);
  const bool in_brackets = builder.open_bracket() != nullptr;
  if (in_brackets && column > 0 && text.substr(static_cast<size_t>(column) - 1).starts_with("${")) {
    const std::string_view rest = source.rest(line, column - 1);
    const std::string_view expression = rest.substr(0, std::min(rest.find('}'), rest.size() - 1) + 1);
    diagnostics.error(source.mark(line, column - 1, expression.size()),
                      fmt::format("`{}` has to be quoted inside {{...}} and [...]", expression),
                      fmt::format("write \"{}\"; for a name alone `$name`", expression));
  } else if (const auto tab = line_indented_by_tab(source, line)) {
    diagnostics.error(source.mark(*tab, 0), "a tab in the indentation", "indent with blanks");
  } else if (in_brackets && error.msg.find("flow not found") != std::string::npos) {
    Mark bracket = *builder.open_bracket();
    bracket.length = 1;
    const bool map = error.msg.find("map") != std::string::npos;
    diagnostics.error(
        bracket, fmt::format("`{}` is not closed, or an entry below it is malformed", map ? "{" : "["),
        fmt::format("close it with `{}`, separate entries by `, ` and quote texts with special characters",
                    map ? "}" : "]"));
  } else if (error.msg == "illegal map value") {
    report_map_value(source, line, column, diagnostics);
  } else if (error.msg.starts_with("end of map not found") ||
             error.msg.starts_with("end of sequence not found")) {
    diagnostics.error(source.mark(line, column),
                      "this line fits neither the list or map above nor the one around it",
                      "give it the indentation of its neighbours");
  } else if (error.msg == "unknown token") {
    diagnostics.error(source.mark(line, column),
                      fmt::format("a value cannot begin with `{}`", text.substr(column, 1)), "quote it");
  } else {
    diagnostics.error(source.mark(line, column), "not YAML: " + error.msg);
  }
}

}  // namespace

Node parse_yaml(std::string_view text, const std::string& file, Diagnostics& diagnostics) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  const SourceText source(file, text);
  TreeBuilder builder(source, diagnostics);
  std::istringstream stream{std::string(text)};
  try {
    YAML::Parser parser(stream);
    while (!builder.stopped() && parser.HandleNextDocument(builder)) {
    }
  } catch (const YAML::ParserException& error) {
    if (!builder.stopped()) report_syntax_error(error, source, builder, diagnostics);
    builder.close_all();
  }
  return builder.root();
}

}  // namespace mtf::config
