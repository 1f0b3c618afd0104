#include "data/text/text_formats.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "data/text/json_lines.h"
#include "data/text/line_reader.h"
#include "data/text/token_words.h"

namespace mtf {
namespace {

class LineFormat final : public TextFormat {
 public:
  LineFormat(const TextOptions& options, const FormatContext& context)
      : side_(options.as),
        lines_(context.files[0], context.problems, context.limit),
        blank_lines_(context.blank_lines) {}

  bool next(TextExample& example) override {
    while (const auto line = lines_.next()) {
      if (is_blank_line(*line)) {
        ++blank_lines_;
      } else {
        example[side_].text = *line;
        return true;
      }
    }
    return false;
  }
  int64_t bytes_read() const override { return lines_.bytes_read(); }

 private:
  Side side_;
  LineReader lines_;
  int64_t& blank_lines_;
};

class DocumentFormat final : public TextFormat {
 public:
  DocumentFormat(const TextOptions& options, const FormatContext& context)
      : side_(options.as),
        lines_(context.files[0], context.problems, context.limit),
        limit_(context.limit),
        blank_lines_(context.blank_lines) {}

  bool next(TextExample& example) override {
    std::string& document = example[side_].text;
    document.clear();
    while (const auto line = lines_.next()) {
      if (is_blank_line(*line)) {
        ++blank_lines_;
        if (!document.empty()) return true;
      } else {
        if (!document.empty()) document += '\n';
        document += *line;
        if (!limit_.allows(document.size()))
          limit_.refuse(fmt::format("{}: the document up to line {}", lines_.path(), lines_.line()));
      }
    }
    return !document.empty();
  }
  int64_t bytes_read() const override { return lines_.bytes_read(); }

 private:
  Side side_;
  LineReader lines_;
  TextLimit limit_;
  int64_t& blank_lines_;
};

class ParallelFormat final : public TextFormat {
 public:
  explicit ParallelFormat(const FormatContext& context) : problems_(context.problems) {
    for (const std::string& file : context.files)
      readers_.push_back(std::make_unique<LineReader>(file, context.problems, context.limit));
  }

  bool next(TextExample& example) override {
    for (size_t i = 0; i < readers_.size(); ++i) lines_[i] = readers_[i]->next();
    const auto found = std::ranges::count_if(lines_, [](const auto& line) { return line.has_value(); });
    if (found == std::ssize(readers_)) {
      example.inputs.text = *lines_[0];
      example.targets.text = *lines_[1];
      if (lines_[2]) read_links(*lines_[2], example);
      return true;
    }
    if (found > 0) report_different_lines();
    return false;
  }
  int64_t bytes_read() const override {
    int64_t bytes = 0;
    for (const auto& reader : readers_) bytes += reader->bytes_read();
    return bytes;
  }

 private:
  void report_different_lines() {
    for (const auto& reader : readers_) {
      while (reader->next()) continue;
    }
    const auto is_longer = [&](const auto& reader) { return reader->line() != readers_[0]->line(); };
    const LineReader& other = **std::ranges::find_if(readers_, is_longer);
    problems_.add({ErrorKind::kData,
                   {},
                   fmt::format("{} has {} lines, and {} has {}", readers_[0]->path(), readers_[0]->line(),
                               other.path(), other.line()),
                   "files in which each line belongs to the same line of the other",
                   {}});
  }

  /// Sets the links of the targets.
  void read_links(std::string_view line, TextExample& example) {
    const LineReader& reader = *readers_[2];
    const auto wrong = [&](const std::string& what, const std::string& hint) {
      problems_.add(reader.path(), "line", reader.line(), what, hint);
    };
    example.targets.links.clear();
    const std::optional<std::vector<WordLink>> links = parse_word_links(line);
    if (!links)
      return wrong("this is no alignment", "links such as `0-0 1-2`, of words of the inputs and the targets");
    const int32_t inputs = count_words(example.inputs.text), targets = count_words(example.targets.text);
    for (const WordLink& link : *links) {
      if (link.input < inputs && link.target < targets) continue;
      return wrong(
          fmt::format("{}-{}, and the texts have {} and {} words", link.input, link.target, inputs, targets),
          "numbers of words from 0, where words stand between blanks");
    }
    example.targets.links = *links;
  }

  std::vector<std::unique_ptr<LineReader>>
      readers_;  ///< the inputs, the targets and, where there are any, the alignments
  std::array<std::optional<std::string_view>, 3> lines_;  ///< the next one of each
  TextProblems& problems_;
};

class TsvFormat final : public TextFormat {
 public:
  TsvFormat(const TsvOptions& options, const FormatContext& context)
      : lines_(context.files[0], context.problems, context.limit), problems_(context.problems) {
    for (const std::string& column : options.columns) {
      const auto side = std::ranges::find(kSides, column, [](Side s) { return name_of(s); });
      columns_.push_back(side == kSides.end() ? std::nullopt : std::optional(*side));
    }
  }

  bool next(TextExample& example) override {
    while (const auto line = lines_.next()) {
      if (read_columns(*line, example)) return true;
    }
    return false;
  }
  int64_t bytes_read() const override { return lines_.bytes_read(); }

 private:
  /// Reads the named columns of a line, which may have more columns than names; false if it has fewer.
  bool read_columns(std::string_view line, TextExample& example) {
    const auto found = 1 + std::ranges::count(line, '\t');
    if (found < static_cast<int64_t>(columns_.size())) {
      problems_.add(lines_.path(), "line", lines_.line(),
                    fmt::format("{} of {} columns", found, columns_.size()),
                    "as many columns as `columns` names, separated by tab characters");
      return false;
    }
    for (const std::optional<Side> side : columns_) {
      const size_t tab = std::min(line.find('\t'), line.size());
      if (side) example[*side].text = line.substr(0, tab);
      line.remove_prefix(std::min(tab + 1, line.size()));
    }
    return true;
  }

  LineReader lines_;
  TextProblems& problems_;
  std::vector<std::optional<Side>> columns_;
};

class JsonlFormat final : public TextFormat {
 public:
  JsonlFormat(const JsonlOptions& options, const FormatContext& context)
      : lines_(context.files[0], context.problems, context.limit, context.blank_lines) {
    const auto* renamed = std::get_if<config::Named<std::string>>(&options.columns);
    for (const Side side : options.sides()) {
      keys_.emplace_back(side, renamed ? *renamed->find(name_of(side)) : std::string(name_of(side)));
    }
  }

  bool next(TextExample& example) override {
    while (const auto object = lines_.next()) {
      if (read_object(*object, example)) return true;
    }
    return false;
  }
  int64_t bytes_read() const override { return lines_.bytes_read(); }

 private:
  bool read_object(const nlohmann::json& object, TextExample& example) const {
    for (const auto& [side, key] : keys_) {
      const auto value = object.find(key);
      if (value == object.end() || !value->is_string())
        return lines_.wrong(fmt::format("`{}` is {}", key, value == object.end() ? "missing" : "no text"),
                            fmt::format("a text under `{}` in each line", key));
      example[side].text = value->get_ref<const std::string&>();
    }
    return true;
  }

  JsonLines lines_;
  std::vector<std::pair<Side, std::string>> keys_;
};

}  // namespace

std::unique_ptr<TextFormat> TextOptions::open_format(const FormatContext& context) const {
  if (join == TextUnit::kLine) return std::make_unique<LineFormat>(*this, context);
  return std::make_unique<DocumentFormat>(*this, context);
}

std::unique_ptr<TextFormat> ParallelOptions::open_format(const FormatContext& context) const {
  return std::make_unique<ParallelFormat>(context);
}

std::unique_ptr<TextFormat> TsvOptions::open_format(const FormatContext& context) const {
  return std::make_unique<TsvFormat>(*this, context);
}

std::unique_ptr<TextFormat> JsonlOptions::open_format(const FormatContext& context) const {
  return std::make_unique<JsonlFormat>(*this, context);
}

}  // namespace mtf
