#include "trainer/predict/prediction_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "data/class_names.h"
#include "data/labelled/conll.h"
#include "data/labelled/squad.h"
#include "engine/base/counted.h"
#include "engine/base/json.h"
#include "trainer/evaluation/grouped_predictions.h"
#include "trainer/session/evaluation_graph.h"

namespace mtf {
namespace {

using Json = nlohmann::ordered_json;

const std::string kOfClasses = kExample + "probabilities";

std::vector<double> rounded(std::span<const float> numbers) {
  std::vector<double> result;
  for (const float number : numbers) result.push_back(to_six_digits(number));
  return result;
}

/// A text that fits into a line.
std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ' ');
  return text;
}

/// The values of one example, or a single value as such.
template <class T>
Json json_of(const std::vector<T>& values, bool single) {
  return single ? Json(values.front()) : Json(values);
}

/// Lines of examples of which each has one.
class ExampleLines : public PredictionLines {
 public:
  ExampleLines(const Source& source, const PredictionLineOptions& options)
      : source_(source), options_(options), next_(options.first_line) {}

  std::vector<std::string> take(bool) override { return std::exchange(lines_, {}); }

 protected:
  bool as_json() const { return options_.format == InferFormat::kJsonl; }
  /// The object of the next line, for example `example`.
  Json object(int64_t example) const {
    Json result{{"line", next_}};
    if (std::string name = source_.example_name(example); !name.empty()) result["file"] = std::move(name);
    return result;
  }
  void push(std::string line) {
    lines_.push_back(std::move(line));
    ++next_;
  }

 private:
  const Source& source_;
  PredictionLineOptions options_;
  int64_t next_;
  std::vector<std::string> lines_;
};

class NumberLines final : public ExampleLines {
 public:
  using ExampleLines::ExampleLines;

  void add(const Executor& executor, int64_t first, int64_t examples) override {
    const HostTensor prediction = executor.fetch(kPredictions);
    const int64_t width = prediction.shape.size() / prediction.shape[0].size;
    for (int64_t i = 0; i < examples; ++i) {
      const std::vector<double> numbers =
          rounded({prediction.data<float>() + i * width, static_cast<size_t>(width)});
      if (as_json()) {
        Json line = object(first + i);
        line["prediction"] = json_of(numbers, prediction.shape.rank() == 1 || width == 1);
        push(json_text(line));
      } else {
        std::string line;
        for (const double number : numbers)
          line += (line.empty() ? "" : "\t") + fmt::format("{:.6g}", number);
        push(std::move(line));
      }
    }
  }
};

/// Classes of examples, each of which may have several.
class ClassLines final : public ExampleLines {
 public:
  ClassLines(const Source& source, const PredictionLineOptions& options)
      : ExampleLines(source, options), names_(names_of_classes(source, options.preparation)) {}

  void add(const Executor& executor, int64_t first, int64_t examples) override {
    const HostTensor predictions = executor.fetch(kPredictions);
    const HostTensor probabilities = as_json() ? executor.fetch(kOfClasses) : HostTensor();
    const int64_t width = predictions.shape.size() / predictions.shape[0].size;
    const bool single = predictions.shape.rank() == 1;
    for (int64_t i = 0; i < examples; ++i) {
      const auto* const classes = predictions.data<int32_t>() + i * width;
      std::vector<std::string> names;
      for (int64_t at = 0; at < width; ++at) names.push_back(class_name(names_, classes[at]));
      if (!as_json()) {
        push(one_line(fmt::format("{}", fmt::join(names, " "))));
        continue;
      }
      Json line = object(first + i);
      line["prediction"] = json_of(names, single);
      line["class"] = json_of(std::vector<int32_t>(classes, classes + width), single);
      const int64_t count = probabilities.shape.size() / predictions.shape.size();
      std::vector<double> best;
      std::vector<std::vector<double>> all;
      for (int64_t at = 0; at < width; ++at) {
        all.push_back(
            rounded({probabilities.data<float>() + (i * width + at) * count, static_cast<size_t>(count)}));
        best.push_back(all.back()[static_cast<size_t>(classes[at])]);
      }
      line["probability"] = json_of(best, single);
      line["probabilities"] = single ? of_single(all.front()) : Json(all);
      push(json_text(line));
    }
  }

 private:
  /// By name where the classes have names.
  Json of_single(const std::vector<double>& probabilities) const {
    if (names_.size() < probabilities.size()) return probabilities;
    Json by_name = Json::object();
    for (size_t i = 0; i < probabilities.size(); ++i) by_name[names_[i]] = probabilities[i];
    return by_name;
  }

  std::vector<std::string> names_;
};

/// Takes the entries of `found` to which no further row adds: all, or all but the last one.
template <class Value, class Use>
void take_complete(std::map<int64_t, Value>& found, bool all, const Use& use) {
  while (found.size() > (all ? 0 : 1)) {
    use(found.begin()->first, found.begin()->second);
    found.erase(found.begin());
  }
}

/// The tags of sentences.
class TagLines final : public PredictionLines {
 public:
  TagLines(const ConllSource& source, const PredictionLineOptions& options)
      : source_(source), options_(options), tags_(source, names_of_classes(source, options.preparation)) {}

  void add(const Executor& executor, int64_t first, int64_t examples) override {
    tags_.add(executor, first, examples);
  }

  std::vector<std::string> take(bool all) override {
    std::vector<std::string> lines;
    take_complete(tags_.found(), all, [&](int64_t sentence, const SentenceTags::Tags& found) {
      if (options_.format == InferFormat::kText) {
        lines.push_back(fmt::format("{}", fmt::join(found.tags, " ")));
        return;
      }
      const Json line{{"line", options_.first_line + sentence},
                      {"words", source_.sentences()[static_cast<size_t>(sentence)].words},
                      {"tags", found.tags},
                      {"probabilities", rounded(found.probabilities)}};
      lines.push_back(json_text(line));
    });
    return lines;
  }

 private:
  const ConllSource& source_;
  PredictionLineOptions options_;
  SentenceTags tags_;
};

/// True where some questions have answers and some have none.
bool some_are_unanswerable(const SquadSource& source) {
  const auto is_answered = [](const SquadQuestion& question) { return !question.answers.empty(); };
  return source.has_unanswerable() && std::ranges::any_of(source.questions(), is_answered);
}

/// The answers to questions. One may be empty where that was so in training.
class AnswerLines final : public PredictionLines {
 public:
  AnswerLines(const SquadSource& source, const PredictionLineOptions& options)
      : source_(source),
        options_(options),
        answers_(source, options.answers,
                 prepared_unanswerable(options.preparation).value_or(some_are_unanswerable(source))) {}

  void add(const Executor& executor, int64_t first, int64_t examples) override {
    answers_.add(executor, first, examples);
  }

  std::vector<std::string> take(bool all) override {
    std::vector<std::string> lines;
    take_complete(answers_.found(), all, [&](int64_t number, const BestAnswers::Best& best) {
      const SquadQuestion& question = answers_.question(number);
      const std::string answer = answers_.text(number, best);
      if (options_.format == InferFormat::kText) {
        lines.push_back(one_line(options_.has_ids ? question.id + "\t" + answer : answer));
        return;
      }
      Json line{{"line", options_.first_line + number}};
      if (options_.has_ids) line["id"] = question.id;
      line["question"] = question.text;
      line["answer"] = answer;
      if (answers_.has_answer(best)) line["start"] = source_.context(question).character(best.first);
      line["score"] = to_six_digits(best.score);
      line["null_score"] = to_six_digits(best.null_score);
      lines.push_back(json_text(line));
    });
    return lines;
  }

 private:
  const SquadSource& source_;
  PredictionLineOptions options_;
  BestAnswers answers_;
};

}  // namespace

std::unique_ptr<PredictionLines> make_prediction_lines(const Program& program, const Source& source,
                                                       const PredictionLineOptions& options,
                                                       const Mark& mark) {
  if (program.output(kExample + "start") != kNoValue) {
    if (const auto* const squad = dynamic_cast<const SquadSource*>(&source))
      return std::make_unique<AnswerLines>(*squad, options);
    throw Error(ErrorKind::kConfig, mark, "the model answers questions, and this source has none",
                "a source of type squad, or lines of a question and a text with a tab between them");
  }
  const Value& prediction = program.values[program.output(kPredictions)];
  if (prediction.dtype != DType::kInt32) return std::make_unique<NumberLines>(source, options);
  if (const auto* const conll = dynamic_cast<const ConllSource*>(&source))
    return std::make_unique<TagLines>(*conll, options);
  const bool has_tokens =
      std::ranges::find(source.features(), "inputs_segmentation", &Feature::name) != source.features().end();
  if (has_tokens && prediction.shape.contains("length"))
    throw Error(ErrorKind::kConfig, mark, "the model tags words, and this source has none",
                "a source of type conll, or lines of words with blanks between them");
  return std::make_unique<ClassLines>(source, options);
}

}  // namespace mtf
