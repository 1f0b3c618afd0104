// All output of a training run: messages and progress, metrics.jsonl, evaluate.jsonl, evaluation/, samples/,
// TensorBoard's events, log.txt. Only the first process writes all of it; the others write only their messages, to log.rank-N.txt.
//
//   RunLog log(config, state);   // resumes after state.step; later steps are removed from the files
//   log.info("training on 60,000 examples");
//   log.step({{"step", 1100}, {"loss", 0.31}});
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/checkpoints.h"
#include "trainer/config/config.h"
#include "trainer/evaluation/evaluate.h"
#include "trainer/report/event_file.h"
#include "trainer/report/metrics.h"
#include "trainer/report/progress.h"

namespace mtf {

class RunLog {
 public:
  /// Opens the files of run.model_dir. `rank` is the rank of this process. Throws Error (kSystem).
  RunLog(const Config& config, const RunState& state, int rank = 0);

  /// Removes the numbers of all steps after state.step, and of an evaluation that will be repeated.
  void cut_back(const RunState& state);

  Progress& messages() { return progress_; }
  void info(const std::string& message) { progress_.info(message); }
  void warning(const std::string& message) { progress_.warning(message); }
  /// Write a message, or an error, only to the log file.
  void record(const std::string& message) { progress_.record(message); }
  void record_error(const std::string& message) { progress_.record_error(message); }
  void progress(const ProgressState& state) {
    if (is_first_) progress_.update(state);
  }
  void finish_progress() { progress_.finish(); }

  /// Writes a logged step; `numbers` begin with "step". Throws Error (kSystem), as does evaluation().
  void step(const Metrics& numbers, std::vector<MetricList> lists = {});
  void evaluation(int64_t step, const Evaluation& evaluation);

 private:
  std::string path(const std::string& name) const;
  void write_samples(int64_t step, const Evaluation& evaluation);

  const Config& config_;
  const bool is_first_;  ///< true in process 0, which writes the files of numbers
  Progress progress_;
  std::optional<JsonLines> metrics_;
  std::optional<JsonLines> evaluations_;
  std::optional<JsonLines> samples_;
  std::optional<EventFile> events_;
};

}  // namespace mtf
