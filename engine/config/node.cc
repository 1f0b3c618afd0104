#include "engine/config/node.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "engine/base/parse_number.h"
#include "engine/base/printable.h"

namespace mtf::config {

struct Node::Data {
  Kind kind = Kind::kNull;
  Mark mark;
  std::string text;
  bool quoted = false;
  bool incomplete = false;
  bool extends_default = false;
  bool removes_nothing = false;
  std::vector<Node> elements;
  std::vector<Entry> entries;
  std::shared_ptr<const Variables> variables;
};

Node::Node(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

Node::Node() {
  static const std::shared_ptr<const Data> kNothing = std::make_shared<Data>();
  data_ = kNothing;
}

Node Node::null(Mark mark) {
  auto data = std::make_shared<Data>();
  data->mark = std::move(mark);
  return Node(std::move(data));
}

Node Node::unknown(Mark mark) { return null(std::move(mark)).as_incomplete(); }

Node Node::scalar(std::string text, Mark mark, bool quoted) {
  auto data = std::make_shared<Data>();
  data->kind = Kind::kScalar;
  data->mark = std::move(mark);
  data->text = std::move(text);
  data->quoted = quoted;
  return Node(std::move(data));
}

Node Node::list(std::vector<Node> elements, Mark mark) {
  auto data = std::make_shared<Data>();
  data->kind = Kind::kList;
  data->mark = std::move(mark);
  data->elements = std::move(elements);
  return Node(std::move(data));
}

Node Node::map(std::vector<Entry> entries, Mark mark) {
  auto data = std::make_shared<Data>();
  data->kind = Kind::kMap;
  data->mark = std::move(mark);
  data->entries = std::move(entries);
  return Node(std::move(data));
}

Node Node::deferred(const Node& node, std::shared_ptr<const Variables> variables) {
  auto data = std::make_shared<Data>(*node.data_);
  data->variables = std::move(variables);
  return Node(std::move(data));
}

Node Node::at(Mark mark) const {
  auto data = std::make_shared<Data>(*data_);
  data->mark = std::move(mark);
  return Node(std::move(data));
}

Node Node::as_incomplete() const {
  auto data = std::make_shared<Data>(*data_);
  data->incomplete = true;
  return Node(std::move(data));
}

Node Node::as_extension() const {
  auto data = std::make_shared<Data>(*data_);
  data->extends_default = true;
  return Node(std::move(data));
}

Node Node::as_removal_of_nothing() const {
  auto data = std::make_shared<Data>(*data_);
  data->removes_nothing = true;
  return Node(std::move(data));
}

bool Node::is_complete() const {
  return !incomplete() && std::ranges::all_of(elements(), &Node::is_complete) &&
         std::ranges::all_of(entries(), [](const Entry& entry) { return entry.value.is_complete(); });
}

Node::Kind Node::kind() const { return data_->kind; }
const Mark& Node::mark() const { return data_->mark; }
const std::string& Node::text() const { return data_->text; }
bool Node::quoted() const { return data_->quoted; }
bool Node::incomplete() const { return data_->incomplete; }
bool Node::extends_default() const { return data_->extends_default; }
bool Node::removes_nothing() const { return data_->removes_nothing; }
const std::vector<Node>& Node::elements() const { return data_->elements; }
const std::vector<Entry>& Node::entries() const { return data_->entries; }
const std::shared_ptr<const Variables>& Node::variables() const { return data_->variables; }

Mark Node::mark_within(size_t offset, size_t length) const {
  const Mark& whole = mark();
  if (!is_scalar() || whole.column == 0 || offset + length > text().size()) return whole;
  const std::string_view line = whole.text;
  const size_t begin = byte_of_character(line, whole.column - whole.text_column);
  const size_t start = begin + (begin < line.size() && (line[begin] == '"' || line[begin] == '\'') ? 1 : 0);
  const std::string_view part = std::string_view(text()).substr(offset, length);
  if (start + offset > line.size() || line.substr(start + offset, length) != part) return whole;
  Mark result = whole;
  result.column = whole.text_column + character_count(line.substr(0, start + offset));
  result.length = std::max(1, character_count(part));
  return result;
}

bool Node::is_word() const {
  const auto letter = [](unsigned char c) { return std::isalpha(c) || c == '_'; };
  return is_scalar() && !text().empty() && letter(text().front()) &&
         std::all_of(text().begin(), text().end(),
                     [&](unsigned char c) { return letter(c) || std::isdigit(c) || c == '-'; });
}

const Entry* Node::entry(std::string_view key) const {
  for (const Entry& entry : entries()) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

const Node* Node::find(std::string_view key) const {
  const Entry* found = entry(key);
  return found && !found->value.is_null() ? &found->value : nullptr;
}

Mark Node::mark_of(std::string_view path) const {
  const Node* node = this;
  Mark mark = node->mark();
  while (!path.empty()) {
    const size_t dot = path.find('.');
    const std::string_view key = path.substr(0, dot);
    if (const std::optional<int64_t> index = node->is_list() ? to_integer(key) : std::nullopt) {
      if (*index < 0 || *index >= std::ssize(node->elements())) break;
      node = &node->elements()[static_cast<size_t>(*index)];
      mark = node->mark();
    } else {
      const Entry* entry = node->entry(key);
      if (!entry) break;
      mark = entry->value.mark().known() ? entry->value.mark() : entry->mark;
      node = &entry->value;
    }
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return mark;
}

Node Node::with(Entry entry) const {
  auto data = is_map() ? std::make_shared<Data>(*data_) : std::make_shared<Data>();
  if (!is_map()) data->mark = entry.mark;
  data->kind = Kind::kMap;
  const auto place = std::find_if(data->entries.begin(), data->entries.end(),
                                  [&](const Entry& other) { return other.key == entry.key; });
  if (place == data->entries.end()) {
    data->entries.push_back(std::move(entry));
  } else {
    *place = std::move(entry);
  }
  return Node(std::move(data));
}

Node Node::without(std::string_view key) const {
  if (!entry(key)) return *this;
  auto data = std::make_shared<Data>(*data_);
  std::erase_if(data->entries, [&](const Entry& entry) { return entry.key == key; });
  return Node(std::move(data));
}

Node Node::with_elements(std::vector<Node> elements) const {
  auto data = std::make_shared<Data>(*data_);
  data->elements = std::move(elements);
  return Node(std::move(data));
}

std::string Node::describe() const {
  switch (kind()) {
    case Kind::kNull:
      return "null";
    case Kind::kList:
      return "a list";
    case Kind::kMap:
      return "a map";
    case Kind::kScalar:
      break;
  }
  if (!quoted() && (to_number(text()) || to_bool(text()))) return fmt::format("`{}`", text());
  return fmt::format("the text `{}`", text());
}

bool operator==(const Node& a, const Node& b) {
  if (a.data_ == b.data_) return true;
  if (a.kind() != b.kind() || a.text() != b.text() || a.elements() != b.elements()) return false;
  return std::equal(a.entries().begin(), a.entries().end(), b.entries().begin(), b.entries().end(),
                    [](const Entry& x, const Entry& y) { return x.key == y.key && x.value == y.value; });
}

const Node* Variables::find(std::string_view name) const {
  for (const Entry& entry : values) {
    if (entry.key == name) return &entry.value;
  }
  return nullptr;
}

namespace {

constexpr std::string_view kSeparators = " ,.;\t\n";

/// Returns the end of the pair that begins at `begin`: the first separator outside brackets.
size_t end_of_pair(std::string_view text, size_t begin) {
  const size_t open = text.find('[', begin),
               separator = std::min(text.find_first_of(kSeparators, begin), text.size());
  if (open > separator) return separator;
  const size_t close = text.find(']', open);
  return close == std::string_view::npos ? separator
                                         : std::min(text.find_first_of(kSeparators, close), text.size());
}

/// Returns the value of a pair, behind its colon: a word, or a list of the words in brackets.
Node value_of_pair(const Node& scalar, size_t begin, size_t end) {
  const std::string_view value = std::string_view(scalar.text()).substr(begin, end - begin);
  const Mark mark = scalar.mark_within(begin, value.size());
  if (!value.starts_with('[') || !value.ends_with(']')) return Node::scalar(std::string(value), mark);
  std::vector<Node> elements;
  const std::string_view words = value.substr(1, value.size() - 2);
  for (size_t at = words.find_first_not_of(kSeparators); at != std::string_view::npos;) {
    const size_t word_end = std::min(words.find_first_of(kSeparators, at), words.size());
    elements.push_back(Node::scalar(std::string(words.substr(at, word_end - at)),
                                    scalar.mark_within(begin + 1 + at, word_end - at)));
    at = words.find_first_not_of(kSeparators, word_end);
  }
  return Node::list(std::move(elements), mark);
}

}  // namespace

Node pairs_to_map(const Node& scalar, std::string_view example, Diagnostics& diagnostics) {
  const std::string_view text = scalar.text();
  std::vector<Entry> entries;
  for (size_t begin = text.find_first_not_of(kSeparators); begin != std::string_view::npos;) {
    size_t end = end_of_pair(text, begin), value = std::string_view::npos;
    if (text[end - 1] == ':' && end < text.size() && text[end] == ' ') {  // as in "rows: 2"
      value = text.find_first_not_of(' ', end);
      if (value != std::string_view::npos) end = end_of_pair(text, value);
    }
    const std::string_view pair = text.substr(begin, end - begin);
    const size_t colon = pair.find(':');
    const Mark mark = scalar.mark_within(begin, pair.size());
    if (colon == std::string_view::npos || colon == 0 || colon + 1 == pair.size() ||
        pair.rfind(':') != colon) {
      diagnostics.error(mark, fmt::format("`{}` is not a pair `name:value`", pair),
                        fmt::format("write for example {}", example));
    } else {
      entries.push_back(
          {std::string(pair.substr(0, colon)), mark,
           value_of_pair(scalar, value == std::string_view::npos ? begin + colon + 1 : value, end)});
    }
    begin = text.find_first_not_of(kSeparators, end);
  }
  return Node::map(std::move(entries), scalar.mark());
}

std::optional<int64_t> to_integer(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  return parse_number<int64_t>(text);
}

std::optional<double> to_number(std::string_view text) {
  if (text.starts_with('+')) text.remove_prefix(1);
  const std::optional<double> value = parse_number<double>(text);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<bool> to_bool(std::string_view text) {
  if (text == "true") return true;
  if (text == "false") return false;
  return std::nullopt;
}

}  // namespace mtf::config
