// The algorithms that a run has chosen by measuring (run.tune), in run.model_dir/algorithms.json:
//
//   {"instruction_set": "sm_90x132 cublaslt 13.1.0", "choices": {"float32 64 x 512 x 128, ...": 2, ...}}
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "engine/backend/tuning_record.h"
#include "engine/comm/process/process_group.h"
#include "trainer/session/session.h"

namespace mtf {

class AlgorithmFile final : public TuningRecord {
 public:
  /// All processes of the run read what the file of process 0 holds, and process 0 writes each new choice into
  /// it. Choices for another `instruction_set` are measured again. Must be called by all processes. Throws
  /// Error (kData) if the file is damaged.
  AlgorithmFile(std::string path, std::string instruction_set, ProcessGroup& processes);

  int choose(const std::string& problem, const std::function<int()>& measure) override;

 private:
  void read(const std::string& text);
  void write() const;

  const std::string path_, instruction_set_;
  ProcessGroup& processes_;
  std::map<std::string, int> choices_;  ///< by problem
};

/// With run.tune the session's backend is tuned from now on, as long as the result lives; else null.
std::unique_ptr<AlgorithmFile> tuned_by_file(const Session& session);

}  // namespace mtf
