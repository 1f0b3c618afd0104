// The keys of the configuration: names, defaults (in config.h), meanings, and what may change when a run is
// continued.
#include "trainer/config/config.h"

namespace mtf {

using config::at_least;
using config::fixed_on_resume;
using config::fixed_type_on_resume;
using config::free_on_resume;
using config::non_negative;
using config::positive;
using config::reported_on_resume;
using config::required;

namespace {

constexpr config::Bounds kEmaDecay{0.0, 0.9999999, true};
constexpr config::Bounds kThreads{0.0, 4096.0, true};  // more than cores of any machine

}  // namespace

void describe(config::Visitor& visit, RunOptions& options) {
  visit("mode", options.mode, "what to do", free_on_resume);
  visit("model_dir", options.model_dir,
        "directory of the run; by default runs/NAME, NAME the first file without .yaml", free_on_resume);
  visit("seed", options.seed, "of initial values, dropout and the order of examples", non_negative,
        fixed_on_resume);
  visit("on_existing", options.on_existing, "when model_dir holds a run already", free_on_resume);
  visit("allow_change", options.allow_change,
        "keys that may differ from those of the run that is continued; `data.vocabulary` also from that of "
        "checkpoint.init",
        free_on_resume);
  visit("threads", options.threads,
        "worker threads; auto: the cores that the affinity mask and the processor quotas of control groups "
        "(part of a "
        "core counts as one) let this process use, shared out among the processes of the run on this machine",
        kThreads, free_on_resume);
  visit("check_replicas", options.check_replicas,
        "every position computes all it holds, and copies are compared bit for bit", free_on_resume);
  visit("instruction_set", options.instruction_set,
        "instruction set of the processor's kernels, on which the last bits of results depend: avx2 computes "
        "the "
        "same bits on every machine that has AVX2, portable on every x86-64; auto: the best one of the "
        "machine, "
        "amx where products are in bfloat16",
        free_on_resume);
  visit("tune", options.tune,
        "training on GPUs: the algorithm of each matrix product is chosen by measuring when the run begins, "
        "and "
        "recorded in model_dir/algorithms.json; false: the library's first choice",
        free_on_resume);
  visit(
      "attention", options.attention,
      "on GPUs: cudnn computes attention in bfloat16 without bias, dropout and other masks than causal ones "
      "and segments of packed rows, and the kernels of mtf-train the rest; own: these compute all; auto: "
      "cudnn where it is installed and faster, which is without segments, if its gradient takes no more than "
      "4 GiB",
      free_on_resume);
  visit(
      "memory_limit", options.memory_limit,
      "memory that this process may use, such as 8GiB; auto: what the machine or its control group has free",
      free_on_resume);
  visit(
      "device_memory_limit", options.device_memory_limit,
      "memory of its GPU that this process may use; auto: what is free there, shared out among the processes "
      "on the GPU. In run.mode=explain also the memory of a GPU that is not here",
      free_on_resume);
  visit(
      "peak_flops", options.peak_flops,
      "floating-point operations that the device of one process can do in a second, such as 989e12, for the "
      "utilization (mfu) in logs; auto: known of A100, H100 and H200 at the run's precision",
      positive, free_on_resume);
}

void describe(config::Visitor& visit, PrecisionOptions& options) {
  visit("activation", options.activation,
        "element type of what layers compute; losses, softmax, statistics, sums and the optimizer stay "
        "float32");
  visit("slice", options.slice,
        "element type of weights in memory; bfloat16 loses updates that are small against the weight");
  visit("master", options.master,
        "element type of weights in checkpoints; bfloat16 with slice float32: a run that goes on starts from "
        "rounded weights");
  visit("slots", options.slots,
        "element type of optimizer slots; bfloat16 halves their memory, and int8, codes of 8 bits with a "
        "scale for "
        "each row, takes a quarter: they are rounded at random when they are written, so that running means "
        "follow "
        "small changes on average");
  visit(
      "matmul", options.matmul,
      "precision of contractions of float32; tf32: GPUs round the factors to 10 bits of mantissa, which is "
      "several times as fast; bfloat16: the factors are rounded to bfloat16, which is faster on GPUs and on "
      "processors with AMX or AVX512-BF16. Sums stay float32");
  visit(
      "infer", options.infer,
      "weights of products where a model is only applied (evaluation, decoding, scoring, prediction); same: "
      "as in training; bfloat16: both factors are rounded to it; int8: 8 bits with a scale for each output, "
      "and activations with one for each token, on processors",
      free_on_resume);
}

void describe(config::Visitor& visit, RelativeBatchSize& options) {
  visit("tokens", options.tokens, "rows of the batch, times the longest `data.sequence_length`", positive);
  visit("per_replica", options.per_replica, "examples for each part into which the layout cuts the batch",
        positive);
  visit("tokens_per_replica", options.tokens_per_replica,
        "tokens for each part into which the layout cuts the batch", positive);
  visit.exactly_one_of({"tokens", "per_replica", "tokens_per_replica"});
}

void describe(config::Visitor& visit, TrainOptions& options) {
  visit("steps", options.steps, "the run ends after so many steps", positive, free_on_resume);
  visit("epochs", options.epochs, "the run ends after so many passes over data.train", positive,
        free_on_resume);
  visit("time", options.time, "the run ends after so much time", free_on_resume);
  visit("patience", options.patience, "the run ends when a metric no longer improves", free_on_resume);
  visit("batch_size", options.batch_size,
        "examples in a step, over all positions; or {tokens: N}, {per_replica: N}, {tokens_per_replica: N}",
        positive, fixed_on_resume);
  visit(
      "microbatches", options.microbatches,
      "parts of a batch that are worked on one after the other; auto: the fewest with which the run fits "
      "into the memory (`run.memory_limit`), with stages of a pipeline those that are predicted to be "
      "fastest, "
      "and 1 where a layer uses statistics of the batch (batch_norm); a run that continues keeps its number",
      positive);
  visit("loss_chunks", options.loss_chunks,
        "models of tokens compute logits, loss and their gradient for so many parts of each row one after "
        "the other, so "
        "that only the logits of one part take memory; a divisor of the length of rows. Evaluation does "
        "likewise",
        positive, free_on_resume);
  visit("loss_weights", options.loss_weights,
        "factors of the losses that layers add to the model's, by name, such as {activity: 0.1}; 1 where "
        "none is given",
        config::non_negative);
  visit("recompute", options.recompute,
        "layers whose forward pass is repeated in the backward pass instead of being kept: none; block (each "
        "`block` and `residual`); a list of kinds or names, or of patterns with a `/` that occur in paths, "
        "such as decoder/block_00[0-3]; {block: 4}: the first 4 of a kind or name; auto: those with which "
        "the run fits into the memory in the least predicted time, which a run that continues keeps",
        config::non_negative, free_on_resume);
  visit("trainable", options.trainable,
        "patterns of variables; the others keep their values, but running statistics move with a weight of "
        "their layer");
  visit("ema_decay", options.ema_decay,
        "running means of the weights, such as 0.999, that evaluation, decoding and scoring use instead: "
        "mean += (1 - d) * (weight - mean) after each step, from the initial weights on, d = min(ema_decay, "
        "(1 + t) / (10 + t)) with t steps before",
        kEmaDecay);
  visit("noise_scale_decay", options.noise_scale_decay,
        "such as 0.99: metrics.jsonl gets report/gradient_noise_scale, the batch size in examples beyond "
        "which larger "
        "batches save few steps (McCandlish et al. 2018), from the norms of the microbatches' gradients; the "
        "decay of "
        "the running means that it is made of",
        kEmaDecay, free_on_resume);
  visit("log_every", options.log_every, "interval between lines of metrics.jsonl", free_on_resume);
  visit("on_divergence", options.on_divergence, "when loss or gradients are not finite", free_on_resume);
  visit("strategy", options.strategy, "how processes share the work", free_on_resume);
  visit("gather_ahead", options.gather_ahead, "layers by which gathers of parameters run ahead", non_negative,
        free_on_resume);
  visit("keep_gathered", options.keep_gathered, "gathered parameters are kept for the backward pass",
        free_on_resume);
}

void describe(config::Visitor& visit, AnswerOptions& options) {
  visit("n_best", options.n_best, "beginnings and ends of answers that are tried in each window of a text",
        positive);
  visit("max_length", options.max_length, "tokens of the longest answer", positive);
  visit(
      "null_threshold", options.null_threshold,
      "where some questions have no answer: none is given if its logits are by more than this above those of "
      "the best part of the text");
}

void describe(config::Visitor& visit, EvaluateOptions& options) {
  visit("every", options.every, "interval between evaluations; 0: only at the end", free_on_resume);
  visit("datasets", options.datasets, "sources by name, each with `metrics` and `limit`", free_on_resume);
  visit("batch_size", options.batch_size, "examples at a time; same: as in training", positive,
        free_on_resume);
  visit(
      "infer", options.infer,
      "how texts are written for bleu, chrf, chrf++ and ter; what is not given is as in `infer`, but for the "
      "method, greedy",
      free_on_resume);
  visit("answers", options.answers,
        "how answers to questions are chosen from the logits of `model.type: spans`", free_on_resume);
  visit("examples_in_log", options.examples_in_log,
        "so many texts that the model has predicted the log shows after each evaluation", non_negative,
        free_on_resume);
  visit("misclassified", options.misclassified,
        "so many images that a classifier is wrong about, those with the largest probability first, each "
        "evaluation of a data set puts into `samples/misclassified-DATASET.jsonl`",
        non_negative, free_on_resume);
  visit("output", options.output,
        "directory to which run.mode=evaluate writes the files of classes and misclassified images that an "
        "evaluation within a run writes into the run's; with several checkpoints {step} in its name; none: "
        "no files",
        free_on_resume);
  visit("follow", options.follow,
        "run.mode=evaluate goes on with each checkpoint that a running job writes into run.model_dir, until "
        "that of "
        "train.steps, a signal, or follow_timeout",
        free_on_resume);
  visit(
      "follow_timeout", options.follow_timeout,
      "run.mode=evaluate with `follow` ends when there was no new checkpoint for so long; none: it waits on",
      free_on_resume);
  visit("checkpoint", options.checkpoint,
        "which run.mode=evaluate takes: latest, best, a step, a path, all, a list of steps and paths, or "
        "{average: N}",
        free_on_resume);
}

void describe(config::Visitor& visit, PatienceOptions& options) {
  visit("metric", options.metric, "DATASET/METRIC of evaluate.datasets", required);
  visit("evaluations", options.evaluations, "so many in a row without a better value end the run", positive);
}

void describe(config::Visitor& visit, KeepBestOptions& options) {
  visit("metric", options.metric, "DATASET/METRIC of evaluate.datasets; its direction is the metric's own",
        required);
  visit("count", options.count, "how many of the best are kept", positive);
}

void describe(config::Visitor& visit, InitOptions& options) {
  visit("path", options.path,
        "a run's directory, a checkpoint or a .safetensors file: weights for a fresh run");
  visit("raw", options.raw,
        "weights as they were trained; false: with train.ema_decay there, their running means");
  visit("include", options.include, "patterns of variables that are taken");
  visit("exclude", options.exclude, "patterns of variables that keep their initial values");
  visit("rename", options.rename,
        "pattern in a name of the checkpoint: what stands there in the model's name");
}

void describe(config::Visitor& visit, CheckpointOptions& options) {
  visit("every", options.every, "interval between checkpoints; 0: only at the end");
  visit("keep_last", options.keep_last, "newest checkpoints that are kept", positive);
  visit("keep_every", options.keep_every, "interval of checkpoints that are kept for good");
  visit("keep_best", options.keep_best, "checkpoints with the best value of a metric are kept too");
  visit("on_damage", options.on_damage,
        "when the newest checkpoint of a run that goes on is damaged: fail; previous (it is set aside as "
        "damaged-step-N, and the run goes on from the one before it); auto: previous where a launcher has "
        "started the run again (mtf-launch --restarts, torchrun, Slurm), else fail");
  visit("init", options.init, "weights that a fresh run starts from");
}

void describe(config::Visitor& visit, ExplainOptions& options) {
  visit(
      "format", options.format,
      "form of the answer on standard output: text for people, json for programs, html a page with drawings "
      "that stands alone");
  visit("tensors", options.tensors,
        "with the program: each tensor's shape and layout, each collective's bytes");
  visit("detail", options.detail, "text: with counters of each kind of operation; json has them in any case");
}

void describe(config::Visitor& visit, CalibrateOptions& options) {
  visit("output", options.output, "file for what was measured, which key `hardware` reads");
  visit("rounds", options.rounds, "how often each kernel is measured; the shortest time counts", positive);
}

void describe(config::Visitor& visit, BenchOptions& options) {
  visit("steps", options.steps, "steps that are measured, and then measured again with a profile", positive);
  visit("format", options.format, "text for people, json for programs");
}

void describe(config::Visitor& visit, LayoutSearchOptions& options) {
  visit("time_limit", options.time_limit, "after it, or Ctrl-C, the best layout so far is taken");
  visit("mesh_dimensions", options.mesh_dimensions, "of `mesh: auto`, at most",
        config::Bounds{0.0, 6.0, true});
  visit("memory_limit", options.memory_limit,
        "memory that a position may use, such as 80GB; auto: what `run.device_memory_limit` or "
        "`run.memory_limit` "
        "leaves each position of a process, in training what is free",
        free_on_resume);
  visit("runners_up", options.runners_up, "layouts that run.mode=explain shows beside the best one",
        non_negative);
}

void describe(config::Visitor& visit, PipelineOptions& options) {
  visit("schedule", options.schedule,
        "1f1b: a backward pass as soon as there is one, so that activations of few microbatches are kept; "
        "gpipe: all "
        "forward passes first");
  visit("rounds", options.rounds,
        "so many chunks of blocks on each stage, in turn: stages wait less and send more (interleaved)",
        positive);
}

void describe(config::Visitor& visit, OffloadOptions& options) {
  visit("slots", options.slots,
        "where optimizer slots lie: device; host: in page-locked memory of the machine, which updates on the "
        "GPU read and write over its link. The processor has one memory");
  visit("activations", options.activations,
        "where results of the forward pass lie until the backward pass reads them: device; host: in "
        "page-locked memory of the machine, to which and from which they are copied while the GPU computes");
  visit("least_bytes", options.least_bytes,
        "activations: results of at least so many bytes on one position are copied");
}

void describe(config::Visitor& visit, TraceOptions& options) {
  visit("input", options.input, "safetensors file with input/FEATURE and, if wanted, weight/VARIABLE");
  visit("output", options.output, "safetensors file for the results");
  visit("steps", options.steps, "training steps on this one batch; 0: forward and backward only",
        non_negative);
  visit("tensors", options.tensors, "patterns of further tensors to write");
}

void describe(config::Visitor& visit, ReportOptions& options) {
  visit("output", options.output,
        "file of the page; by default report.html in the directory of the run, of several the first");
  visit("samples", options.samples,
        "files with texts that the run has written (infer.output), beside the samples in its directory");
}

void describe(config::Visitor& visit, ProfileOptions& options) {
  visit("steps", options.steps,
        "so many steps of training are written as a timeline to profile.json in run.model_dir (of several "
        "processes each its own profile.rank-N.json), for ui.perfetto.dev; 0: none",
        non_negative);
  visit("skip", options.skip, "steps before them, from the start of the process on", non_negative);
}

void describe(config::Visitor& visit, Config& config) {
  visit("run", config.run, "what to do, and where");
  visit(
      "mesh", config.mesh,
      "names and sizes of the array of processors, such as {rows: 2, cols: 4}; auto: found with the layout, "
      "for the positions of `devices` and the processes, or {auto: 8}",
      free_on_resume);
  visit("devices", config.devices,
        "processors, in mesh order: cpu, cpu*N for N positions; cuda for as many GPUs as the mesh needs, "
        "[cuda:0, "
        "cuda:1], cuda:0*N for N positions on one",
        free_on_resume);
  visit("layout", config.layout,
        "tensor dimension: mesh dimension that splits it; auto, or {batch: rows, auto: true}: the "
        "(other) rules with which a training step is predicted to take the shortest time; {layers: stages}: "
        "the blocks of the model lie on the stages of a pipeline, which auto finds as well",
        free_on_resume);
  visit("parameter_layout", config.parameter_layout,
        "variables at rest: layout plus these rules (FSDP), or auto", free_on_resume);
  visit("optimizer_layout", config.optimizer_layout,
        "optimizer slots: parameter_layout plus these rules (ZeRO-1), or auto", free_on_resume);
  visit("layout_search", config.layout_search, "the search for what is `auto` in `mesh` and the layouts",
        free_on_resume);
  visit("precision", config.precision, "element types", reported_on_resume);
  visit("data", config.data, "training examples");
  visit("model", config.model,
        "the network: `--help-config model` has its types and their keys, `--list-layers` the layers",
        fixed_on_resume);
  visit("distill", config.distill,
        "training with a teacher: a trained model whose predictions are targets beside those of the data",
        reported_on_resume);
  visit("preference", config.preference,
        "direct preference optimisation (DPO): a language model learns to prefer the chosen one of two "
        "answers, "
        "compared with a frozen reference model; data.train is of type preferences",
        reported_on_resume);
  visit("optimizer", config.optimizer, "how weights follow gradients", fixed_type_on_resume);
  visit("learning_rate", config.learning_rate,
        "a number, a schedule, or a list: their product; null: adafactor's own", non_negative);
  visit("train", config.train, "length of the run, batches, reports");
  visit("evaluate", config.evaluate, "data sets that are evaluated during and after training");
  visit("checkpoint", config.checkpoint, "saving, keeping and restoring", free_on_resume);
  visit("infer", config.infer, "what a model writes or predicts: run.mode=infer", free_on_resume);
  visit("score", config.score, "probabilities of given texts: run.mode=score", free_on_resume);
  visit("cluster", config.cluster, "several processes", free_on_resume);
  visit("hardware", config.hardware,
        "run.mode=explain: the machine that is planned for, and need not be there; run.mode=bench: the "
        "machine as it was "
        "measured, to compare with. A file in "
        "configs/hardware by its name, "
        "the path of a file (run.mode=calibrate writes one), or {device, links}",
        free_on_resume);
  visit("explain", config.explain, "options of run.mode=explain", free_on_resume);
  visit("simulate", config.simulate,
        "run.mode=explain with `hardware`: what disturbs a long run, for its goodput and the best interval "
        "between "
        "checkpoints",
        free_on_resume);
  visit("calibrate", config.calibrate, "options of run.mode=calibrate, which measures this machine",
        free_on_resume);
  visit("trace", config.trace, "options of run.mode=trace", free_on_resume);
  visit("report", config.report, "a page about runs: mtf-train RUN_DIR... run.mode=report", free_on_resume);
  visit("profile", config.profile, "where the time of training goes", free_on_resume);
  visit("placement", config.placement,
        "a pipeline by hand, in place of `layout: {layers: stages}`: mesh dimension: stage: names of layers, "
        "such as "
        "{stages: {0: [embedding, block_0..3], 1: [block_4..7]}}",
        free_on_resume);
  visit("pipeline", config.pipeline, "how the stages of a pipeline work on microbatches", free_on_resume);
  visit("offload", config.offload, "what a GPU keeps in the memory of its machine", free_on_resume);
  visit("bench", config.bench, "options of run.mode=bench, which says what a training step costs",
        free_on_resume);
  visit(
      "shared_layout", config.shared_layout,
      "true in a file of layouts that is made for several models: its rules may name dimensions that a model "
      "lacks, which otherwise is a mistake; or a list of those dimensions. It concerns the rules of its own "
      "file only",
      free_on_resume);
}

}  // namespace mtf
