#include "trainer/programs/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "engine/base/error.h"
#include "engine/checkpoint/checkpoint.h"

namespace mtf {
namespace {

namespace fs = std::filesystem;

std::vector<SavedCheckpoint> checkpoints_of(const std::string& run) {
  return list_checkpoints((fs::path(run) / "checkpoints").string());
}

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

bool is_directory(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

/// True for a run's directory; false for a checkpoint or a file of tensors.
bool is_run(const std::string& path) {
  if (is_file(path) || is_file(fs::path(path) / "manifest.json")) return false;
  if (!is_directory(path))
    throw Error(ErrorKind::kUsage, fmt::format("{}: there is no such run or file", path));
  for (const char* entry : {"config.yaml", "metrics.jsonl", "evaluate.jsonl", "checkpoints"}) {
    if (fs::exists(fs::path(path) / entry)) return true;
  }
  throw Error(ErrorKind::kUsage, fmt::format("{} is no directory of a run or of a checkpoint", path),
              "a run has config.yaml, metrics.jsonl or checkpoints/, a checkpoint has manifest.json");
}

std::string in(const std::string& directory, const std::string& name) {
  return (fs::path(directory) / name).string();
}

/// Returns "none", "5, 10, 20" or "12 from 5 to 600".
std::string steps_of(const std::vector<SavedCheckpoint>& checkpoints) {
  constexpr size_t most_listed = 6;
  if (checkpoints.empty()) return "none";
  if (checkpoints.size() > most_listed) {
    return fmt::format("{} from {} to {}", checkpoints.size(), checkpoints.front().step,
                       checkpoints.back().step);
  }
  std::vector<int64_t> steps;
  steps.reserve(checkpoints.size());
  for (const SavedCheckpoint& saved : checkpoints) steps.push_back(saved.step);
  return fmt::format("{}", fmt::join(steps, ", "));
}

const SavedCheckpoint* find(const std::vector<SavedCheckpoint>& checkpoints, int64_t step) {
  const auto found = std::find_if(checkpoints.begin(), checkpoints.end(),
                                  [&](const SavedCheckpoint& saved) { return saved.step == step; });
  return found == checkpoints.end() ? nullptr : &*found;
}

/// Compares the parts one after the other.
class Comparer {
 public:
  explicit Comparer(const CompareOptions& options)
      : a_(options.a), b_(options.b), a_is_run_(is_run(a_)), b_is_run_(is_run(b_)) {
    result_.options = options;
  }

  Comparison run() {
    const CompareOptions& options = result_.options;
    const bool runs = a_is_run_ && b_is_run_;
    if (!runs && (options.config || options.metrics)) {
      throw Error(
          ErrorKind::kUsage,
          fmt::format("{} is not the directory of a run: only tensors can be compared", a_is_run_ ? b_ : a_));
    }
    if (options.config || (options.all() && runs)) compare_config();
    if (options.metrics || (options.all() && runs)) compare_all_metrics();
    if (options.tensors || options.all()) compare_checkpoints();
    check_compared();
    return std::move(result_);
  }

 private:
  void check_compared() const {
    if (result_.config || result_.metrics || result_.tensors) return;
    for (const SeriesComparison& evaluation : result_.evaluations) {
      if (evaluation.steps > 0) return;
    }
    throw Error(ErrorKind::kUsage, fmt::format("{} and {} have nothing in common to compare: {}", a_, b_,
                                               fmt::join(result_.notes, "; ")));
  }

  /// Notes that a part cannot be compared; throws Error if it was requested.
  void missing(bool asked_for, const std::string& why) {
    if (asked_for) throw Error(ErrorKind::kUsage, why);
    result_.notes.push_back(why);
  }

  /// True when both runs have the file.
  bool both_have(const std::string& name, bool asked_for) {
    const bool in_a = is_file(fs::path(a_) / name), in_b = is_file(fs::path(b_) / name);
    if (in_a && in_b) return true;
    missing(asked_for, fmt::format("{} {}", in_a ? "B has no" : in_b ? "A has no" : "neither has", name));
    return false;
  }

  void compare_config() {
    const std::string name = "config.yaml";
    if (both_have(name, result_.options.config)) result_.config = compare_configs(in(a_, name), in(b_, name));
  }

  void compare_all_metrics() {
    const double tolerance = result_.options.tolerance;
    if (both_have("metrics.jsonl", result_.options.metrics)) {
      SeriesComparison training =
          compare_metrics(in(a_, "metrics.jsonl"), in(b_, "metrics.jsonl"), tolerance);
      if (training.steps == 0)
        missing(result_.options.metrics, "metrics.jsonl of A and of B have no step in common");
      if (training.steps > 0) result_.metrics = std::move(training);
    }
    const bool any = is_file(in(a_, "evaluate.jsonl")) || is_file(in(b_, "evaluate.jsonl"));
    if (any && both_have("evaluate.jsonl", /*asked_for=*/false))
      result_.evaluations =
          compare_evaluations(in(a_, "evaluate.jsonl"), in(b_, "evaluate.jsonl"), tolerance);
  }

  void compare_checkpoints() {
    if (a_is_run_ && b_is_run_) return compare_newest_common();
    const std::string a = a_is_run_ ? checkpoint_beside(a_, "A", b_) : a_;
    const std::string b = b_is_run_ ? checkpoint_beside(b_, "B", a_) : b_;
    result_.tensors = compare_tensors(a, b, result_.options.tolerance);
  }

  void compare_newest_common() {
    const std::vector<SavedCheckpoint> a = checkpoints_of(a_), b = checkpoints_of(b_);
    for (auto newest = a.rbegin(); newest != a.rend(); ++newest) {
      const SavedCheckpoint* other = find(b, newest->step);
      if (!other) continue;
      result_.tensor_step = newest->step;
      result_.tensors = compare_tensors(newest->path, other->path, result_.options.tolerance);
      return;
    }
    const bool neither = a.empty() && b.empty();
    missing(result_.options.tensors,
            neither ? "neither has checkpoints"
                    : fmt::format("no checkpoint of the same step (A: {}; B: {})", steps_of(a), steps_of(b)));
  }

  /// Returns the checkpoint of a run to compare with `other`: the one of the same step if `other` is a
  /// checkpoint, the newest if it is a file.
  std::string checkpoint_beside(const std::string& run, std::string_view label, const std::string& other) {
    const std::vector<SavedCheckpoint> saved = checkpoints_of(run);
    if (saved.empty()) throw Error(ErrorKind::kUsage, fmt::format("{} has no checkpoints", run));
    const int64_t step = is_directory(other) ? read_manifest(other).step : saved.back().step;
    const SavedCheckpoint* chosen = find(saved, step);
    if (!chosen) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("{} has no checkpoint of step {}, the step of {}", run, step, other),
                  fmt::format("it has those of {}", steps_of(saved)));
    }
    result_.notes.push_back(fmt::format("the tensors of {} are those of its step {}", label, step));
    return chosen->path;
  }

  std::string a_, b_;
  bool a_is_run_, b_is_run_;
  Comparison result_;
};

}  // namespace

bool Comparison::only_config() const {
  const bool evaluated = std::any_of(evaluations.begin(), evaluations.end(),
                                     [](const SeriesComparison& evaluation) { return evaluation.steps > 0; });
  return config && !metrics && !evaluated && !tensors;
}

bool Comparison::differs() const {
  if (metrics && metrics->first) return true;
  if (tensors && !tensors->same()) return true;
  for (const SeriesComparison& evaluation : evaluations) {
    if (evaluation.first) return true;
  }
  return only_config() && !config->empty();
}

Comparison compare(const CompareOptions& options) { return Comparer(options).run(); }

}  // namespace mtf
