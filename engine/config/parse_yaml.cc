// parse_yaml(): converts yaml-cpp's events to Nodes with places, and reports what yaml-cpp accepts but the
// language does not (for yaml-cpp's own errors see syntax_error.h).
#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/parser.h>

#include <map>
#include <sstream>
#include <unordered_map>

#include "engine/config/json_escapes.h"
#include "engine/config/load.h"
#include "engine/config/source_text.h"
#include "engine/config/syntax_error.h"

namespace mtf::config {
namespace {

/// The size of a value with everything in it, where aliases are followed.
struct Extent {
  int64_t values = 1;
  int depth = 0;  ///< nesting depth of lists and maps
};

/// Thrown to leave the parser early.
struct Stop {};

class TreeBuilder final : public YAML::EventHandler {
 public:
  TreeBuilder(const SourceText& source, Diagnostics& diagnostics)
      : source_(source), diagnostics_(diagnostics) {}

  Node root() const { return root_; }
  /// Returns the innermost `{` or `[` that is open, if any.
  std::optional<OpenBracket> open_bracket() const {
    if (frames_.empty() || !frames_.back().flow) return std::nullopt;
    return frames_.back().begin;
  }
  /// Returns the names of the anchors so far.
  const std::vector<std::string>& anchors() const { return anchor_names_; }
  /// True if a quote that is not closed was reported: errors that follow from it are not reported.
  bool quote_is_open() const { return quote_is_open_; }

  /// Ends the tree after a syntax error: complete sections stay; the value of the section with the error is
  /// unknown.
  void abandon() {
    if (!frames_.empty() && frames_.front().is_map) {
      Frame& top = frames_.front();
      if (top.key) {
        top.entries.push_back({top.key->text(), top.key->mark(), Node::unknown(top.key->mark())});
      } else if (!top.entries.empty()) {
        top.entries.back().value = Node::unknown(top.entries.back().mark);
      }
      root_ = Node::map(std::move(top.entries), top.mark);
    }
    frames_.clear();
    root_ = root_.as_incomplete();
  }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ == 0) return;
    const std::string_view text = source_.rest(mark.line, mark.column);
    if (!text.empty() && !text.starts_with("---"))
      stop(source_.mark(mark.line, mark.column, text.size()),
           fmt::format("`{}` stands behind the end of a value", text), "quote the whole value");
    stop(source_.mark(mark.line, 0, 3), "a second document begins here", "put it in a file of its own");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const std::string_view text = source_.rest(mark.line, mark.column);
    const bool written = text.starts_with('~') || text.starts_with("null") || text.starts_with("Null") ||
                         text.starts_with("NULL");
    add(Node::null(written ? source_.value_mark(mark.line, mark.column) : place_of_nothing(mark)), anchor,
        {});
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const std::string_view text = source_.rest(mark.line, mark.column);
    const Mark place =
        source_.mark(mark.line, mark.column, std::min(text.find_first_of(" ,]}"), text.size()));
    const auto found = anchors_.find(anchor);
    if (found != anchors_.end()) return add(found->second.first.at(place), 0, found->second.second);
    diagnostics_.error(place, "an alias inside the value that it stands for", "write the value out");
    add(Node::unknown(place), 0, {});
  }

  void OnAnchor(const YAML::Mark&, const std::string& name) override { anchor_names_.push_back(name); }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    const int column = after_properties(mark.line, mark.column);
    check_tag(tag, mark);
    const Mark place = source_.value_mark(mark.line, column, value);
    const bool quoted = tag == "!";
    const std::string_view text = source_.rest(mark.line, column);
    if (quoted && (text.starts_with('"') || text.starts_with('\'')) &&
        !source_.quote_is_closed(mark.line, column)) {
      diagnostics_.error(place, "the quote is not closed", fmt::format("end the text with {}", text.front()));
      quote_is_open_ = true;
    }
    add(Node::scalar(value, place, quoted), anchor, {});
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value style) override {
    open(false, mark, tag, anchor, style);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(true, mark, tag, anchor, style);
  }
  void OnMapEnd() override { close(); }

 private:
  struct Frame {
    bool is_map = false;
    bool flow = false;
    OpenBracket begin;
    Mark mark;
    YAML::anchor_t anchor = 0;
    std::optional<Node> key;  ///< a key that waits for its value
    std::vector<Node> elements;
    std::vector<Entry> entries;
    std::unordered_map<std::string, int> lines;  ///< line of each key so far
    Extent extent = {.values = 1, .depth = 1};
  };

  /// Returns the place of a value that is left out: its key or its `-`, because yaml-cpp gives the mark of
  /// what follows.
  Mark place_of_nothing(const YAML::Mark& mark) const {
    if (frames_.empty() || frames_.back().flow) return source_.value_mark(mark.line, mark.column);
    if (frames_.back().key) return frames_.back().key->mark();
    for (int line = std::min(mark.line, source_.lines() - 1); line >= 0; --line) {
      std::string_view text = source_.line(line);
      if (line == mark.line) text = text.substr(0, std::min(static_cast<size_t>(mark.column), text.size()));
      const size_t last = text.find_last_not_of(" \t");
      if (last != std::string_view::npos && text[last] == '-')
        return source_.mark(line, static_cast<int>(last));
    }
    return source_.value_mark(mark.line, mark.column);
  }

  /// Returns the column of a value, skipping the anchor or the tag at which its mark may be.
  int after_properties(int line, int column) const {
    for (std::string_view text = source_.rest(line, column);
         text.starts_with('&') || text.starts_with('!');) {
      const size_t end = text.find(' ');
      if (end == std::string_view::npos) break;
      const size_t next = text.find_first_not_of(' ', end);
      if (next == std::string_view::npos) break;
      column += static_cast<int>(next);
      text.remove_prefix(next);
    }
    return column;
  }

  /// Reports a tag. `mark` is the place of the tag, or of an anchor before it.
  void check_tag(const std::string& tag, const YAML::Mark& mark) {
    if (tag.empty() || tag == "?" || tag == "!") return;
    const std::string_view text = source_.rest(mark.line, mark.column);
    const size_t begin = std::min(text.find('!'), text.size());
    const std::string_view written =
        text.substr(begin, std::min(text.find_first_of(" ,]}", begin), text.size()) - begin);
    diagnostics_.error(source_.mark(mark.line, mark.column + static_cast<int>(begin), written.size()),
                       fmt::format("the YAML tag `{}` has no meaning here", written),
                       "leave it out, or quote a text that begins with `!`");
  }

  void open(bool is_map, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YAML::EmitterStyle::value style) {
    const int column = after_properties(mark.line, mark.column);
    check_tag(tag, mark);
    const bool flow = style == YAML::EmitterStyle::Flow;
    // The place of a list or map over several lines is that of its key.
    const bool below_key = !flow && !frames_.empty() && frames_.back().key;
    const Mark place = below_key ? frames_.back().key->mark() : source_.value_mark(mark.line, column);
    frames_.push_back({is_map, flow, {mark.line, column}, place, anchor, {}, {}, {}, {}});
    if (frames_.size() > kDeepestNesting) stop_too_deep(place);
  }

  void close() {
    Frame frame = std::move(frames_.back());
    frames_.pop_back();
    Node node = frame.is_map ? Node::map(std::move(frame.entries), frame.mark)
                             : Node::list(std::move(frame.elements), frame.mark);
    add(std::move(node), frame.anchor, frame.extent);
  }

  [[noreturn]] void stop(const Mark& place, const std::string& message, const std::string& hint = {}) {
    diagnostics_.error(place, message, hint);
    throw Stop{};
  }
  /// Reports something that is too large, and drops the tree, so that it is not processed any further.
  [[noreturn]] void stop_too_large(const Mark& place, const std::string& message) {
    frames_.clear();
    root_ = Node();
    stop(place, message);
  }
  [[noreturn]] void stop_too_deep(const Mark& place) {
    stop_too_large(place, fmt::format("lists and maps are nested more than {} deep", kDeepestNesting));
  }

  void add(Node node, YAML::anchor_t anchor, const Extent& extent) {
    if (anchor) anchors_[anchor] = {node, extent};
    if (frames_.empty()) {
      root_ = std::move(node);
      return;
    }
    Frame& frame = frames_.back();
    frame.extent.values += extent.values;
    frame.extent.depth = std::max(frame.extent.depth, extent.depth + 1);
    if (frame.extent.values > kMostValues) {
      stop_too_large(node.mark(),
                     fmt::format("the file has more than {} values, aliases followed", kMostValues));
    } else if (frames_.size() + static_cast<size_t>(extent.depth) > kDeepestNesting) {
      stop_too_deep(node.mark());
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
    if (name.size() > kLongestKey) {
      diagnostics_.error(key.mark(), fmt::format("a key of more than {} bytes", kLongestKey));
      return;
    }
    const size_t colon = name.find(':');
    if (!key.quoted() && value.is_null() && colon != std::string::npos && colon > 0) {
      const std::string front = name.substr(0, colon), back = name.substr(colon + 1);
      diagnostics_.error(key.mark(), fmt::format("`{}` is a key without a value", name),
                         fmt::format("write a blank after the colon: `{}: {}`", front, back));
      frame.entries.push_back({front, key.mark(), Node::scalar(back, key.mark())});
      return;
    }
    if (const auto [first, fresh] = frame.lines.emplace(name, key.mark().line); !fresh) {
      diagnostics_.error(key.mark(), fmt::format("`{}` occurs twice in one map", name),
                         fmt::format("it stands in line {} already", first->second));
      return;
    }
    frame.entries.push_back({name, key.mark(), std::move(value)});
  }

  const SourceText& source_;
  Diagnostics& diagnostics_;
  std::vector<Frame> frames_;
  std::map<YAML::anchor_t, std::pair<Node, Extent>> anchors_;
  std::vector<std::string> anchor_names_;
  Node root_;
  int documents_ = 0;
  bool quote_is_open_ = false;
};

/// Reports lines that begin with `%`, which yaml-cpp ignores.
void report_directives(const SourceText& source, Diagnostics& diagnostics) {
  for (int line = 0; line < source.lines(); ++line) {
    if (!source.line(line).starts_with('%')) continue;
    diagnostics.error(source.value_mark(line, 0), "a line that begins with `%` is left out by YAML",
                      "`#` begins a comment");
  }
}

void report_stray_byte(const StrayByte& stray, const SourceText& source, Diagnostics& diagnostics) {
  const auto report = [&](std::string message, std::string hint) {
    diagnostics.error(stray.place, std::move(message), std::move(hint));
  };
  if (source.is_utf16()) return report("the file is in UTF-16", "save the file as UTF-8");
  if (stray.byte >= 0x80) return report("this byte belongs to no text in UTF-8", "save the file as UTF-8");
  if (stray.byte == '\r')
    return report("a carriage return without a line feed", "end the lines with LF or with CR LF");
  report(fmt::format("the control character U+{:04X}", stray.byte),
         stray.byte == 0 ? "leave it out; a text in UTF-16 has many: save it as UTF-8"
                         : "leave it out, if the file is a text at all");
}

}  // namespace

Node parse_yaml(std::string_view given, const std::string& file, Diagnostics& diagnostics) {
  if (given.starts_with("\xEF\xBB\xBF")) given.remove_prefix(3);
  const std::string text = with_yaml_escapes(given);
  const SourceText source(file, text);
  if (const auto stray = source.first_stray_byte()) {
    report_stray_byte(*stray, source, diagnostics);
    return Node::null(stray->place).as_incomplete();
  }
  TreeBuilder builder(source, diagnostics);
  std::istringstream stream(text);
  try {
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const Stop&) {
    builder.abandon();
  } catch (const YAML::ParserException& error) {
    if (!builder.quote_is_open())
      report_syntax_error(error, source, builder.open_bracket(), builder.anchors(), diagnostics);
    builder.abandon();
  }
  report_directives(source, diagnostics);
  return builder.root();
}

}  // namespace mtf::config
