#include "data/sources/table.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "data/class_names.h"
#include "data/paths.h"
#include "data/source_options.h"
#include "data/sources/array_source.h"
#include "data/sources/table_reader.h"
#include "data/text/text_settings.h"
#include "engine/base/check.h"
#include "engine/base/counted.h"
#include "engine/base/hash.h"
#include "engine/base/json.h"
#include "engine/base/nearest.h"
#include "engine/base/printable.h"

namespace mtf {
namespace {

using Names = std::vector<std::string>;

[[noreturn]] void bad_value(const TableReader& reader, const std::string& column, const std::string& what,
                            const std::string& hint) {
  throw Error(ErrorKind::kData, fmt::format("{}: column `{}`: {}", reader.place(), printable(column), what),
              hint);
}

/// Returns the value of a column in the current record.
const std::string& value_of(const TableReader& reader, size_t column) {
  const std::optional<std::string>& value = reader.values()[column];
  if (!value)
    bad_value(reader, reader.columns()[column], "a value is missing",
              "a value in each line; leave the line or the column out");
  return *value;
}

float number_of(const TableReader& reader, size_t column, const std::string& hint) {
  const std::string& text = value_of(reader, column);
  const char* const begin = text.data() + (text.starts_with('+') ? 1 : 0);
  float number = 0;
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), number);
  if (error == std::errc::result_out_of_range)
    bad_value(reader, reader.columns()[column], fmt::format("{} is no number of 32 bits", printable(text)),
              "a smaller number");
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(number))
    bad_value(reader, reader.columns()[column], fmt::format("`{}` is no number", printable(text)), hint);
  return number;
}

/// The words of a column, each with a number in the order in which they came.
class Words {
 public:
  int32_t add(const std::string& word) {
    const auto [found, is_new] = numbers_.try_emplace(word, static_cast<int32_t>(words_.size()));
    if (is_new) words_.push_back(word);
    return found->second;
  }
  const Names& words() const { return words_; }
  Names sorted() const {
    Names result = words_;
    std::ranges::sort(result);
    return result;
  }

 private:
  Names words_;
  std::map<std::string, int32_t> numbers_;
};

/// What training data decide for the data that are evaluated.
struct Preparation {
  Names columns;                        ///< names of the inputs
  std::map<std::string, Names> words;   ///< the words of each input that has words
  Names classes;                        ///< empty: numbers
  std::vector<double> mean, deviation;  ///< for the inputs that are numbers; empty: they stay as they are

  std::string to_json() const {
    nlohmann::json json{{"columns", columns}, {"words", words}, {"classes", classes}};
    if (!mean.empty()) json.update({{"mean", mean}, {"deviation", deviation}});
    return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  }
  static Preparation parse(const std::string& text) {
    Preparation result;
    try {
      const nlohmann::json json = parse_json(text, [](const std::string&) {});
      json.at("columns").get_to(result.columns);
      json.at("words").get_to(result.words);
      json.at("classes").get_to(result.classes);
      if (json.contains("mean")) {
        json.at("mean").get_to(result.mean);
        json.at("deviation").get_to(result.deviation);
      }
    } catch (const nlohmann::json::exception& error) {
      throw Error(ErrorKind::kData, fmt::format("data.json of the run is damaged: {}", message_of(error)),
                  "the file that the run has written");
    }
    return result;
  }
};

/// The columns of one file by their use, as indices.
struct Places {
  std::vector<size_t> numbers, words, targets;
  std::optional<size_t> labels;
};

size_t find_column(const TableReader& reader, const config::Name& name, const Mark& mark,
                   const std::string& path) {
  const auto found = std::ranges::find(reader.columns(), name.text);
  if (found != reader.columns().end()) return static_cast<size_t>(found - reader.columns().begin());
  throw Error(ErrorKind::kConfig, name.mark.known() ? name.mark : mark,
              fmt::format("{} has no column `{}`", path, printable(name.text)),
              did_you_mean(name.text, reader.columns()));
}

bool contains(const std::vector<config::Name>& names, const std::string& name) {
  return std::ranges::find(names, name, &config::Name::text) != names.end();
}

/// The rows of a table, until the words have their numbers.
class TableRows {
 public:
  TableRows(const TableColumns& columns, const TableContext& context) : columns_(columns), context_(context) {
    if (!context.labelled) {
      columns_.labels = {};
      columns_.targets.clear();
    }
    if (!context.preparation.empty()) known_ = Preparation::parse(context.preparation);
    labels_ = ClassLabels(columns.classes, known_ ? std::optional(known_->classes) : std::nullopt);
  }

  void read(const std::string& path) {
    const std::unique_ptr<TableReader> reader = open_table_reader(path);
    find_inputs(*reader, path);
    const Places places = places_in(*reader, path);
    int64_t rows = 0;
    for (; reader->next(); ++rows) add(*reader, places);
    if (rows == 0)
      throw Error(ErrorKind::kData, fmt::format("{}: there are no examples", path),
                  "a line for each example");
    files_.push_back({path, hashes_.empty() ? 0 : std::ssize(hashes_) - rows});
  }

  std::unique_ptr<Source> finish();

 private:
  /// The inputs, which the first file decides.
  void find_inputs(const TableReader& reader, const std::string& path) {
    if (!files_.empty()) return;
    std::vector<config::Name> inputs = columns_.inputs;
    if (inputs.empty() && known_) {
      for (const std::string& name : known_->columns) inputs.emplace_back(name, context_.mark);
    } else if (inputs.empty()) {
      for (const std::string& name : reader.columns()) {
        if (name != columns_.labels.text && !contains(columns_.targets, name))
          inputs.emplace_back(name, context_.mark);
      }
    }
    if (inputs.empty())
      throw Error(ErrorKind::kConfig, context_.mark,
                  fmt::format("{} has no column that could be an input", path),
                  "columns beside `labels` and `targets`");
    for (const config::Name& name : inputs) {
      Names& names = contains(columns_.categorical, name.text) ? of_words_ : of_numbers_;
      names.push_back(name.text);
      all_.push_back(name.text);
    }
    for (const config::Name& name : columns_.categorical) {
      if (std::ranges::find(all_, name.text) == all_.end())
        throw Error(ErrorKind::kConfig, name.mark.known() ? name.mark : context_.mark,
                    fmt::format("`categorical` names `{}`, which is no input", printable(name.text)),
                    did_you_mean(name.text, all_));
    }
    if (known_ && (known_->columns != all_ || known_->words.size() != of_words_.size()))
      throw Error(ErrorKind::kData, context_.mark,
                  fmt::format("the inputs are {}, and those of the training data are {}",
                              fmt::join(all_, ", "), fmt::join(known_->columns, ", ")),
                  "the same columns");
    words_.resize(of_words_.size());
  }

  Places places_in(const TableReader& reader, const std::string& path) const {
    Places places;
    const auto find = [&](const config::Name& name) {
      return find_column(reader, name, context_.mark, path);
    };
    for (const std::string& name : of_numbers_) places.numbers.push_back(find(named(name)));
    for (const std::string& name : of_words_) places.words.push_back(find(named(name)));
    for (const config::Name& name : columns_.targets) places.targets.push_back(find(name));
    if (!columns_.labels.empty()) places.labels = find(columns_.labels);
    return places;
  }

  /// The name as the options have it, with its mark.
  config::Name named(const std::string& name) const {
    const auto found = std::ranges::find(columns_.inputs, name, &config::Name::text);
    return found == columns_.inputs.end() ? config::Name(name, context_.mark) : *found;
  }

  void add(const TableReader& reader, const Places& places) {
    std::string content;
    const auto note = [&](size_t column) { content += value_of(reader, column) + '\x1f'; };
    for (const size_t column : places.numbers) {
      note(column);
      numbers_.push_back(number_of(reader, column, "a number; `categorical` has the columns of words"));
    }
    for (size_t i = 0; i < places.words.size(); ++i) {
      note(places.words[i]);
      const std::string& word = value_of(reader, places.words[i]);
      if (known_) check_known(reader, places.words[i], of_words_[i], word);
      word_numbers_.push_back(words_[i].add(word));
    }
    for (const size_t column : places.targets) {
      note(column);
      targets_.push_back(number_of(reader, column, "a number; the column of a class is `labels`"));
    }
    if (places.labels) {
      note(*places.labels);
      add_label(reader, *places.labels);
    }
    hashes_.push_back(hash64(content));
  }

  void check_known(const TableReader& reader, size_t column, const std::string& name,
                   const std::string& word) const {
    const auto known = known_->words.find(name);
    if (known != known_->words.end() && std::ranges::binary_search(known->second, word)) return;
    bad_value(reader, reader.columns()[column],
              fmt::format("the training data have no `{}`", printable(word)),
              known == known_->words.end() ? "the same columns" : did_you_mean(word, known->second));
  }

  void add_label(const TableReader& reader, size_t column) {
    labels_.add(value_of(reader, column), [&](const std::string& what, const std::string& hint) {
      bad_value(reader, reader.columns()[column], what, hint);
    });
  }

  void find_means(Preparation& preparation) const {
    const size_t columns = of_numbers_.size();
    preparation.mean.assign(columns, 0);
    preparation.deviation.assign(columns, 0);
    double rows = 0;
    std::vector<double> sums(columns), squares(columns);
    const auto for_each_counted = [&](const auto& use) {
      for (size_t row = 0; row < hashes_.size(); ++row) {
        if (!context_.counts || context_.counts(hashes_[row])) use(numbers_.data() + row * columns);
      }
    };
    for_each_counted([&](const float* row) {
      for (size_t i = 0; i < columns; ++i) sums[i] += row[i];
      ++rows;
    });
    for (size_t i = 0; i < columns; ++i) preparation.mean[i] = rows > 0 ? sums[i] / rows : 0;
    for_each_counted([&](const float* row) {
      for (size_t i = 0; i < columns; ++i)
        squares[i] += (row[i] - preparation.mean[i]) * (row[i] - preparation.mean[i]);
    });
    for (size_t i = 0; i < columns; ++i) {
      const double deviation = rows > 0 ? std::sqrt(squares[i] / rows) : 0;
      preparation.deviation[i] = deviation > 0 ? deviation : 1;
    }
  }

  Preparation preparation() const {
    if (known_) return *known_;
    Preparation result;
    result.columns = all_;
    for (size_t i = 0; i < of_words_.size(); ++i) result.words[of_words_[i]] = words_[i].sorted();
    if (!columns_.labels.empty()) result.classes = labels_.classes();
    if (columns_.normalize && !of_numbers_.empty()) find_means(result);
    return result;
  }

  struct File {
    std::string path;
    int64_t begin;
  };
  TableColumns columns_;  ///< without what is not looked for
  const TableContext& context_;
  std::optional<Preparation> known_;
  Names all_, of_numbers_, of_words_;  ///< inputs
  std::vector<float> numbers_, targets_;
  std::vector<int32_t> word_numbers_;
  std::vector<Words> words_;  ///< [columns of words]
  ClassLabels labels_;
  std::vector<uint64_t> hashes_;
  std::vector<File> files_;
};

/// A table in memory.
class TableSource final : public Source {
 public:
  TableSource(MemorySource values, std::vector<uint64_t> hashes, Preparation preparation,
              std::vector<int32_t> labels, std::string path)
      : values_(std::move(values)),
        hashes_(std::move(hashes)),
        preparation_(std::move(preparation)),
        labels_(std::move(labels)),
        path_(std::move(path)) {}

  int64_t examples() const override { return values_.examples(); }
  const std::vector<Feature>& features() const override { return values_.features(); }
  void read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const override {
    values_.read(rows, slices);
  }
  int64_t bytes_in_memory() const override { return values_.bytes_in_memory() + 12 * examples(); }
  std::vector<std::string> class_names() const override { return preparation_.classes; }
  uint64_t example_hash(int64_t example) const override { return hashes_[static_cast<size_t>(example)]; }
  std::string preparation() const override { return preparation_.to_json(); }
  void check_labels(int64_t classes) const override {
    const auto wrong = std::ranges::find_if(labels_, [&](int32_t label) { return label >= classes; });
    if (wrong != labels_.end())
      throw_wrong_label(path_, *wrong, wrong - labels_.begin(), classes, std::ranges::max(labels_));
  }

 private:
  MemorySource values_;
  std::vector<uint64_t> hashes_;
  Preparation preparation_;
  std::vector<int32_t> labels_;
  std::string path_;
};

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

/// For each number of `words`, its place in `order`.
std::vector<int32_t> places_of(const Names& words, const Names& order) {
  std::vector<int32_t> places;
  for (const std::string& word : words)
    places.push_back(static_cast<int32_t>(std::ranges::find(order, word) - order.begin()));
  return places;
}

std::unique_ptr<Source> TableRows::finish() {
  Preparation prepared = preparation();
  if (columns_.normalize && !of_numbers_.empty() && prepared.mean.size() != of_numbers_.size())
    throw Error(ErrorKind::kData, context_.mark, "the training data have no means and deviations",
                "`normalize: true` of data.train too, or of neither");
  if (known_ && !columns_.normalize && !prepared.mean.empty())
    throw Error(ErrorKind::kData, context_.mark,
                "the inputs of the training data were less their mean, divided by their deviation",
                "`normalize: true`, as in data.train");
  // In the order of the columns: a number, or as many as there are words.
  struct Input {
    bool is_word;
    size_t index;  ///< among the numbers, or the words
    std::vector<int32_t> places;
    int64_t width;
  };
  std::vector<Input> inputs;
  int64_t width = 0;
  for (const std::string& name : all_) {
    const auto word = std::ranges::find(of_words_, name);
    if (word == of_words_.end()) {
      const auto number = std::ranges::find(of_numbers_, name);
      inputs.push_back({false, static_cast<size_t>(number - of_numbers_.begin()), {}, 1});
    } else {
      const auto index = static_cast<size_t>(word - of_words_.begin());
      const Names& order = prepared.words.at(name);
      inputs.push_back({true, index, places_of(words_[index].words(), order), std::ssize(order)});
    }
    width += inputs.back().width;
  }
  const auto rows = std::ssize(hashes_);
  std::vector<float> x(static_cast<size_t>(rows * width), 0);
  const bool normalize = columns_.normalize && !of_numbers_.empty();
  for (int64_t row = 0; row < rows; ++row) {
    float* output = x.data() + row * width;
    for (const Input& input : inputs) {
      if (input.is_word) {
        const int32_t word = word_numbers_[static_cast<size_t>(row) * of_words_.size() + input.index];
        output[input.places[static_cast<size_t>(word)]] = 1;
      } else {
        const float number = numbers_[static_cast<size_t>(row) * of_numbers_.size() + input.index];
        *output =
            normalize
                ? static_cast<float>((number - prepared.mean[input.index]) / prepared.deviation[input.index])
                : number;
      }
      output += input.width;
    }
  }
  std::vector<Feature> features{{"x", {{"inputs", width}}, DType::kFloat32}};
  std::vector<std::vector<std::byte>> values{bytes_of(x)};
  std::vector<int32_t> labels;
  if (!columns_.labels.empty()) {
    labels = labels_.numbers();
    features.push_back({std::string(kLabelsFeature), Shape{}, DType::kInt32});
    values.push_back(bytes_of(labels));
  }
  if (!columns_.targets.empty()) {
    features.push_back({"y", {{"targets", std::ssize(columns_.targets)}}, DType::kFloat32});
    values.push_back(bytes_of(targets_));
  }
  return std::make_unique<TableSource>(MemorySource(std::move(features), std::move(values)),
                                       std::move(hashes_), std::move(prepared), std::move(labels),
                                       files_[0].path);
}

}  // namespace

std::unique_ptr<Source> open_table(const std::vector<std::string>& paths, const TableColumns& columns,
                                   const TableContext& context) {
  MTF_CHECK(!paths.empty(), "no files");
  TableRows rows(columns, context);
  for (const std::string& path : paths) rows.read(path);
  return rows.finish();
}

namespace {

struct TableOptions final : SourceOptions {
  static constexpr std::string_view type_name = "table";
  static constexpr bool type_required = true;
  std::vector<config::Path> path;
  TableColumns columns;

  std::unique_ptr<Source> open(const SourceContext& context) const override {
    std::vector<Problem> missing;
    const std::vector<std::string> files = find_regular_files(path, missing);
    if (!missing.empty()) throw Error(std::move(missing));
    if (context.labelled && columns.labels.empty() && columns.targets.empty())
      throw Error(ErrorKind::kConfig, context.mark, "a table without `labels` and `targets`",
                  "`labels` names the column of a class, `targets` columns of numbers that are predicted");
    return open_table(files, columns,
                      {context.mark, context.preparation, context.labelled,
                       [rule = context.split](uint64_t hash) { return !rule.part_of(hash); }});
  }
  std::vector<config::Path*> paths() override { return pointers_to({&path}); }
  bool read_from(const config::Path& file) override {
    path = {file};
    return true;
  }
};

void describe(config::Visitor& visit, TableOptions& options) {
  TableColumns& columns = options.columns;
  visit("path", options.path,
        "tables whose first line names the columns (.csv, .tsv), or with an object in each line (.jsonl), "
        "plain or .gz: "
        "a path, a list or a glob",
        config::required);
  visit("inputs", columns.inputs, "columns that are feature x [inputs]; none: all others");
  visit("categorical", columns.categorical,
        "inputs that are words: each word becomes an input of its own, 0 or 1");
  visit("labels", columns.labels, "the column of the class, feature labels: words, or numbers from 0");
  visit("classes", columns.classes,
        "names of the classes in their order; none: the words sorted, or the numbers");
  visit("targets", columns.targets, "columns of numbers that are feature y [targets]");
  visit("normalize", columns.normalize,
        "inputs that are numbers, less their mean and divided by their deviation in the training data");
  visit.check([&columns](const config::Report& report) {
    for (const config::Name& name : columns.inputs) {
      if (name == columns.labels || contains(columns.targets, name.text))
        report.error("inputs", fmt::format("column `{}` is an input and what is to be predicted", name.text),
                     "one of them");
    }
    if (!columns.classes.empty() && columns.labels.empty())
      report.error("classes", "`classes` without `labels`", "the column of the class, as `labels`");
  });
}

const config::Registration<SourceOptions, TableOptions> table_registration;

}  // namespace
}  // namespace mtf
