#include "data/labelled/labelled_text.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "data/class_names.h"
#include "data/sources/array_source.h"
#include "data/sources/table_reader.h"
#include "engine/base/printable.h"

namespace mtf {
namespace {

/// What the files have of each example, before texts become tokens.
struct Examples {
  std::vector<std::string> texts, pairs;
  ClassLabels labels;
  std::vector<float> targets;  ///< [examples, targets]
};

class LabelledTextFile {
 public:
  /// `labelled`: the columns of labels and targets are read.
  LabelledTextFile(const std::string& path, const LabelledTextOptions& options, const Mark& mark,
                   bool labelled)
      : reader_(open_table_reader(path, {.header = options.header, .verbatim = true})) {
    const auto find = [&](const config::Name& name) { return reader_->find(name, mark); };
    text_ = find(options.text);
    if (!options.pair.empty()) pair_ = find(options.pair);
    if (!labelled) return;
    if (!options.labels.empty()) labels_ = find(options.labels);
    for (const config::Name& name : options.targets) targets_.push_back(find(name));
  }

  void read(Examples& examples) {
    while (reader_->next()) {
      examples.texts.push_back(text_of(text_));
      if (pair_) examples.pairs.push_back(text_of(*pair_));
      if (labels_) examples.labels.add(value_of(*labels_), [this] { return reader_->place_of(*labels_); });
      for (const size_t column : targets_) examples.targets.push_back(number_of(column));
    }
  }

 private:
  /// A text, which may be empty.
  std::string text_of(size_t column) const {
    std::string text = reader_->value(column).value_or("");
    reader_->check_text(column, text);
    return text;
  }

  std::string value_of(size_t column) const {
    std::string value = text_of(column);
    if (value.empty()) reader_->fail(column, "a value is missing", "a value in each line");
    return value;
  }

  float number_of(size_t column) const {
    const std::string text = value_of(column);
    const std::optional<float> number = table_number(text);
    if (!number || !std::isfinite(*number))
      reader_->fail(column, fmt::format("`{}` is no number", printable(text)),
                    "a number; the column of a class is `labels`");
    return *number;
  }

  std::unique_ptr<TableReader> reader_;
  size_t text_ = 0;
  std::optional<size_t> pair_, labels_;
  std::vector<size_t> targets_;
};

class LabelledTextSource final : public Source {
 public:
  LabelledTextSource(std::vector<Feature> features, TokenRows rows, const Examples& examples)
      : features_(std::move(features)),
        rows_(std::move(rows)),
        labels_(examples.labels.numbers()),
        class_names_(examples.labels.classes()),
        places_(examples.labels.places()),
        targets_(examples.targets) {}

  int64_t examples() const override { return rows_.rows(); }
  const std::vector<Feature>& features() const override { return features_; }
  void read(std::span<const int64_t> rows, std::span<const FeatureSlice> slices) const override {
    rows_.read(rows, slices);
    for (size_t f = TokenRows::kFeatures; f < features_.size(); ++f) {
      const bool is_label = features_[f].dtype == DType::kInt32;
      const auto* const values = is_label ? reinterpret_cast<const std::byte*>(labels_.data())
                                          : reinterpret_cast<const std::byte*>(targets_.data());
      std::byte* output = slices[f].output;
      for (const int64_t row : rows)
        output = copy_box(features_[f], slices[f].box, values + row * features_[f].bytes(), output);
    }
  }
  int64_t bytes_in_memory() const override {
    return rows_.bytes_in_memory() + std::ssize(labels_) * 4 + std::ssize(targets_) * 4;
  }
  std::vector<std::string> class_names() const override { return class_names_; }
  std::string preparation() const override { return preparation_of(class_names_); }
  void check_labels(const LabelRange& classes) const override { check_below(classes, places_, class_names_); }

 private:
  std::vector<Feature> features_;
  TokenRows rows_;
  std::vector<int32_t> labels_;
  std::vector<std::string> class_names_;
  ClassPlaces places_;
  std::vector<float> targets_;
};

std::vector<Feature> features_of(const LabelledTextOptions& options, int64_t length, int64_t vocabulary,
                                 bool labelled) {
  std::vector<Feature> features = TokenRows::features(length, vocabulary, !options.pair.empty());
  if (!labelled) return features;
  if (!options.labels.empty()) features.push_back({std::string(kLabelsFeature), Shape{}, DType::kInt32});
  if (!options.targets.empty())
    features.push_back({"y", {{"targets", std::ssize(options.targets)}}, DType::kFloat32});
  return features;
}

}  // namespace

void describe(config::Visitor& visit, LabelledTextOptions& options) {
  visit("path", options.path,
        "tables whose first line names the columns (.csv, .tsv), or with an object in each line (.jsonl), "
        "plain or .gz: a path, a list or a glob",
        config::required);
  visit("header", options.header,
        "the first line of a .csv or .tsv file names the columns; false: they are called 1, 2, 3, ...");
  visit("text", options.text, "the column of the text", config::required);
  visit("pair", options.pair, "the column of a second text");
  visit("labels", options.labels, "the column of the class, feature labels: words, or numbers from 0");
  visit("classes", options.classes,
        "names of the classes in their order; none: the words sorted, or the numbers");
  visit("targets", options.targets, "columns of numbers that are feature y [targets]");
  describe_rows(visit, options);
  visit.check([&options](const config::Report& report) {
    if (!options.classes.empty() && options.labels.empty())
      report.error("classes", "`classes` without `labels`", "the column of the class, as `labels`");
    check_class_names(options.classes, "classes", report);
  });
}

TokenRow joined_row(std::vector<int32_t> a, std::optional<std::vector<int32_t>> b,
                    const SpecialTokens& special, int64_t length) {
  const int64_t room = length - (b ? special.around_pair() : SpecialTokens::around_text);
  std::vector<int32_t> none;
  std::vector<int32_t>& second = b ? *b : none;
  while (std::ssize(a) + std::ssize(second) > room) (a.size() > second.size() ? a : second).pop_back();
  TokenRow row{{special.start}, 0};
  const auto append = [&](const std::vector<int32_t>& ids, int64_t separators) {
    row.ids.insert(row.ids.end(), ids.begin(), ids.end());
    row.ids.insert(row.ids.end(), static_cast<size_t>(separators), special.separator);
  };
  append(a, b ? special.between : 1);
  row.second = std::ssize(row.ids);
  if (b) append(second, 1);
  return row;
}

void LabelledTextOptions::for_each_text(const Mark& mark, const TextUse& use) const {
  for (const std::string& file : files_of(path)) {
    Examples examples;
    LabelledTextFile(file, *this, mark, false).read(examples);
    for (const std::string& text : examples.texts) use(Side::kInputs, text);
    for (const std::string& text : examples.pairs) use(Side::kInputs, text);
  }
}

bool LabelledTextOptions::read_from(const config::Path& file) {
  if (!is_table_name(file.text)) return false;
  path = {file};
  return true;
}

namespace {

/// The rows of the texts of examples.
TokenRows rows_of(const Examples& examples, const SpecialTokenOptions& special_tokens,
                  const SourceContext& context) {
  const int64_t length = row_length(context);
  const Vocabulary& vocabulary = row_vocabulary(context);
  const SpecialTokens special = find_special_tokens(special_tokens, vocabulary, context.mark);
  if (const int64_t around = examples.pairs.empty() ? SpecialTokens::around_text : special.around_pair();
      length <= around)
    throw Error(ErrorKind::kConfig, context.mark, "`data.sequence_length` leaves no room for a text",
                fmt::format("{} or more", around + 1));
  std::vector<TokenRow> encoded(examples.texts.size());
  encode_in_parallel(context, std::ssize(examples.texts), [&](int64_t i) {
    const auto at = static_cast<size_t>(i);
    std::optional<std::vector<int32_t>> second;
    if (!examples.pairs.empty()) second = encode_text(context, examples.pairs[at]);
    encoded[at] = joined_row(encode_text(context, examples.texts[at]), std::move(second), special, length);
  });
  TokenRows rows(length, vocabulary.size());
  for (const TokenRow& row : encoded) rows.add(row);
  return rows;
}

}  // namespace

std::unique_ptr<Source> open_texts(std::vector<std::string> texts, std::vector<std::string> pairs,
                                   const SpecialTokenOptions& special_tokens, const SourceContext& context) {
  const Examples examples{std::move(texts), std::move(pairs), ClassLabels(), {}};
  TokenRows rows = rows_of(examples, special_tokens, context);
  std::vector<Feature> features = rows.features();
  return std::make_unique<LabelledTextSource>(std::move(features), std::move(rows), examples);
}

std::unique_ptr<Source> LabelledTextOptions::open(const SourceContext& context) const {
  if (context.labelled && labels.empty() && targets.empty())
    throw Error(ErrorKind::kConfig, context.mark, "texts without `labels` and `targets`",
                "`labels` names the column of a class, `targets` columns of numbers that are predicted");
  const std::vector<std::string> files = files_of(path);
  Examples examples{{}, {}, ClassLabels(classes, known_classes(context.preparation)), {}};
  for (const std::string& file : files)
    LabelledTextFile(file, *this, context.mark, context.labelled).read(examples);
  if (examples.texts.empty())
    throw Error(ErrorKind::kData, fmt::format("{}: no example", files[0]), "a line for each example");
  if (!context.prepares && examples.labels.are_found())
    throw_unprepared(context.mark, "the names of the classes", "`classes`, in their order");
  TokenRows rows = rows_of(examples, special_tokens, context);
  std::vector<Feature> features =
      features_of(*this, rows.length(), row_vocabulary(context).size(), context.labelled);
  return std::make_unique<LabelledTextSource>(std::move(features), std::move(rows), examples);
}

std::optional<std::vector<Feature>> LabelledTextOptions::declared_features(
    const BySide<int64_t>& lengths, const BySide<int64_t>& sizes) const {
  if (lengths.inputs == 0) return std::nullopt;
  return features_of(*this, lengths.inputs, sizes.inputs, true);
}

namespace {

const config::Registration<SourceOptions, LabelledTextOptions> labelled_text_registration;

}  // namespace
}  // namespace mtf
