#include "trainer/programs/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <span>

#include "data/paths.h"
#include "engine/base/counted.h"
#include "engine/base/file.h"
#include "engine/base/print_message.h"
#include "trainer/checkpoint/checkpoints.h"
#include "trainer/html/page.h"
#include "trainer/programs/compare/config_differences.h"
#include "trainer/programs/report/curves.h"
#include "trainer/programs/report/json_lines.h"
#include "trainer/programs/report/samples.h"
#include "trainer/programs/report/time_use.h"
#include "trainer/report/progress.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kMostRuns = 64;
constexpr size_t kMostPoints = 1000;  ///< points of a curve, where there is room
constexpr size_t kFewestPoints = 16;
constexpr size_t kLongestMetricsLine = 1 << 20;
constexpr size_t kMostDatasets = 100;
constexpr size_t kLongestValue = 300;  ///< characters of a configuration's value
constexpr size_t kMostDifferences = 1000;
constexpr size_t kLargestPage = 1'900'000;

/// The evaluations of a data set.
struct DatasetCurves {
  std::string name;
  Curves curves;
  std::map<std::string, std::pair<double, double>> best;  ///< value and step, by metric
};

/// What the files of a run say.
struct RunFiles {
  std::string path;
  Curves training{kMostPoints};
  std::vector<DatasetCurves> datasets;
  double evaluation_seconds = 0;
  Json samples, time_use;
  std::string last_message;
};

std::string in_run(const std::string& run, const std::string& name) {
  return (fs::path(run) / name).string();
}

void check_run(const std::string& run) {
  std::error_code ignored;
  if (!fs::is_directory(run, ignored))
    throw Error(ErrorKind::kUsage, fmt::format("`{}` is no directory of a run", run));
  if (!fs::is_regular_file(in_run(run, "config.yaml"), ignored))
    throw Error(ErrorKind::kUsage, fmt::format("`{}` holds no run: it has no config.yaml", run),
                "give the `run.model_dir` of a run");
}

DatasetCurves* curves_of(RunFiles& run, const std::string& dataset) {
  const auto found = std::ranges::find(run.datasets, dataset, &DatasetCurves::name);
  if (found != run.datasets.end()) return &*found;
  if (run.datasets.size() >= kMostDatasets) return nullptr;
  return &run.datasets.emplace_back(DatasetCurves{dataset, Curves(kMostPoints), {}});
}

void note_best(DatasetCurves& dataset, const FlatObject& line) {
  const double step = line.number("step", NAN);
  for (const auto& [name, value] : line.numbers) {
    const auto best = dataset.best.find(name);
    const std::optional<double> before =
        best == dataset.best.end() ? std::nullopt : std::optional(best->second.first);
    if (is_better(dataset.name + "/" + name, value, before)) dataset.best[name] = {value, step};
  }
}

RunFiles read_run(const std::string& path) {
  RunFiles run;
  run.path = path;
  FlatObject line;
  for_each_line(in_run(path, "metrics.jsonl"), kLongestMetricsLine, [&](std::string_view text) {
    if (parse_flat(text, line) && std::isfinite(line.number("step", NAN))) run.training.add(line.numbers);
  });
  for_each_line(in_run(path, "evaluate.jsonl"), kLongestMetricsLine, [&](std::string_view text) {
    if (!parse_flat(text, line) || !std::isfinite(line.number("step", NAN))) return;
    const double seconds = line.number("seconds", 0);
    if (std::isfinite(seconds)) run.evaluation_seconds += seconds;
    if (DatasetCurves* dataset = curves_of(run, line.text("dataset"))) {
      dataset->curves.add(line.numbers);
      note_best(*dataset, line);
    }
  });
  for_each_line(in_run(path, "log.txt"), kLongestMetricsLine, [&](std::string_view text) {
    if (!text.empty()) run.last_message = text.substr(0, kLongestValue);
  });
  std::error_code ignored;
  const bool several = fs::exists(in_run(path, "profile.rank-0.json"), ignored);
  run.time_use = time_use_of(in_run(path, several ? "profile.rank-0.json" : "profile.json"));
  return run;
}

/// Returns what tells the paths of runs apart: without the directories that all are in.
std::vector<std::string> names_of(const std::vector<std::string>& runs) {
  std::vector<std::vector<std::string>> parts;
  for (const std::string& run : runs) {
    std::vector<std::string>& path = parts.emplace_back();
    for (const fs::path& part : fs::absolute(run).lexically_normal()) {
      if (!part.empty()) path.push_back(part.string());
    }
  }
  size_t common = 0;
  const auto all_have = [&](size_t i) {
    return std::ranges::all_of(
        parts, [&](const auto& path) { return i + 1 < path.size() && path[i] == parts[0][i]; });
  };
  while (all_have(common)) ++common;
  std::vector<std::string> names;
  for (const auto& path : parts)
    names.push_back(
        fmt::format("{}", fmt::join(path.begin() + static_cast<ptrdiff_t>(common), path.end(), "/")));
  return names;
}

Json evaluations_json(const RunFiles& run) {
  Json result = Json::array();
  for (const DatasetCurves& dataset : run.datasets) {
    Json best = Json::object();
    for (const auto& [name, value] : dataset.best) best[name] = {value.first, value.second};
    Json last = Json::object();
    Json curves = dataset.curves.json();
    for (const auto& [name, values] : curves["metrics"].items()) {
      const double value = dataset.curves.last(name);
      last[name] = std::isfinite(value) ? Json(value) : Json();
    }
    result.push_back({{"dataset", dataset.name},
                      {"step", dataset.curves.last("step")},
                      {"last", std::move(last)},
                      {"best", std::move(best)},
                      {"curves", std::move(curves)}});
  }
  return result;
}

Json run_json(const RunFiles& run, const std::string& name) {
  const auto finite = [](double value) { return std::isfinite(value) ? Json(value) : Json(); };
  return {{"name", name},
          {"path", run.path},
          {"step", finite(run.training.last("step"))},
          {"epoch", finite(run.training.last("epoch"))},
          {"training_seconds", finite(run.training.last("time"))},
          {"evaluation_seconds", run.evaluation_seconds},
          {"last_message", run.last_message},
          {"curves", run.training.json()},
          {"evaluations", evaluations_json(run)},
          {"samples", run.samples},
          {"time_use", run.time_use}};
}

std::string shortened_value(const std::string& value) {
  if (value.size() <= kLongestValue) return value;
  size_t end = kLongestValue;
  while (end > 0 && (value[end] & 0xC0) == 0x80) --end;
  return value.substr(0, end) + " …";
}

/// True if `differences` say that a section around `path` has another type, so that keys in it are not compared.
bool has_other_type(const std::vector<ConfigDifference>& differences, const std::string& path) {
  return std::ranges::any_of(differences, [&](const ConfigDifference& difference) {
    constexpr std::string_view kType = ".type";
    if (!difference.path.ends_with(kType)) return false;
    const std::string section = difference.path.substr(0, difference.path.size() - kType.size() + 1);
    return path.starts_with(section) && path != difference.path;
  });
}

/// Returns [{key, values: [text]}] of the keys whose values differ between the runs; adds to `notes` when a
/// configuration cannot be read.
Json differences_json(const std::vector<std::string>& runs, const std::vector<std::string>& names,
                      Json& notes) {
  std::vector<std::string> keys;
  std::map<std::string, std::string> of_first;
  std::vector<std::vector<ConfigDifference>> differences(runs.size());
  for (size_t i = 1; i < runs.size(); ++i) {
    try {
      differences[i] = compare_configs(in_run(runs[0], "config.yaml"), in_run(runs[i], "config.yaml"));
    } catch (const Error& error) {
      notes.push_back(fmt::format("the configurations of {} and {} cannot be compared: {}", names[0],
                                  names[i], error.what()));
    }
    for (const ConfigDifference& difference : differences[i]) {
      if (of_first.emplace(difference.path, difference.a).second) keys.push_back(difference.path);
    }
  }
  Json result = Json::array();
  for (const std::string& key : keys) {
    if (result.size() >= kMostDifferences) break;
    Json values = Json::array({shortened_value(of_first[key])});
    for (size_t i = 1; i < runs.size(); ++i) {
      const auto found = std::ranges::find(differences[i], key, &ConfigDifference::path);
      const bool differs = found != differences[i].end();
      values.push_back(differs                               ? shortened_value(found->b)
                       : has_other_type(differences[i], key) ? "-"
                                                             : shortened_value(of_first[key]));
    }
    result.push_back({{"key", key}, {"values", std::move(values)}});
  }
  return result;
}

Json document_of(const std::vector<RunFiles>& runs, const std::vector<std::string>& names,
                 const Json& differences, const Json& notes) {
  Json result{{"version", 1}, {"runs", Json::array()}};
  for (size_t i = 0; i < runs.size(); ++i) result["runs"].push_back(run_json(runs[i], names[i]));
  result["differences"] = differences;
  result["notes"] = notes;
  return result;
}

void thin(std::vector<RunFiles>& runs, size_t most) {
  for (RunFiles& run : runs) {
    run.training.thin(most);
    for (DatasetCurves& dataset : run.datasets) dataset.curves.thin(most);
  }
}

/// Returns the files of report.samples. Throws Error (kConfig) with the places of paths where no file is.
std::vector<std::string> further_samples(const ReportOptions& options) {
  std::vector<Problem> problems;
  for (const config::Path& path : options.samples) {
    if (path.empty())
      problems.push_back({ErrorKind::kConfig,
                          path.mark,
                          "`report.samples` names no file",
                          "the path of a file, or a glob",
                          {}});
  }
  std::vector<std::string> files;
  if (problems.empty()) files = find_files(options.samples, problems);
  if (!problems.empty()) throw Error(std::move(problems));
  return files;
}

/// Reads the runs, and thins their curves until the page is small enough.
Json fitting_document(const std::vector<std::string>& paths, const ReportOptions& options) {
  if (paths.size() > kMostRuns)
    throw Error(ErrorKind::kUsage, fmt::format("a report of {} runs", paths.size()),
                fmt::format("at most {} runs", kMostRuns));
  for (const std::string& path : paths) check_run(path);
  const std::vector<std::string> further = further_samples(options);
  const std::vector<std::string> names = names_of(paths);
  Json notes = Json::array();
  std::vector<RunFiles> runs;
  SampleLimits limits;
  limits.image_bytes /= paths.size();
  limits.texts = std::max<size_t>(4, limits.texts / paths.size());
  for (size_t i = 0; i < paths.size(); ++i) {
    runs.push_back(read_run(paths[i]));
    std::vector<std::string> files = sample_files(paths[i]);
    // Files that the command line names are those of the first run.
    if (i == 0) files.insert(files.end(), further.begin(), further.end());
    runs.back().samples = read_samples(files, limits);
  }
  const Json differences = differences_json(paths, names, notes);
  Json document;
  for (size_t points = kMostPoints; points >= kFewestPoints; points /= 2) {
    thin(runs, points);
    document = document_of(runs, names, differences, notes);
    if (script_json(document).size() <= kLargestPage) break;
  }
  return document;
}

std::string report_page(const Json& document) {
  std::string title = document["runs"][0]["name"].get<std::string>();
  if (document["runs"].size() > 1) title += fmt::format(" and {} more", document["runs"].size() - 1);
  return html_page(title + ": report", {"charts.js", "report.js"}, document);
}

config::Node tree_of(const std::vector<std::string>& arguments, size_t number, Diagnostics& diagnostics) {
  config::Node root = config::Node::map({});
  for (const std::string& argument : arguments) {
    const Mark mark{fmt::format("argument {}", ++number), 0, 0, 1, {}};
    diagnostics.add_source(mark.file);
    root = config::apply_argument(root, argument, mark, diagnostics);
  }
  return root;
}

/// Reports keys that say nothing to a report of directories.
void check_arguments(const config::Node& root, Diagnostics& diagnostics) {
  const auto check = [&](const std::string& section, const config::Entry& entry, std::string_view key) {
    if (entry.key == key) return;
    diagnostics.error(entry.mark,
                      fmt::format("a report of directories does not take `{}{}`", section, entry.key),
                      "it takes `report.output` and `report.samples`");
  };
  for (const config::Entry& entry : root.entries()) {
    if (entry.key != "run") check("", entry, "report");
  }
  for (const config::Entry& entry : root.find("run")->entries()) check("run.", entry, "mode");
}

}  // namespace

std::optional<ReportRequest> report_request(const std::vector<std::string>& files,
                                            const std::vector<std::string>& arguments) {
  std::error_code ignored;
  const auto is_directory = [&](const std::string& file) { return fs::is_directory(file, ignored); };
  if (std::ranges::none_of(files, is_directory)) return std::nullopt;
  Diagnostics diagnostics;
  const config::Node root = tree_of(arguments, files.size(), diagnostics);
  const config::Node* run = root.find("run");
  const config::Node* mode = run != nullptr ? run->find("mode") : nullptr;
  if (mode == nullptr || mode->text() != "report") return std::nullopt;
  check_arguments(root, diagnostics);
  static const config::Node kNothing = config::Node::map({});
  const config::Node* report = root.find("report");
  ReportRequest request{
      {}, config::parse<ReportOptions>(report != nullptr ? *report : kNothing, diagnostics, "report")};
  diagnostics.throw_if_errors();
  for (const std::string& file : files) {
    const bool config_file = fs::path(file).filename() == "config.yaml" && !is_directory(file);
    const fs::path parent = fs::path(file).parent_path();
    request.runs.push_back(!config_file ? file : parent.empty() ? "." : parent.string());
  }
  return request;
}

Json report_document(const std::vector<std::string>& runs, const ReportOptions& options) {
  return fitting_document(runs, options);
}

void write_report(const std::vector<std::string>& runs, const ReportOptions& options) {
  const std::string page = report_page(report_document(runs, options));
  const std::string path = options.output.empty() ? in_run(runs[0], "report.html") : options.output.text;
  if (const int error = write_file(path, std::as_bytes(std::span(page))))
    throw Error(ErrorKind::kSystem, fmt::format("{}: cannot be written: {}", path, system_message(error)));
  print_message("{}: {} of {}\n", path, bytes_text(static_cast<double>(page.size())),
                counted(static_cast<int64_t>(runs.size()), "run"));
}

}  // namespace mtf
