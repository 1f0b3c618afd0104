#include "trainer/programs/run.h"

#include <fmt/format.h>
#include <malloc.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iterator>

#include "engine/base/exception.h"
#include "engine/base/nearest.h"
#include "engine/base/print_message.h"
#include "engine/base/process.h"
#include "engine/base/signals.h"
#include "engine/comm/process/process_group.h"
#include "layers/registry.h"
#include "models/model.h"
#include "trainer/bench/bench.h"
#include "trainer/calibrate/calibrate.h"
#include "trainer/config/devices.h"
#include "trainer/decode/infer.h"
#include "trainer/decode/score.h"
#include "trainer/evaluation/evaluate.h"
#include "trainer/explain/explain.h"
#include "trainer/parameter_server/server.h"
#include "trainer/parameter_server/worker.h"
#include "trainer/plan/choose_layout.h"
#include "trainer/predict/predict.h"
#include "trainer/programs/launch/launcher.h"
#include "trainer/programs/report/report.h"
#include "trainer/session/model_dir.h"
#include "trainer/session/profiler.h"
#include "trainer/session/session.h"
#include "trainer/show/show.h"
#include "trainer/simulate/simulate.h"
#include "trainer/trace/trace.h"
#include "trainer/train/train.h"
#include "trainer/train/train_plan.h"

namespace mtf {
namespace {

constexpr std::string_view kVersion = MTF_VERSION;
constexpr std::string_view kProgram = "mtf-train";
/// The time for which a process with a wrong configuration looks for other processes, to report the error to
/// them.
constexpr Milliseconds kTell(200);

constexpr std::string_view kHelp =
    R"(mtf-train: trains neural networks described in YAML on any arrangement of processors described in YAML;
the arrangement never changes the result.

usage: mtf-train FILE.yaml... [key=value...]
       mtf-train --help | --help-config [SECTION] | --list-layers [LAYER] | --version

Files are merged from left to right, then the arguments; the later one wins.
  mtf-train configs/models/mnist.yaml                                      one position
  mtf-train configs/models/mnist.yaml configs/layouts/data_parallel.yaml   the same run on eight

run.mode    train     trains, and evaluates in between (default); goes on where run.model_dir holds a run
            evaluate  measures evaluate.datasets with a checkpoint (evaluate.checkpoint: latest, best, STEP, PATH)
            infer     writes a text, class, number, tags or answer for each line of infer.input to infer.output
            score     log-probabilities of the lines of score.targets, given those of score.inputs
            explain   prints shapes, memory, work and communication of a training step, and its time on `hardware`
            trace     runs one batch from a file, writes loss, gradients and weights to a file
            report    writes report.html, a page with curves, differences and samples of runs, finished or running
            show      writes show.png, images of the first batch as the network is given them, with their labels
            bench     measures some training steps: what each operation and each layer of them costs
            calibrate measures this machine for `hardware` of run.mode=explain, and needs no file

A run writes into run.model_dir (default runs/NAME of the first file): config.yaml (the configuration with its
defaults but those of the model), metrics.jsonl (a line per logged step), evaluate.jsonl (a line per evaluation),
events.out.tfevents.* (for TensorBoard), checkpoints/step-N/ (safetensors and manifest.json), log.txt.

  mtf-train runs/mnist/config.yaml                         goes on with a run that was stopped or killed
  mtf-train runs/mnist/config.yaml configs/layouts/fsdp.yaml        the same on another mesh
  mtf-train runs/mnist/config.yaml run.model_dir=runs/again         repeats it from step 0
  mtf-train runs/ende/config.yaml run.mode=infer < in.en > out.de   translates, by beam search
  mtf-train runs/mnist runs/again run.mode=report          draws both into runs/mnist/report.html

A layout says which tensor dimension is split over which mesh dimension:
  mesh: {rows: 2, cols: 4}
  layout: {batch: rows, hidden: cols}          in a file for several models beside `shared_layout: true`

Processes, on one machine or on several, share its positions evenly; the result stays the same to the last bit:
  mtf-launch -n 4 -- mtf-train FILE.yaml...                torchrun --no-python, mpirun and srun do it, too;
  mtf-train FILE.yaml... cluster.address=a:29500 cluster.processes=4 cluster.process=3        or by hand

  --help-config [SECTION]   every key with type, default and meaning: run, mesh, layout, data, model, optimizer, ...
  --list-devices            the processor and the GPUs that `devices` can name
  --list-layers [LAYER]     every layer that a model can use, or one, with its formula and options

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 loss or gradients not finite, 75 another process of
the run was lost, 129, 130 and 143 stopped by SIGHUP, SIGINT and SIGTERM after saving.
)";

/// Returns the help of a section. That of the section `model` is the help of its types; layers have one of their own.
std::string config_help(const std::string& section) {
  for (const std::string_view lists : {".layers.", ".layer_defaults.", ".block."}) {
    const size_t at = section.starts_with("model.") ? section.find(lists) : std::string::npos;
    if (at != std::string::npos) return list_layers(section.substr(at + lists.size()));
  }
  if (section == "model") return config::help<ModelChoice>();
  if (section.starts_with("model.")) return config::help<ModelChoice>(section.substr(6));
  return config::help<Config>(section);
}

/// Connects to the other processes of the run; run.mode=explain needs none.
std::shared_ptr<ProcessGroup> join_processes(const Config& config, Profile* profile,
                                             Diagnostics& diagnostics) {
  const bool alone = !config.launch.several() || is_parameter_server(config) || is_asynchronous(config);
  if (config.run.mode == RunMode::kExplain || alone) return one_process();
  Access access;
  try {
    access = cluster_access(config);
  } catch (const Error& error) {
    diagnostics.add(error);
    return one_process();  // without its secret the others would not accept this process
  }
  if (diagnostics.has_errors())
    return absent_process(config.launch, access, build_of_program(kVersion), kTell);
  ProcessGroupOptions options;
  options.access = access;
  options.connect_timeout = in_milliseconds(config.cluster.connect_timeout);
  options.collective_timeout = in_milliseconds(config.cluster.collective_timeout);
  // What GPUs copy lies in memory of their driver, which other processes may not read.
  options.local = config.cluster.within_machine == WithinMachine::kMemory && !names_gpus(config);
  options.flight_record = in_model_dir(config, flight_record_name(config.launch.rank));
  options.build = build_of_program(kVersion);
  options.prepare_thread = [] { make_cpu_backend()->prepare_thread(); };
  options.log = [](const std::string& line) { print_message("{}\n", line); };
  options.profile = profile;
  const std::string warning = insecure_warning(access, config.launch.host);
  if (!warning.empty() && config.launch.rank == 0) options.log(warning);
  return connect_processes(config.launch, options);
}

/// With parameter servers, some processes do not train by themselves: the servers, and asynchronous workers but
/// the chief.
int train_in_role(Session& session, Diagnostics& diagnostics) {
  const Config& config = session.config;
  if (is_parameter_server(config)) return serve_parameters(session, diagnostics);
  if (is_asynchronous(config) && config.launch.rank != 0) return work_asynchronously(session, diagnostics);
  return train(session, diagnostics);
}

int run_mode(Config config, const std::shared_ptr<ProcessGroup>& processes,
             const std::shared_ptr<Profile>& profile, Diagnostics& diagnostics) {
  Session session = open_session(std::move(config), processes, diagnostics, check_before_texts);
  session.profile = profile;
  const std::optional<LayoutPlan> plan = choose_layout(session, diagnostics);
  if (plan && session.config.run.mode == RunMode::kExplain && hosting_of(session.config).process == 0) {
    const ExplainOptions& options = session.config.explain;
    const std::string text = to_string(*plan, session.config.layout_search.runners_up);
    if (options.format == ExplainFormat::kText) {
      fmt::print("{}", text);
    } else {
      print_message("{}", text);
    }
  }
  if (const int signal = plan && plan->is_stopped && session.config.run.mode != RunMode::kExplain
                             ? StopSignals::received()
                             : 0)
    return 128 + signal;
  switch (session.config.run.mode) {
    case RunMode::kTrain:
      return train_in_role(session, diagnostics);
    case RunMode::kExplain:
      explain(session, diagnostics, {simulated_part});
      break;
    case RunMode::kTrace:
      trace(session, diagnostics);
      break;
    case RunMode::kBench:
      bench(session, diagnostics);
      break;
    case RunMode::kEvaluate:
      evaluate(session, diagnostics);
      break;
    case RunMode::kInfer:
      if (is_predictor(session)) {
        predict(session, diagnostics);
      } else {
        infer(session, diagnostics);
      }
      break;
    case RunMode::kScore:
      score(session, diagnostics);
      break;
    case RunMode::kShow:
      show(session, diagnostics);
      break;
    case RunMode::kReport:
    case RunMode::kCalibrate:
      break;  // need no session
  }
  return 0;
}

/// Runs this program with the same command line as one process per GPU.
int run_on_gpus(const CommandLine& command_line, int processes) {
  LaunchCommand command{
      .processes = processes, .jobs = {}, .command = {std::filesystem::read_symlink("/proc/self/exe")}};
  std::ranges::copy(command_line.files, std::back_inserter(command.command));
  std::ranges::copy(command_line.arguments, std::back_inserter(command.command));
  return launch(command);
}

int run_files(const CommandLine& command_line) {
  if (const auto request = report_request(command_line.files, command_line.arguments)) {
    write_report(request->runs, request->options);
    return 0;
  }
  Diagnostics diagnostics;
  Config config = load_config(command_line.files, command_line.arguments, diagnostics);
  if (config.run.mode == RunMode::kReport) {
    diagnostics.throw_if_errors();
    if (config.launch.rank == 0) write_report({config.run.model_dir.text}, config.report);
    return 0;
  }
  if (!diagnostics.has_errors()) {
    const int processes = resolve_devices(config).processes;
    const bool explains = config.run.mode == RunMode::kExplain;
    if (processes > 1 && !explains) return run_on_gpus(command_line, processes);
    if (processes > 1)
      config.launch.size = config.launch.local_size = processes;  // of which it explains the first
  }
  const std::shared_ptr<Profile> profile = make_profile(config);
  const std::shared_ptr<ProcessGroup> processes = join_processes(config, profile.get(), diagnostics);
  try {
    if (config.run.mode == RunMode::kCalibrate) {
      diagnostics.throw_if_errors();
      calibrate(config, *processes);
      processes->leave();
      return 0;
    }
    const int code = run_mode(std::move(config), processes, profile, diagnostics);
    processes->leave();
    return code;
  } catch (const std::exception& error) {
    throw processes->fail(as_error(error, kProgram));
  }
}

}  // namespace

/// True if the word is a configuration key, such as `train.steps`.
static bool is_key(const std::string& word) {
  return word.find('.') != std::string::npos &&
         std::ranges::any_of(configuration_keys(),
                             [&](const config::KnownKey& key) { return key.path == word; });
}

/// True for key=value. A path may have a `=`, too, behind something else than a key.
static bool is_argument(const std::string& word) {
  const size_t equals = word.find('=');
  std::error_code ignored;
  if (equals == std::string::npos || !std::filesystem::exists(word, ignored))
    return equals != std::string::npos;
  const std::string section = word.substr(0, std::min(equals, word.find('.')));
  return std::ranges::any_of(configuration_keys(), [&](const config::KnownKey& key) {
    return key.path == section || key.path.starts_with(section + ".");
  });
}

/// Refuses words beside an option that prints a list: it would not use them.
static void check_list_alone(const CommandLine& command_line, const std::vector<std::string>& words) {
  const bool has_argument = !command_line.layer.empty() || !command_line.section.empty();
  const bool lists = command_line.list_layers || command_line.list_devices || command_line.help_config;
  const size_t used = has_argument ? 2 : 1;
  if (!lists || command_line.help || words.size() == used) return;
  const auto option = std::ranges::find_if(
      words, [](const std::string& word) { return word.starts_with("--list-") || word == "--help-config"; });
  const std::string whole = fmt::format("{}", fmt::join(option, option + static_cast<ptrdiff_t>(used), " "));
  const std::string& other = option == words.begin() ? words[used] : words.front();
  throw Error(ErrorKind::kUsage, fmt::format("`{}` stands beside `{}`", other, whole),
              fmt::format("`{} {}` alone", kProgram, whole));
}

/// Returns the words with `--help-config=run` as two.
static std::vector<std::string> with_arguments_apart(const std::vector<std::string>& words) {
  std::vector<std::string> result;
  for (const std::string& word : words) {
    const bool joined = word.starts_with("--help-config=") || word.starts_with("--list-layers=");
    const size_t equals = joined ? word.find('=') : word.size();
    result.push_back(word.substr(0, equals));
    if (joined) result.push_back(word.substr(equals + 1));
  }
  return result;
}

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  const std::vector<std::string> options = {"--help", "--help-config", "--list-devices", "--list-layers",
                                            "--version"};
  const std::vector<std::string> words = with_arguments_apart(arguments);
  CommandLine result;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--help" || word == "-h") {
      result.help = true;
    } else if (word == "--version") {
      result.version = true;
    } else if (word == "--list-devices") {
      result.list_devices = true;
    } else if (word == "--list-layers") {
      result.list_layers = true;
      if (i + 1 < words.size() && !words[i + 1].starts_with("-")) result.layer = words[++i];
    } else if (word == "--help-config") {
      result.help_config = true;
      if (i + 1 < words.size() && !words[i + 1].starts_with("-")) result.section = words[++i];
    } else if (word.empty()) {
      throw Error(ErrorKind::kUsage, fmt::format("word {} of the command line is empty", i + 1),
                  "a file or key=value; a variable of the shell may be empty");
    } else if (word.starts_with("-")) {
      const std::string key = word.substr(std::min(word.find_first_not_of('-'), word.size()));
      const size_t equals = word.find('=');
      const bool is_option = std::ranges::find(options, word.substr(0, equals)) != options.end();
      throw Error(ErrorKind::kUsage, fmt::format("unknown option `{}`", word),
                  is_option                     ? fmt::format("write `{}` alone", word.substr(0, equals))
                  : equals != std::string::npos ? fmt::format("keys have no dashes in front: `{}`", key)
                                                : did_you_mean(word, options));
    } else if (is_argument(word)) {
      result.arguments.push_back(word);
    } else if (!result.arguments.empty()) {
      throw Error(ErrorKind::kUsage, fmt::format("`{}` stands after `{}`", word, result.arguments.back()),
                  result.arguments.back() == "=" ? "write key=value without blanks"
                                                 : "files come first, then key=value");
    } else if (is_key(word) && !std::filesystem::exists(word) &&
               (i + 1 == words.size() || words[i + 1] != "=")) {
      throw Error(ErrorKind::kUsage, fmt::format("`{}` is a key, and no file of that name is here", word),
                  fmt::format("write `{}=VALUE`, without blanks", word));
    } else {
      result.files.push_back(word);
    }
  }
  check_list_alone(result, words);
  return result;
}

/// The one mode that runs nothing, so that it needs no file.
static bool calibrates(const CommandLine& command_line) {
  return std::ranges::find(command_line.arguments, "run.mode=calibrate") != command_line.arguments.end();
}

int run(const CommandLine& command_line) {
  if (command_line.help) {
    fmt::print("{}", kHelp);
  } else if (command_line.version) {
    fmt::print("mtf-train {}\n", kVersion);
  } else if (command_line.list_devices) {
    fmt::print("{}", list_devices());
  } else if (command_line.list_layers) {
    fmt::print("{}", list_layers(command_line.layer));
  } else if (command_line.help_config) {
    fmt::print("{}", config_help(command_line.section));
  } else if (command_line.files.empty() && !calibrates(command_line)) {
    throw Error(ErrorKind::kUsage, "no configuration file",
                "`mtf-train FILE.yaml...`; `mtf-train --help` explains");
  } else {
    return run_files(command_line);
  }
  return 0;
}

int run_main(const std::vector<std::string>& words) {
  prepare_process();
  // Large blocks are returned to the system when they are freed, so that a run holds only the memory of its
  // plan.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
  try {
    const int code = run(parse_command_line(words));
    check_standard_output();
    return code;
  } catch (const std::exception& error) {
    return report_failure(error, kProgram);
  }
}

}  // namespace mtf
