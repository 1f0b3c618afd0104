#include "trainer/programs/launch/main.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <system_error>

#include "engine/base/error.h"
#include "engine/base/exception.h"
#include "engine/base/nearest.h"
#include "engine/base/parse_number.h"
#include "engine/base/process.h"

namespace mtf {
namespace {

constexpr int kMostProcesses = 256;  ///< the largest number of ranks, or of tasks of one job

constexpr std::string_view kLaunchHelp =
    R"(mtf-launch: runs several copies of a program on this machine that work together.

usage: mtf-launch [-n N | --job NAME=N...] [--restarts K] [--grace SECONDS] [--] PROGRAM [ARGUMENT...]
       mtf-launch --help | --version

  mtf-launch -n 4 -- mtf-train run.yaml mesh=all:4 layout=batch:all
  mtf-launch -n 2 --restarts 3 -- mtf-train run.yaml mesh=all:8 layout=batch:all     four positions each
  mtf-launch --job ps=1 --job worker=2 -- mtf-train run.yaml train.strategy=parameter_server

  -n, --processes N   how many (default 1)
  --job NAME=N        N tasks of this job instead: `ps`, `worker`, `chief` or any other
  --restarts K        after a failure all are started again, at most K times (default 0); mtf-train goes on
                      from its last checkpoint
  --grace SECONDS     from SIGTERM to SIGKILL for those that are left after a failure (default 10)

The copies are ranks 0 to N-1. Each line of their output has the rank in front, "[2] ", or the task,
"[worker:1] "; on a terminal those of rank 0 (the chief, else worker 0) have not, so that its progress shows.
Standard input goes to rank 0; the others have none.

The first that fails is named, and the others are ended. There is no restart after exit codes 2 (wrong usage or
configuration) and 3 (loss or gradients not finite), nor after SIGINT, SIGTERM and SIGHUP, which are passed on.
Tasks of the job `ps` are ended when all others have ended. The copies end with mtf-launch, even where that is
killed.

Ranks find each other by RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR and MASTER_PORT, where
mtf-launch serves the store at which they meet; tasks of jobs by TF_CONFIG. They let in nobody else: all get
MTF_SECRET, which mtf-launch makes unless it is set. For several machines: torchrun, mpirun, srun, or the
section `cluster` of the configuration.

Exit codes: 0 all have ended well; that of the first that failed (128 + its signal); 2 wrong usage;
126 PROGRAM cannot be run, 127 it is not there.
)";

int whole_number(const std::string& option, const std::string& text, int low, int high) {
  const auto number = parse_number<int>(text);
  if (!number || *number < low || *number > high) {
    throw Error(ErrorKind::kUsage, fmt::format("{}: `{}`", option, text),
                fmt::format("a whole number from {} to {}", low, high));
  }
  return *number;
}

class LaunchParser {
 public:
  explicit LaunchParser(const std::vector<std::string>& words) : words_(words) {}

  LaunchWords run() {
    while (at_ < words_.size() && words_[at_].starts_with("-")) {
      const std::string& word = words_[at_++];
      if (word == "--") break;
      take_option(word);
      if (result_.help || result_.version) return result_;
    }
    if (has_number_ && !result_.launch.jobs.empty())
      throw Error(ErrorKind::kUsage, "both -n and --job say which processes there are", "one of them");
    result_.launch.command.assign(words_.begin() + static_cast<int64_t>(at_), words_.end());
    if (result_.launch.command.empty() || result_.launch.command.front().empty())
      throw Error(ErrorKind::kUsage, "no program",
                  "`mtf-launch -n 4 -- PROGRAM ARGUMENT...`; `mtf-launch --help` explains");
    return result_;
  }

 private:
  void take_option(const std::string& word) {
    constexpr int kMostRestarts = 1'000'000, kLongestGrace = 86'400;
    const size_t equals = word.find('=');
    const std::string option = word.substr(0, equals);
    const auto text = [&](std::string_view what) {
      if (equals != std::string::npos) return word.substr(equals + 1);
      if (at_ == words_.size() || words_[at_] == "--")
        throw Error(ErrorKind::kUsage, fmt::format("{} needs {} behind it", option, what));
      return words_[at_++];
    };
    const auto value = [&](int low, int high) { return whole_number(option, text("a number"), low, high); };
    if (option == "-n" || option == "--processes") {
      take_processes(text("a number"));
    } else if (option == "--job") {
      take_job(text("NAME=N"));
    } else if (word.starts_with("-n") && std::isdigit(static_cast<unsigned char>(word[2])) != 0) {
      take_processes(word.substr(2));
    } else if (option == "--restarts") {
      result_.launch.restarts = value(0, kMostRestarts);
    } else if (option == "--grace") {
      result_.launch.grace = std::chrono::seconds(value(0, kLongestGrace));
    } else if (word == "--help" || word == "-h") {
      result_.help = true;
    } else if (word == "--version") {
      result_.version = true;
    } else {
      throw Error(ErrorKind::kUsage, fmt::format("unknown option `{}`", word),
                  did_you_mean(option, {"-n", "--processes", "--job", "--restarts", "--grace", "--help",
                                        "--version"}));
    }
  }

  void take_processes(const std::string& text) {
    result_.launch.processes = whole_number("-n", text, 1, kMostProcesses);
    has_number_ = true;
  }

  /// Parses "worker=2".
  void take_job(const std::string& text) {
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const bool is_name = std::ranges::all_of(name, [](unsigned char letter) {
      return std::isalnum(letter) != 0 || letter == '_' || letter == '-';
    });
    if (equals == std::string::npos || name.empty() || !is_name)
      throw Error(ErrorKind::kUsage, fmt::format("--job: `{}`", text), "NAME=N, for example worker=2");
    JobSizes& jobs = result_.launch.jobs;
    if (std::ranges::find(jobs, name, &JobSizes::value_type::first) != jobs.end())
      throw Error(ErrorKind::kUsage, fmt::format("--job: `{}` is there twice", name),
                  "one number for each job");
    jobs.emplace_back(name, whole_number("--job " + name, text.substr(equals + 1), 1, kMostProcesses));
  }

  const std::vector<std::string>& words_;
  size_t at_ = 0;
  bool has_number_ = false;
  LaunchWords result_;
};

/// Lets the programs beside this one be found where PATH has none of their names.
void extend_path() {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return;
  const char* before = std::getenv("PATH");
  const std::string path =
      fmt::format("{}:{}", before ? before : "/usr/bin:/bin", program.parent_path().string());
  ::setenv("PATH", path.c_str(), 1);
}

}  // namespace

LaunchWords parse_launch_words(const std::vector<std::string>& words) { return LaunchParser(words).run(); }

int launch_main(const std::vector<std::string>& words) {
  prepare_process();
  try {
    const LaunchWords parsed = parse_launch_words(words);
    if (!parsed.help && !parsed.version) {
      extend_path();
      return launch(parsed.launch);
    }
    if (parsed.help) {
      fmt::print("{}", kLaunchHelp);
    } else {
      fmt::print("mtf-launch {}\n", MTF_VERSION);
    }
    check_standard_output();
    return 0;
  } catch (const std::exception& error) {
    return report_failure(error, "mtf-launch");
  }
}

}  // namespace mtf
