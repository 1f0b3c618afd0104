#include "trainer/evaluation/evaluation_files.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <system_error>

#include "data/class_names.h"
#include "engine/base/append_file.h"
#include "engine/base/json.h"
#include "trainer/evaluation/command_metric.h"
#include "trainer/evaluation/confusion_svg.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char *kClassFiles = "evaluation", *kSampleFiles = "samples", *kTextFiles = "evaluate";
constexpr std::string_view kStep = "step-";
constexpr std::string_view kMisclassified = "misclassified-";
constexpr int64_t kMostOfMatrix = 1000;  ///< classes

/// Returns the data set's name as that of a file: `/`, `%`, control characters and a dot at the front are written as %2F.
std::string file_name(const std::string& dataset) {
  std::string name;
  for (const char c : dataset) {
    const bool is_plain =
        c != '/' && c != '%' && static_cast<unsigned char>(c) >= ' ' && (c != '.' || !name.empty());
    name += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return name;
}

void write(const fs::path& path, const std::string& text) {
  std::error_code ignored;  // what cannot be written into is reported below
  fs::create_directories(path.parent_path(), ignored);
  if (const int error = write_file(path, std::as_bytes(std::span(text)))) throw_not_written(path, error);
}

/// A name, or the number of a class without one.
Json class_of(const std::vector<std::string>& names, int64_t label) {
  return label >= 0 && label < std::ssize(names) ? Json(names[static_cast<size_t>(label)]) : Json(label);
}

/// Adds `"key": [` with an element in each line.
template <class Element>
void add_lines(std::string& text, std::string_view key, int64_t count, const Element& element) {
  text += fmt::format(",\n \"{}\": [", key);
  for (int64_t i = 0; i < count; ++i) text += (i == 0 ? "\n  " : ",\n  ") + json_text(element(i));
  text += "\n ]";
}

std::string title_of(int64_t step, const Evaluation& evaluation) {
  return fmt::format("{}, step {}: accuracy {:.4f}", evaluation.dataset, step, evaluation.matrix->accuracy());
}

std::string sample_lines(int64_t step, const Evaluation& evaluation) {
  std::string lines;
  for (const auto& [mistake, image] : *evaluation.misclassified) {
    lines += json_text({{"dataset", evaluation.dataset},
                        {"step", step},
                        {"example", mistake.example},
                        {"label", class_of(evaluation.class_names, mistake.label)},
                        {"prediction", class_of(evaluation.class_names, mistake.prediction)},
                        {"probability", mistake.probability},
                        {"image", image}}) +
             '\n';
  }
  return lines;
}

/// Returns the step of a file of class scores; nothing if it is damaged.
std::optional<int64_t> step_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  try {
    return parse_json(text, [](const std::string&) {}).at("step").get<int64_t>();
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

/// Returns the files of a directory whose names begin and end so.
std::vector<fs::path> files_in(const fs::path& directory, std::string_view begin, std::string_view end) {
  std::vector<fs::path> files;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), last; !error && entry != last;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (name.starts_with(begin) && name.ends_with(end)) files.push_back(entry->path());
  }
  return files;
}

}  // namespace

std::string classes_json(int64_t step, const Evaluation& evaluation) {
  const ConfusionMatrix& matrix = *evaluation.matrix;
  const std::vector<ClassScores> scores = matrix.scores();
  const ClassScores mean = matrix.mean();
  std::string text = fmt::format(
      "{{\"dataset\": {},\n \"step\": {},\n \"examples\": {},\n \"accuracy\": {},\n \"precision\": {},\n "
      "\"recall\": {},\n \"f1\": {},\n \"mean_iou\": {}",
      json_text(evaluation.dataset), step, evaluation.examples, json_text(matrix.accuracy()),
      json_text(mean.precision), json_text(mean.recall), json_text(mean.f1), json_text(mean.iou));
  add_lines(text, "classes", matrix.classes(), [&](int64_t i) {
    const ClassScores& of = scores[static_cast<size_t>(i)];
    return Json{{"name", class_of(evaluation.class_names, i)},
                {"precision", of.precision},
                {"recall", of.recall},
                {"f1", of.f1},
                {"iou", of.iou},
                {"support", of.support},
                {"predicted", of.predicted}};
  });
  if (matrix.classes() <= kMostOfMatrix) {
    add_lines(text, "confusion_matrix", matrix.classes(), [&](int64_t row) {
      std::vector<int64_t> counts;
      for (int64_t col = 0; col < matrix.classes(); ++col) counts.push_back(matrix.count(row, col));
      return Json(counts);
    });
  } else {
    const std::vector<ConfusionCell> cells = matrix.cells();
    add_lines(text, "confusion_counts", std::ssize(cells), [&](int64_t i) {
      const ConfusionCell& cell = cells[static_cast<size_t>(i)];
      return Json(std::vector{cell.label, cell.prediction, cell.count});
    });
  }
  return text + "\n}\n";
}

void write_evaluation_files(const std::string& directory, int64_t step, const Evaluation& evaluation) {
  const fs::path root(directory);
  const std::string name = file_name(evaluation.dataset);
  if (evaluation.matrix) {
    write(root / kClassFiles / (name + ".json"), classes_json(step, evaluation));
    write(root / kClassFiles / (name + ".svg"),
          confusion_svg(*evaluation.matrix, evaluation.class_names, title_of(step, evaluation)));
  }
  if (evaluation.misclassified)
    write(root / kSampleFiles / fmt::format("{}{}.jsonl", kMisclassified, name),
          sample_lines(step, evaluation));
  if (evaluation.texts)
    write(root / kTextFiles / fmt::format("{}{:08}", kStep, step) / (name + ".txt"),
          lines_of(evaluation.texts->predictions));
}

void remove_evaluation_files_after(const std::string& directory, int64_t step) {
  const fs::path root(directory);
  const auto remove = [](const fs::path& path) {
    std::error_code error;
    fs::remove(path, error);
    if (error) throw_not_written(path, error.value());
  };
  for (const fs::path& path : files_in(root / kClassFiles, "", ".json")) {
    if (step_of(path).value_or(step) <= step) continue;
    remove(fs::path(path).replace_extension(".svg"));
    remove(path);
  }
  for (const fs::path& path : files_in(root / kSampleFiles, kMisclassified, ".jsonl"))
    cut_json_lines(path, step);
  for (const fs::path& path : files_in(root / kTextFiles, kStep, "")) {
    const std::optional<int32_t> of = class_number(path.filename().string().substr(kStep.size()));
    std::error_code error;
    if (of && *of > step) fs::remove_all(path, error);
    if (error) throw_not_written(path, error.value());
  }
}

}  // namespace mtf
