// The format of TFRecord files with tf.Example messages, which tensor2tensor and TensorFlow Datasets write.
#include <fmt/format.h>

#include <cstdlib>
#include <optional>
#include <span>

#include "data/text/example.h"
#include "data/text/line_reader.h"
#include "data/text/text_formats.h"
#include "data/text/tfrecord.h"
#include "data/vocabulary/vocabulary.h"
#include "engine/base/printable.h"

namespace mtf {
namespace {

class ExampleFormat final : public TextFormat {
 public:
  ExampleFormat(const TfrecordOptions& options, const FormatContext& context)
      : options_(options),
        path_(context.files[0]),
        records_(path_, context.limit),
        vocabulary_sizes_(context.vocabulary_sizes),
        problems_(context.problems) {
    for (const Side side : options.sides()) {
      const TfrecordFeature& feature = *options.features.find(name_of(side));
      features_.push_back(
          {side, feature.kind, feature.key.empty() ? std::string(name_of(side)) : feature.key});
    }
  }

  bool next(TextExample& example) override {
    while (const auto record = records_.next()) {
      if (read_record(*record, example)) return true;
    }
    return false;
  }
  int64_t bytes_read() const override { return records_.bytes_read(); }

 private:
  struct Wanted {
    Side side;
    StoredText kind;
    std::string key;
  };

  bool wrong(const std::string& what, const std::string& hint) {
    problems_.add(path_, "record", records_.record(), what, hint);
    return false;
  }

  bool read_record(std::string_view record, TextExample& example) {
    const std::optional<Example> features = parse_example(record);
    if (!features)
      return wrong("no tf.Example",
                   "files of tf.Example, as tensor2tensor and TensorFlow Datasets write them");
    for (const Wanted& wanted : features_) {
      const auto found = features->find(wanted.key);
      if (found == features->end())
        return wrong(fmt::format("no feature `{}`", wanted.key), names_in(*features));
      const bool sound = wanted.kind == StoredText::kText ? read_text(wanted, found->second, example)
                                                          : read_ids(wanted, found->second, example);
      if (!sound) return false;
    }
    return true;
  }

  static std::string names_in(const Example& features) {
    std::vector<std::string> names;
    for (const auto& [name, value] : features) names.push_back(printable(name));
    return names.empty() ? "the record has none"
                         : fmt::format("`key` in `features`: the record has {}", list_names(names, 8));
  }

  bool read_text(const Wanted& wanted, const ExampleFeature& feature, TextExample& example) {
    if (feature.texts.size() != 1)
      return wrong(fmt::format("`{}` is not one text", wanted.key),
                   "`kind: ids` where the feature holds integers");
    example[wanted.side].text = feature.texts[0];
    check_utf8(feature.texts[0], path_, "record", records_.record(), problems_);
    return true;
  }

  /// Reads a list of ids. Zeros at its end are padding. A negative target is an input of the decoder but is
  /// not predicted.
  bool read_ids(const Wanted& wanted, const ExampleFeature& feature, TextExample& example) {
    using Kind = ExampleFeature::Kind;
    if (feature.kind == Kind::kTexts || feature.kind == Kind::kNumbers)
      return wrong(fmt::format("`{}` holds {}, not ids", wanted.key,
                               feature.kind == Kind::kTexts ? "text" : "numbers"),
                   "`kind: text` in `features` where it is text");
    TextField& field = example[wanted.side];
    field.has_ids = true;
    field.ids.clear();
    std::span<const int64_t> values = feature.integers;
    while (!values.empty() && values.back() == 0) values = values.first(values.size() - 1);
    const int64_t size = vocabulary_sizes_[wanted.side];
    constexpr int64_t kMostIds = int64_t{1} << 31;
    for (const int64_t value : values) {
      const bool possible = -kMostIds < value && value < kMostIds && value != 0;
      const int64_t id = possible ? std::abs(value) + options_.vocab_shift : 0;
      const bool negative = value < 0 && wanted.side == Side::kInputs;
      if (negative || id < 1 || id >= (size > 0 ? size : kMostIds))
        return wrong(fmt::format("id {} in `{}`", value, wanted.key), legal_ids(wanted, size));
      field.ids.push_back(static_cast<int32_t>(value < 0 ? -id : id));
    }
    if (options_.append_eos && !values.empty()) field.ids.push_back(kEosId);
    return true;
  }

  std::string legal_ids(const Wanted& wanted, int64_t size) const {
    const std::string range = size > 0 ? fmt::format("from 1 to {}", size - 1) : "of at least 1";
    return fmt::format("`{}`: ids {} after `vocab_shift` ({}); is it the vocabulary of these files?",
                       wanted.key, range, options_.vocab_shift);
  }

  const TfrecordOptions& options_;
  const std::string& path_;
  TFRecordReader records_;
  const BySide<int64_t>& vocabulary_sizes_;
  TextProblems& problems_;
  std::vector<Wanted> features_;
};

}  // namespace

std::unique_ptr<TextFormat> TfrecordOptions::open_format(const FormatContext& context) const {
  return std::make_unique<ExampleFormat>(*this, context);
}

}  // namespace mtf
