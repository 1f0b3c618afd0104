// The configuration of a run as typed values: one struct for each section of the YAML files. `describe` of
// each gives parsing, validation, help and dump; after load_config nothing is looked up by name.
//
//   const Config config = load_config({"mnist.yaml"}, {"train.epochs=2"}, diagnostics);
//   diagnostics.throw_if_errors();
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "data/sources/options.h"
#include "engine/comm/launch/launch.h"
#include "engine/config/load.h"
#include "engine/config/schema.h"
#include "engine/core/hosted_mesh.h"
#include "engine/core/matmul_precision.h"
#include "engine/spmd/partition/partition.h"
#include "layers/context.h"
#include "models/distillation.h"
#include "models/preference.h"
#include "trainer/config/auto_layout.h"
#include "trainer/config/cluster_config.h"
#include "trainer/config/hardware.h"
#include "trainer/config/infer_options.h"
#include "trainer/config/simulation.h"
#include "trainer/config/strategy.h"
#include "trainer/optimizer/optimizer.h"
#include "trainer/optimizer/schedules.h"

namespace mtf {

enum class RunMode {
  kTrain,
  kEvaluate,
  kInfer,
  kScore,
  kExplain,
  kTrace,
  kReport,
  kShow,
  kCalibrate,
  kBench
};
enum class OnExisting { kResume, kFail };
/// kAuto: the best one of the machine (chosen_instruction_set()).
enum class InstructionSetChoice { kAuto, kAmx, kAvx512, kAvx2, kPortable };

/// What computes attention on GPUs: cuDNN where it is faster, kernels of mtf-train, or cuDNN where it can.
enum class AttentionChoice { kAuto, kOwn, kCudnn };

struct RunOptions {
  RunMode mode = RunMode::kTrain;
  config::Path model_dir;  ///< empty in the files: runs/NAME, NAME the stem of the first file
  int64_t seed = 1;
  OnExisting on_existing = OnExisting::kResume;
  std::vector<std::string> allow_change;
  config::Auto<int64_t> threads;
  bool check_replicas = false;
  InstructionSetChoice instruction_set = InstructionSetChoice::kAuto;
  bool tune = false;
  AttentionChoice attention = AttentionChoice::kAuto;
  config::Auto<config::Bytes> memory_limit;
  config::Auto<config::Bytes> device_memory_limit;
  config::Auto<double> peak_flops;
};

enum class ElementType { kFloat32, kBFloat16 };
enum class SlotType { kFloat32, kBFloat16, kInt8 };
enum class InferPrecision { kSame, kBFloat16, kInt8 };

struct PrecisionOptions {
  ElementType activation = ElementType::kFloat32;
  ElementType slice = ElementType::kFloat32;
  ElementType master = ElementType::kFloat32;
  SlotType slots = SlotType::kFloat32;
  MatmulPrecision matmul = MatmulPrecision::kFull;
  InferPrecision infer = InferPrecision::kSame;
};

/// Examples or tokens (rows x the longest sequence_length), of the whole batch or times the number of parts
/// into which the layout cuts it. Exactly one is given.
struct RelativeBatchSize {
  std::optional<int64_t> tokens, per_replica, tokens_per_replica;

  std::optional<int64_t> all_tokens() const { return tokens ? tokens : tokens_per_replica; }
};
using BatchSize = std::variant<int64_t, RelativeBatchSize>;

enum class RecomputeWord { kNone, kBlock, kAuto };
/// The layers whose forward pass is repeated in the backward pass: kinds, names or patterns of paths, or how many of each.
using Recompute = std::variant<RecomputeWord, std::vector<std::string>, config::Named<int64_t>>;
/// True while the layers are still to be chosen (trainer/costs/recompute.h).
inline bool is_auto(const Recompute& recompute) { return recompute == Recompute(RecomputeWord::kAuto); }
enum class OnDamage { kAuto, kFail, kPrevious };
enum class OnDivergence { kStop, kSkip, kRestore };

/// The run ends when `metric` ("DATASET/METRIC") was not better than before in so many evaluations in a row.
struct PatienceOptions {
  std::string metric;
  int64_t evaluations = 8;
};

struct TrainOptions {
  std::optional<int64_t> steps;
  std::optional<double> epochs;
  std::optional<config::Duration> time;
  std::optional<PatienceOptions> patience;
  BatchSize batch_size = int64_t{64};
  config::Auto<int64_t> microbatches = {1};
  int64_t loss_chunks = 1;
  config::Named<double> loss_weights;
  Recompute recompute = RecomputeWord::kNone;
  std::vector<std::string> trainable = {".*"};
  std::optional<double> ema_decay;
  std::optional<double> noise_scale_decay;
  config::Interval log_every = config::Interval::steps(100);
  OnDivergence on_divergence = OnDivergence::kStop;
  int gather_ahead = 1;
  bool keep_gathered = false;
  TrainStrategy strategy;
};

enum class SameWord { kSame };

/// How answers to questions are chosen (models of type `spans`): the part of the text with the largest sum of the logits
/// of its beginning and its end.
struct AnswerOptions {
  int64_t n_best = 20;      ///< beginnings and ends that are tried in each window
  int64_t max_length = 30;  ///< tokens of an answer
  double null_threshold =
      0;  ///< no answer, where its logits are by more than this above those of the best part
};

struct EvaluateOptions {
  config::Interval every = config::Interval::steps(1000);
  config::Named<EvaluationSourceOptions> datasets;
  std::variant<SameWord, int64_t> batch_size = SameWord::kSame;
  InferCheckpoints checkpoint = InferCheckpointWord::kLatest;
  int64_t misclassified = 32;  ///< images that each evaluation of a data set shows
  std::string output;          ///< directory for run.mode=evaluate; empty: no files
  /// For metrics of written texts. What it does not give is as in section `infer`, but for the method.
  DecodeOptions infer = {.method = GreedyMethod{}};
  AnswerOptions answers;
  int64_t examples_in_log = 3;
  /// run.mode=evaluate then waits for further checkpoints of a run that trains.
  bool follow = false;
  std::optional<config::Duration> follow_timeout;
};

/// Checkpoints that are kept because no other has a better `metric` ("DATASET/METRIC").
struct KeepBestOptions {
  std::string metric;
  int64_t count = 1;
};

/// Where a fresh run takes its weights from. Names of variables match a pattern when it occurs in them;
/// `rename` replaces patterns in the names of the checkpoint. Weights take the values of their running means unless `raw`.
struct InitOptions {
  config::Path path;
  bool raw = false;
  std::vector<std::string> include = {".*"};
  std::vector<std::string> exclude;
  config::Named<std::string> rename;
};

struct CheckpointOptions {
  config::Interval every = config::Interval::steps(1000);
  int64_t keep_last = 3;
  std::optional<config::Interval> keep_every;
  std::optional<KeepBestOptions> keep_best;
  OnDamage on_damage = OnDamage::kAuto;
  InitOptions init;
};

enum class ExplainFormat { kText, kJson, kHtml };

struct ExplainOptions {
  ExplainFormat format = ExplainFormat::kText;
  bool tensors = true;
  bool detail = false;
};

enum class BenchFormat { kText, kJson };

struct BenchOptions {
  int64_t steps = 10;
  BenchFormat format = BenchFormat::kText;
};

struct CalibrateOptions {
  config::Path output{"hardware.yaml"};
  int rounds = 5;
};

/// The search for what `auto` stands for in `mesh` and the layouts (trainer/plan/choose_layout.h).
struct LayoutSearchOptions {
  config::Duration time_limit{4.5};
  int64_t mesh_dimensions = 3;
  config::Auto<config::Bytes> memory_limit;  ///< bytes of a position
  int64_t runners_up = 5;
};

/// The order in which the stages of a pipeline work on microbatches.
struct PipelineOptions {
  PipelineSchedule schedule = PipelineSchedule::k1F1B;
  int rounds = 1;
};

enum class MemoryPlace { kDevice, kHost };

/// What a GPU does not keep in its own memory.
struct OffloadOptions {
  MemoryPlace slots = MemoryPlace::kDevice;
  MemoryPlace activations = MemoryPlace::kDevice;
  config::Bytes least_bytes{1'000'000};  ///< smaller results on a position stay
};

/// By mesh dimension and stage: names of layers.
using PlacementOptions = config::Named<config::Named<std::vector<std::string>>>;

struct TraceOptions {
  config::Path input;
  config::Path output;
  int64_t steps = 0;
  std::vector<std::string> tensors;
};

struct ReportOptions {
  config::Path output;  ///< empty: report.html in the directory of the (first) run
  std::vector<config::Path> samples;
};

struct ProfileOptions {
  int64_t steps = 0;
  int64_t skip = 10;
};

struct Config {
  RunOptions run;
  std::optional<AutoMesh> mesh;
  std::vector<std::string> devices = {"cpu"};
  AutoLayout layout;
  AutoLayout parameter_layout;
  AutoLayout optimizer_layout;
  LayoutSearchOptions layout_search;
  std::vector<std::string> shared_layout;  ///< dimensions of rules that a model may lack
  PlacementOptions placement;
  PipelineOptions pipeline;
  OffloadOptions offload;
  PrecisionOptions precision;
  DataOptions data;
  config::Node model;
  std::optional<DistillOptions> distill;
  std::optional<PreferenceOptions> preference;
  Optimizer optimizer;
  std::vector<Schedule> learning_rate;
  TrainOptions train;
  EvaluateOptions evaluate;
  CheckpointOptions checkpoint;
  InferOptions infer;
  ScoreOptions score;
  ClusterConfig cluster;
  std::optional<HardwareChoice> hardware;
  ExplainOptions explain;
  std::optional<SimulateOptions> simulate;
  CalibrateOptions calibrate;
  BenchOptions bench;
  TraceOptions trace;
  ReportOptions report;
  ProfileOptions profile;

  config::Node root;                       ///< the merged files: the places of keys
  Launch launch;                           ///< which process of how many this is
  std::optional<HardwareOptions> machine;  ///< what `hardware` names; in run.mode=explain only
  bool hosts_all = false;  ///< the mesh has mistakes: nothing is said of how processes share it
  /// The place of the innermost key of `path` ("train.steps") that is given.
  Mark mark(std::string_view path) const;
};

void describe(config::Visitor& visit, RunOptions& options);
void describe(config::Visitor& visit, PrecisionOptions& options);
void describe(config::Visitor& visit, RelativeBatchSize& options);
void describe(config::Visitor& visit, TrainOptions& options);
void describe(config::Visitor& visit, PatienceOptions& options);
void describe(config::Visitor& visit, EvaluateOptions& options);
void describe(config::Visitor& visit, KeepBestOptions& options);
void describe(config::Visitor& visit, InitOptions& options);
void describe(config::Visitor& visit, CheckpointOptions& options);
void describe(config::Visitor& visit, ExplainOptions& options);
void describe(config::Visitor& visit, CalibrateOptions& options);
void describe(config::Visitor& visit, BenchOptions& options);
void describe(config::Visitor& visit, LayoutSearchOptions& options);
void describe(config::Visitor& visit, PipelineOptions& options);
void describe(config::Visitor& visit, OffloadOptions& options);
void describe(config::Visitor& visit, TraceOptions& options);
void describe(config::Visitor& visit, ReportOptions& options);
void describe(config::Visitor& visit, ProfileOptions& options);
void describe(config::Visitor& visit, Config& config);

inline config::EnumNames enum_names(RunMode) {
  return {{"train", RunMode::kTrain},   {"evaluate", RunMode::kEvaluate}, {"infer", RunMode::kInfer},
          {"score", RunMode::kScore},   {"explain", RunMode::kExplain},   {"trace", RunMode::kTrace},
          {"report", RunMode::kReport}, {"show", RunMode::kShow},         {"calibrate", RunMode::kCalibrate},
          {"bench", RunMode::kBench}};
}
inline config::CommonNames common_names(RunMode) {
  static constexpr std::array names = {
      CommonName{"eval", "`evaluate`"},     CommonName{"test", "`evaluate`"},
      CommonName{"validate", "`evaluate`"}, CommonName{"fit", "`train`"},
      CommonName{"finetune", "`train`"},    CommonName{"decode", "`infer`"},
      CommonName{"predict", "`infer`"},     CommonName{"generate", "`infer`"},
      CommonName{"translate", "`infer`"},   CommonName{"sample", "`infer`"},
      CommonName{"inference", "`infer`"},   CommonName{"plan", "`explain`"},
      CommonName{"dry_run", "`explain`"},   CommonName{"benchmark", "`bench`"}};
  return names;
}
inline config::EnumNames enum_names(OnExisting) {
  return {{"resume", OnExisting::kResume}, {"fail", OnExisting::kFail}};
}
inline config::EnumNames enum_names(AttentionChoice) {
  return {
      {"auto", AttentionChoice::kAuto}, {"own", AttentionChoice::kOwn}, {"cudnn", AttentionChoice::kCudnn}};
}
inline config::EnumNames enum_names(InstructionSetChoice) {
  return {{"auto", InstructionSetChoice::kAuto},
          {"amx", InstructionSetChoice::kAmx},
          {"avx512", InstructionSetChoice::kAvx512},
          {"avx2", InstructionSetChoice::kAvx2},
          {"portable", InstructionSetChoice::kPortable}};
}
inline config::EnumNames enum_names(ElementType) {
  return {{"float32", ElementType::kFloat32},
          {"bfloat16", ElementType::kBFloat16},
          {"fp32", ElementType::kFloat32},
          {"f32", ElementType::kFloat32},
          {"bf16", ElementType::kBFloat16}};
}
inline config::CommonNames common_names(ElementType) {
  static constexpr std::string_view kHalf = "`bfloat16`, the one type of 16 bits here";
  static constexpr std::array names = {CommonName{"float16", kHalf}, CommonName{"fp16", kHalf},
                                       CommonName{"f16", kHalf}, CommonName{"half", kHalf},
                                       CommonName{"mixed", kHalf}};
  return names;
}
inline config::EnumNames enum_names(SlotType) {
  return {{"float32", SlotType::kFloat32}, {"bfloat16", SlotType::kBFloat16}, {"int8", SlotType::kInt8},
          {"fp32", SlotType::kFloat32},    {"f32", SlotType::kFloat32},       {"bf16", SlotType::kBFloat16}};
}
inline config::CommonNames common_names(SlotType) {
  static constexpr std::string_view kHalf = "`bfloat16`, the one type of 16 bits here",
                                    kBits = "`int8`, the one type of 8 bits here";
  static constexpr std::array names = {CommonName{"float16", kHalf}, CommonName{"fp16", kHalf},
                                       CommonName{"f16", kHalf},     CommonName{"half", kHalf},
                                       CommonName{"uint8", kBits},   CommonName{"8bit", kBits},
                                       CommonName{"fp8", kBits},     CommonName{"float8", kBits}};
  return names;
}
inline config::EnumNames enum_names(MemoryPlace) {
  return {{"device", MemoryPlace::kDevice}, {"host", MemoryPlace::kHost}};
}
inline config::EnumNames enum_names(PipelineSchedule) {
  return {{"1f1b", PipelineSchedule::k1F1B}, {"gpipe", PipelineSchedule::kGPipe}};
}
inline config::EnumNames enum_names(MatmulPrecision) {
  return {{"full", MatmulPrecision::kFull},
          {"tf32", MatmulPrecision::kTf32},
          {"bfloat16", MatmulPrecision::kBFloat16}};
}
inline config::EnumNames enum_names(InferPrecision) {
  return {{"same", InferPrecision::kSame},
          {"bfloat16", InferPrecision::kBFloat16},
          {"bf16", InferPrecision::kBFloat16},
          {"int8", InferPrecision::kInt8}};
}
inline config::CommonNames common_names(InferPrecision) { return common_names(SlotType{}); }
inline config::EnumNames enum_names(RecomputeWord) {
  return {{"none", RecomputeWord::kNone}, {"block", RecomputeWord::kBlock}, {"auto", RecomputeWord::kAuto}};
}
inline config::EnumNames enum_names(OnDivergence) {
  return {{"stop", OnDivergence::kStop}, {"skip", OnDivergence::kSkip}, {"restore", OnDivergence::kRestore}};
}
inline config::EnumNames enum_names(OnDamage) {
  return {{"auto", OnDamage::kAuto}, {"fail", OnDamage::kFail}, {"previous", OnDamage::kPrevious}};
}
inline config::EnumNames enum_names(SameWord) { return {{"same", SameWord::kSame}}; }
inline config::EnumNames enum_names(BenchFormat) {
  return {{"text", BenchFormat::kText}, {"json", BenchFormat::kJson}};
}
inline config::EnumNames enum_names(ExplainFormat) {
  return {{"text", ExplainFormat::kText}, {"json", ExplainFormat::kJson}, {"html", ExplainFormat::kHtml}};
}

/// `path` is the key `section` or one in it.
bool is_below(std::string_view path, std::string_view section);
/// run.allow_change names the key `path` or a section above it.
bool is_allowed_change(const Config& config, std::string_view path);

/// Every key of a configuration, those of the models included, for hints.
const std::vector<config::KnownKey>& configuration_keys();

/// Reads files and `key=value` arguments, checks every key and what must fit together, and completes
/// run.model_dir. Everything that is wrong goes to `diagnostics`.
Config load_config(const std::vector<std::string>& files, const std::vector<std::string>& arguments,
                   Diagnostics& diagnostics);

/// Reads what resolved_yaml has made, `text`, for a comparison or a conversion: where and by how many processes it was run is
/// left out. `name`: of the text, in messages; `arguments` replace keys.
Config load_resolved(const std::string& text, const std::string& name, Diagnostics& diagnostics,
                     std::vector<std::string> arguments = {});

/// How many processes share the mesh, and which of them this is.
Hosting hosting_of(const Config& config);
/// The mesh and the three sets of layout rules of the configuration, with `auto` sizes resolved. What is still to be
/// found (searches_layout) is left out: the positions then form a mesh of one dimension, `all`.
Layouts make_layouts(const Config& config);
/// The same on this mesh.
Layouts make_layouts(const Config& config, const Mesh& mesh);

/// What section `distill` or `preference` says of the teacher, its checkpoint included.
struct TeacherSection {
  std::string name;
  TeacherOptions options;
};
/// Returns nothing where neither is there.
std::optional<TeacherSection> teacher_section(const Config& config);
/// What a rule of section `layout` places on the stages of a pipeline: the blocks of a model.
inline constexpr std::string_view kLayers = "layers";
/// The pipeline that the configuration asks for on this mesh. Throws Error (kConfig) if its mesh dimension is none.
std::optional<Pipeline> pipeline_of(const Config& config, const Mesh& mesh);
/// True if the mesh or rules of a layout are still to be found.
bool searches_layout(const Config& config);
/// Tokens of a row of the longest feature; `data.sequence_length` is given.
int64_t longest_row(const Config& config);
/// Examples in a training batch over all positions, and in a batch of evaluation.
int64_t train_batch_size(const Config& config, const Layouts& layouts);
int64_t evaluate_batch_size(const Config& config, const Layouts& layouts);
/// The seed of shuffling and splitting: data.seed, or run.seed where that is not set.
uint64_t data_seed(const Config& config);
/// Worker threads: run.threads, or the cores that this process may use.
int thread_count(const Config& config);
/// True for modes that build the training step.
bool has_training_step(RunMode mode);
Precision precision_of(const Config& config);
/// The type of optimizer slots in memory and in checkpoints: kFloat32, kBFloat16, or kInt8 for coded ones
/// (trainer/optimizer/slot_blocks.h).
DType slot_type_of(const Config& config);
/// True if optimizer slots lie in the host's memory: offload.slots on GPUs. Parameter servers compute on the processor.
bool slots_on_host(const Config& config);
/// The bytes from which on results wait for the backward pass in the host's memory: offload.activations on GPUs.
std::optional<int64_t> offloaded_bytes(const Config& config);

/// The configuration with sizes resolved and paths absolute.
Config resolved(const Config& config);
/// First line of a config.yaml that stands for the directory in which it lies: its run.model_dir.
inline constexpr std::string_view kResolvedHeader = "# Resolved configuration of this run.";
/// The resolved configuration as YAML, without run.model_dir.
std::string resolved_yaml(const Config& config);

}  // namespace mtf
