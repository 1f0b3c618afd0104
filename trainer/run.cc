#include "trainer/run.h"

#include <fmt/format.h>

#include <cstdio>
#include <exception>

#include "engine/core/nearest.h"
#include "layers/registry.h"
#include "models/model_options.h"
#include "trainer/explain.h"
#include "trainer/session.h"
#include "trainer/trace.h"
#include "trainer/train.h"

namespace mtf {
namespace {

constexpr std::string_view kVersion = "0.1.0";

constexpr std::string_view kHelp =
    R"(mtf-train: trains neural networks described in YAML on any arrangement of processors described in YAML;
the arrangement never changes the result.

usage: mtf-train FILE.yaml... [key=value...]
       mtf-train --help | --help-config [SECTION] | --list-layers | --version

Files are merged from left to right, then the arguments; the later one wins.

  mtf-train configs/models/mnist.yaml                                      one position
  mtf-train configs/models/mnist.yaml configs/layouts/data_parallel.yaml   the same run on eight
  mtf-train configs/models/mnist.yaml train.epochs=2 run.model_dir=runs/short
  mtf-train configs/models/mnist.yaml run.mode=explain                     what it would do, without doing it

run.mode    train     trains, and evaluates in between (default)
            explain   prints shapes, memory, work and communication of a training step
            trace     runs one batch from a file, writes loss, gradients and weights to a file

A run writes into run.model_dir (default runs/NAME of the first file): config.yaml (the configuration with all
defaults), metrics.jsonl (a line per logged step), evaluate.jsonl (a line per evaluation), log.txt.

A layout says which tensor dimension is split over which mesh dimension:
  mesh: {rows: 2, cols: 4}
  layout: {batch: rows, hidden: cols}

  --help-config [SECTION]   every key with type, default and meaning: run, mesh, layout, data, model, optimizer, ...
  --list-layers             every layer that a model can use, with its formula and options

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 loss or gradients not finite.
)";

/// Help of the section `model` is that of its types.
std::string config_help(const std::string& section) {
  if (section == "model") return config::help<ModelOptions>();
  if (section.starts_with("model.")) return config::help<ModelOptions>(section.substr(6));
  return config::help<Config>(section);
}

void run_mode(const CommandLine& command_line) {
  Diagnostics diagnostics;
  const Session session = open_session(command_line.files, command_line.arguments, diagnostics);
  switch (session.config.run.mode) {
    case RunMode::kTrain:
      return train(session, diagnostics);
    case RunMode::kExplain:
      return explain(session, diagnostics);
    case RunMode::kTrace:
      return trace(session, diagnostics);
    case RunMode::kEvaluate:
    case RunMode::kInfer:
    case RunMode::kScore:
      diagnostics.throw_if_errors();
  }
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& words) {
  CommandLine result;
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (word == "--help" || word == "-h") {
      result.help = true;
    } else if (word == "--version") {
      result.version = true;
    } else if (word == "--list-layers") {
      result.list_layers = true;
    } else if (word == "--help-config") {
      result.help_config = true;
      if (i + 1 < words.size() && !words[i + 1].starts_with("-")) result.section = words[++i];
    } else if (word.starts_with("-")) {
      throw Error(ErrorKind::kUsage, fmt::format("unknown option `{}`", word),
                  did_you_mean(word, {"--help", "--help-config", "--list-layers", "--version"}));
    } else if (word.find('=') != std::string::npos) {
      result.arguments.push_back(word);
    } else if (!result.arguments.empty()) {
      throw Error(ErrorKind::kUsage, fmt::format("`{}` stands after `{}`", word, result.arguments.back()),
                  "files come first, then key=value");
    } else {
      result.files.push_back(word);
    }
  }
  return result;
}

void run(const CommandLine& command_line) {
  if (command_line.help) {
    fmt::print("{}", kHelp);
  } else if (command_line.version) {
    fmt::print("mtf-train {}\n", kVersion);
  } else if (command_line.list_layers) {
    fmt::print("{}", list_layers());
  } else if (command_line.help_config) {
    fmt::print("{}", config_help(command_line.section));
  } else if (command_line.files.empty()) {
    throw Error(ErrorKind::kUsage, "no configuration file",
                "`mtf-train FILE.yaml...`; `mtf-train --help` explains");
  } else {
    run_mode(command_line);
  }
}

int run_main(const std::vector<std::string>& words) {
  try {
    run(parse_command_line(words));
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    fmt::print(stderr, "mtf-train: {}\n", error.what());
    return 1;
  }
}

}  // namespace mtf
