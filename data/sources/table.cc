#include "data/sources/table.h"

#include <fmt/format.h>

#include <algorithm>
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
#include "engine/base/hash.h"
#include "engine/base/json.h"
#include "engine/base/nearest.h"
#include "engine/base/printable.h"

namespace mtf {
namespace {

using Names = std::vector<std::string>;

/// Returns the value of a column in the current record.
std::string value_of(const TableReader& reader, size_t column) {
  const std::optional<std::string> value = reader.value(column);
  if (!value)
    reader.fail(column, "a value is missing", "a value in each line; leave the line or the column out");
  return *value;
}

/// Returns the number that `text`, the value of a column, means.
float number_of(const TableReader& reader, size_t column, const std::string& text, const std::string& hint) {
  const std::optional<float> number = table_number(text);
  if (!number) reader.fail(column, fmt::format("`{}` is no number", printable(text)), hint);
  if (std::isinf(*number))
    reader.fail(column, fmt::format("{} is no number of 32 bits", printable(text)), "a smaller number");
  return *number;
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
    return json.dump(1) + "\n";
  }
  /// Returns nothing for a preparation that is not known or of data of another type.
  static std::optional<Preparation> parse(const std::optional<std::string>& text) {
    if (!text || text->empty()) return std::nullopt;
    Preparation result;
    try {
      const nlohmann::json json = parse_json(*text, [](const std::string&) {});
      if (!json.contains("columns")) return std::nullopt;
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
    known_ = Preparation::parse(context.preparation);
    labels_ = ClassLabels(columns.classes, known_classes(context.preparation));
  }

  void read(const std::string& path) {
    const std::unique_ptr<TableReader> reader = open_table_reader(path);
    find_inputs(*reader);
    const Places places = places_in(*reader);
    const size_t before = hashes_.size();
    while (reader->next()) add(*reader, places);
    if (hashes_.size() == before)
      throw Error(ErrorKind::kData, fmt::format("{}: there are no examples", path),
                  "a line for each example");
  }

  std::unique_ptr<Source> finish();

 private:
  /// The inputs, which the first file decides.
  void find_inputs(const TableReader& reader) {
    if (!all_.empty()) return;
    std::vector<config::Name> inputs = columns_.inputs;
    if (inputs.empty() && known_) {
      for (const std::string& name : known_->columns) inputs.emplace_back(name, context_.mark);
    } else if (inputs.empty()) {
      for (size_t i = 0; i < reader.columns().size(); ++i) {
        const std::string& name = reader.columns()[i];
        if (name == columns_.labels.text || contains(columns_.targets, name)) continue;
        reader.check_text(i, name);
        inputs.emplace_back(name, context_.mark);
      }
    }
    if (inputs.empty())
      throw Error(ErrorKind::kConfig, context_.mark,
                  fmt::format("{} has no column that could be an input", reader.path()),
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
    if (known_) check_inputs();
    words_.resize(of_words_.size());
  }

  /// Throws Error unless the inputs, and those of them that are words, are those of the training data.
  void check_inputs() const {
    if (known_->columns != all_)
      throw Error(ErrorKind::kConfig, context_.mark,
                  fmt::format("the inputs are {}, and those of the training data are {}",
                              fmt::join(all_, ", "), fmt::join(known_->columns, ", ")),
                  "the same columns");
    Names known;
    for (const std::string& name : all_) {
      if (known_->words.contains(name)) known.push_back(name);
    }
    if (known == of_words_) return;
    throw Error(ErrorKind::kConfig, context_.mark,
                fmt::format("`categorical` has {}, and that of the training data {}", listed(of_words_),
                            listed(known)),
                known.empty() ? "no `categorical`, as in data.train"
                              : fmt::format("`categorical: [{}]`, as in data.train", fmt::join(known, ", ")));
  }

  static std::string listed(const Names& names) {
    return names.empty() ? "nothing" : fmt::format("{}", fmt::join(names, ", "));
  }

  Places places_in(const TableReader& reader) const {
    Places places;
    const auto find = [&](const config::Name& name) { return reader.find(name, context_.mark); };
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
    check_keys(reader);
    std::string content;
    const auto noted = [&](size_t column) {
      std::string value = value_of(reader, column);
      content += value + '\x1f';
      return value;
    };
    const auto noted_word = [&](size_t column) {
      std::string word = noted(column);
      reader.check_text(column, word);
      return word;
    };
    for (const size_t column : places.numbers)
      numbers_.push_back(
          number_of(reader, column, noted(column), "a number; `categorical` has the columns of words"));
    for (size_t i = 0; i < places.words.size(); ++i) {
      const std::string word = noted_word(places.words[i]);
      if (known_) check_known(reader, places.words[i], of_words_[i], word);
      word_numbers_.push_back(words_[i].add(word));
    }
    for (const size_t column : places.targets)
      targets_.push_back(
          number_of(reader, column, noted(column), "a number; the column of a class is `labels`"));
    if (places.labels)
      labels_.add(noted_word(*places.labels), [&] { return reader.place_of(*places.labels); });
    hashes_.push_back(hash64(content));
  }

  /// Throws Error for a key that the first object lacks, if `inputs` does not say which are used.
  void check_keys(const TableReader& reader) const {
    if (!columns_.inputs.empty() || known_) return;
    if (const std::optional<std::string> key = reader.other_key())
      throw Error(ErrorKind::kData, fmt::format("{}: a key `{}`", reader.place(), printable(*key)),
                  "the keys of the first object, or `inputs`, which names those that are used");
  }

  void check_known(const TableReader& reader, size_t column, const std::string& name,
                   const std::string& word) const {
    const Names& known = known_->words.at(name);
    if (std::ranges::binary_search(known, word)) return;
    reader.fail(column, fmt::format("the training data have no `{}`", printable(word)),
                did_you_mean(word, known));
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
    if (normalizes()) find_means(result);
    return result;
  }

  bool normalizes() const { return columns_.normalize && !of_numbers_.empty(); }
  void check_normalize(const Preparation& prepared) const;
  /// Numbers words by their places among all, in place of the order in which they came.
  void sort_words(const Preparation& prepared);
  /// Takes the means from the inputs that are numbers, and divides by the deviations.
  void normalize(const Preparation& prepared);

  TableColumns columns_;  ///< without what is not looked for
  const TableContext& context_;
  std::optional<Preparation> known_;
  Names all_, of_numbers_, of_words_;  ///< inputs
  std::vector<float> numbers_, targets_;
  std::vector<int32_t> word_numbers_;
  std::vector<Words> words_;  ///< [columns of words]
  ClassLabels labels_;
  std::vector<uint64_t> hashes_;
};

/// A column of a table: one input if it has numbers, as many as there are words if it has words.
struct InputColumn {
  bool is_word;
  size_t index;   ///< among the columns of numbers, or of words
  int64_t begin;  ///< its first input
};

/// The values of all examples, [examples, columns] row-major.
struct TableValues {
  std::vector<InputColumn> columns;
  std::vector<float> numbers;
  std::vector<int32_t> words;  ///< places among the words of the column
  std::vector<int32_t> labels;
  std::vector<float> targets;
  std::vector<uint64_t> hashes;  ///< [examples]
};

/// A table in memory, with a number for each word: the inputs 0 and 1 are made when they are read.
class TableSource final : public Source {
 public:
  TableSource(std::vector<Feature> features, TableValues values, Preparation preparation, ClassPlaces places)
      : features_(std::move(features)),
        values_(std::move(values)),
        preparation_(std::move(preparation)),
        places_(std::move(places)) {}

  int64_t examples() const override { return std::ssize(values_.hashes); }
  const std::vector<Feature>& features() const override { return features_; }
  void read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const override {
    for (size_t f = 0; f < features_.size(); ++f) {
      FeatureSlice slice = slices[f];
      for (const int64_t row : rows) {
        MTF_CHECK(row >= 0 && row < examples(), "row {} of {}", row, examples());
        slice.output = f == 0 ? read_inputs(row, slice)
                              : copy_box(features_[f], slice.box, stored(features_[f], row), slice.output);
      }
    }
  }
  int64_t bytes_in_memory() const override {
    const auto values = std::ssize(values_.numbers) + std::ssize(values_.words) + std::ssize(values_.labels) +
                        std::ssize(values_.targets);
    return 4 * values + 8 * examples();
  }
  std::vector<std::string> class_names() const override { return preparation_.classes; }
  uint64_t example_hash(int64_t example) const override {
    return values_.hashes[static_cast<size_t>(example)];
  }
  std::string preparation() const override { return preparation_.to_json(); }
  void check_labels(const LabelRange& classes) const override {
    check_below(classes, places_, preparation_.classes);
  }

 private:
  /// Writes the inputs of an example into `slice.output` and returns the end of what it wrote.
  std::byte* read_inputs(int64_t row, const FeatureSlice& slice) const {
    const auto columns = std::ssize(values_.columns), words = of_words();
    const float* const numbers = values_.numbers.data() + row * (columns - words);
    const int32_t* const places = values_.words.data() + row * words;
    auto* output = reinterpret_cast<float*>(slice.output);
    for_each_run(features_[0].shape, slice.box, [&](int64_t first, int64_t count) {
      std::fill_n(output, count, 0.0f);
      for (const InputColumn& column : values_.columns) {
        const int64_t at = column.begin + (column.is_word ? places[column.index] : 0) - first;
        if (at >= 0 && at < count) output[at] = column.is_word ? 1 : numbers[column.index];
      }
      output += count;
    });
    return reinterpret_cast<std::byte*>(output);
  }
  int64_t of_words() const { return std::ssize(values_.words) / examples(); }
  /// The value of feature `labels` or `y` of an example.
  const std::byte* stored(const Feature& feature, int64_t row) const {
    const auto* const values = feature.dtype == DType::kInt32
                                   ? std::as_bytes(std::span(values_.labels)).data()
                                   : std::as_bytes(std::span(values_.targets)).data();
    return values + row * feature.bytes();
  }

  std::vector<Feature> features_;  ///< x, labels, y
  TableValues values_;
  Preparation preparation_;
  ClassPlaces places_;
};

void TableRows::check_normalize(const Preparation& prepared) const {
  if (normalizes() && prepared.mean.size() != of_numbers_.size())
    throw Error(ErrorKind::kData, context_.mark, "the training data have no means and deviations",
                "`normalize: true` of data.train too, or of neither");
  if (known_ && !columns_.normalize && !prepared.mean.empty())
    throw Error(ErrorKind::kData, context_.mark,
                "the inputs of the training data were less their mean, divided by their deviation",
                "`normalize: true`, as in data.train");
}

void TableRows::sort_words(const Preparation& prepared) {
  for (size_t column = 0; column < of_words_.size(); ++column) {
    const Names& order = prepared.words.at(of_words_[column]);
    std::vector<int32_t> places;
    for (const std::string& word : words_[column].words())
      places.push_back(static_cast<int32_t>(std::ranges::lower_bound(order, word) - order.begin()));
    for (size_t i = column; i < word_numbers_.size(); i += of_words_.size())
      word_numbers_[i] = places[static_cast<size_t>(word_numbers_[i])];
  }
}

void TableRows::normalize(const Preparation& prepared) {
  for (size_t i = 0; i < numbers_.size(); ++i) {
    const size_t column = i % of_numbers_.size();
    numbers_[i] = static_cast<float>((numbers_[i] - prepared.mean[column]) / prepared.deviation[column]);
  }
}

std::unique_ptr<Source> TableRows::finish() {
  if (!context_.prepares && labels_.are_found())
    throw_unprepared(context_.mark, "the names of the classes", "`classes`, in their order");
  Preparation prepared = preparation();
  check_normalize(prepared);
  sort_words(prepared);
  if (normalizes()) normalize(prepared);
  TableValues values{.columns = {},
                     .numbers = std::move(numbers_),
                     .words = std::move(word_numbers_),
                     .labels = columns_.labels.empty() ? std::vector<int32_t>() : labels_.numbers(),
                     .targets = std::move(targets_),
                     .hashes = std::move(hashes_)};
  int64_t width = 0;
  for (const std::string& name : all_) {
    const auto word = std::ranges::find(of_words_, name);
    const bool is_word = word != of_words_.end();
    const auto index =
        is_word ? word - of_words_.begin() : std::ranges::find(of_numbers_, name) - of_numbers_.begin();
    values.columns.push_back({is_word, static_cast<size_t>(index), width});
    width += is_word ? std::ssize(prepared.words.at(name)) : 1;
  }
  std::vector<Feature> features{{"x", {{"inputs", width}}, DType::kFloat32}};
  if (!columns_.labels.empty()) features.push_back({std::string(kLabelsFeature), Shape{}, DType::kInt32});
  if (!columns_.targets.empty())
    features.push_back({"y", {{"targets", std::ssize(columns_.targets)}}, DType::kFloat32});
  return std::make_unique<TableSource>(std::move(features), std::move(values), std::move(prepared),
                                       labels_.places());
}

/// Throws Error (kConfig) if a trained model needs what the table alone does not tell.
void check_is_prepared(const TableColumns& columns, const TableContext& context) {
  if (context.prepares || Preparation::parse(context.preparation)) return;
  if (columns.normalize) throw_unprepared(context.mark, "the means and deviations");
  if (!columns.categorical.empty()) throw_unprepared(context.mark, "the words");
  if (columns.inputs.empty())
    throw_unprepared(context.mark, "the columns", "`inputs`, in the order of the training");
}

}  // namespace

std::unique_ptr<Source> open_table(const std::vector<std::string>& paths, const TableColumns& columns,
                                   const TableContext& context) {
  MTF_CHECK(!paths.empty(), "no files");
  check_is_prepared(columns, context);
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
                      {context.mark, context.preparation, context.labelled, context.prepares,
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
    check_class_names(columns.classes, "classes", report);
  });
}

const config::Registration<SourceOptions, TableOptions> table_registration;

}  // namespace
}  // namespace mtf
