// Runs run.mode=explain: prints what a run would do on its mesh, without running it or allocating its memory.
// explain.format=text is for people (explanation_text.h), json for programs (explanation_json.h), html a page
// with drawings (explanation_html.h).
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "engine/spmd/program_facts.h"
#include "trainer/costs/prediction.h"
#include "trainer/costs/recompute.h"
#include "trainer/costs/schedule.h"
#include "trainer/explain/explained_memory.h"
#include "trainer/explain/splits.h"
#include "trainer/session/session.h"

namespace mtf {

struct Explanation;

/// What is derived from the explanation and becomes part of it: a key of the JSON document, and a section of the text.
struct ExplainedPart {
  std::string key;
  std::string text;
  nlohmann::ordered_json document;
};
/// Nothing where the configuration does not ask for it.
using ExplainPart = std::function<std::optional<ExplainedPart>(const Session&, const Explanation&)>;

/// Prints the explanation to standard output, in process 0 only. Throws Error when the configuration is
/// wrong; a run that does not fit into memory is explained, too.
void explain(const Session& session, Diagnostics& diagnostics, const std::vector<ExplainPart>& parts = {});

/// A program of the run and the facts that are derived from it.
struct ExplainedProgram {
  Program program;
  ProgramFacts facts;
  int64_t batch_size = 0;
};

/// The work of one mesh position for one layer in a training step.
struct LayerWork {
  std::string path;               ///< scope path; "optimizer" for the whole update; empty: outside all layers
  int64_t parameters = 0;         ///< number of weight elements, on the whole mesh
  std::array<double, 3> flops{};  ///< FLOPs of contractions, by Phase
  double bytes_sent = 0;
  int64_t operations = 0;  ///< executions of instructions, collectives included
  double bytes_moved = 0;  ///< bytes that operations other than contractions and attention read and write
};

/// The work of one mesh position in a training step, by the kind of operation.
struct KindWork {
  int64_t operations = 0;
  double flops = 0;
  double bytes = 0;  ///< Work::bytes
};

/// The distribution of the mesh positions over processes.
struct ExplainedProcesses {
  int64_t count = 1;
  int64_t positions = 1;  ///< number of positions of each process
  /// Bytes that a process sends to others in a training step: the mean over all processes, or with more than
  /// 16 that of the first.
  double bytes_sent = 0;
};

/// The hardware that is planned for, and what it does with the run.
struct ExplainedHardware {
  bool is_given = false;  ///< by section `hardware`; false: its defaults, which stand for no machine
  HardwareOptions options;
  double examples_per_second = 0;
  std::optional<double> tokens_per_second = {};  ///< tokens of rows with `data.sequence_length`
  double utilization = 0;                        ///< share of the peak of all devices (MFU)
};

/// The stages of a pipeline.
struct ExplainedPipeline {
  std::string mesh_dimension;
  int64_t stages = 1, rounds = 1;
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  double bubble = 0;                ///< pipeline_bubble()
  std::vector<int64_t> bytes;       ///< by stage: tensors of the training step on one of its positions
  std::vector<int64_t> parameters;  ///< by stage
};

/// What the configuration says of the run.
struct ExplainedRun {
  std::string name;   ///< the last part of run.model_dir
  std::string model;  ///< model.type
  LayoutRules layout, parameter_layout, optimizer_layout;
  std::optional<double> peak_flops;  ///< run.peak_flops
};

/// All facts about a run. FLOPs and bytes are those of one training step.
struct Explanation {
  ExplainedRun run;
  ExplainedProgram step;
  std::optional<ExplainedProgram> evaluation;
  ExplainedProcesses processes;
  int64_t microbatches = 1;
  std::optional<ExplainedPipeline> pipeline = {};
  std::optional<RecomputeChoice> recompute = {};  ///< the choice of train.recompute: auto
  std::array<KindWork, kWorkKinds> work{};        ///< by WorkKind
  KindWork transposes = {};  ///< the part of the movement that changes the order of dimensions
  std::vector<LayerWork> layers;
  std::vector<ScheduleItem> schedule;
  ExplainedHardware hardware;
  StepPrediction prediction;  ///< on this hardware
  ExplainedMemory memory;
  std::vector<SplitTrial> splits;  ///< layout rules that would save repeated work
  AxisMask unused_axes = 0;        ///< mesh dimensions with more than one position that split no tensor
  std::vector<std::string> warnings;
  std::vector<std::string> notes;
  std::vector<ExplainedPart> parts;
};

Explanation make_explanation(const Session& session, Diagnostics& diagnostics);

}  // namespace mtf
