#include <fmt/format.h>

#include <cxxopts.hpp>
#include <exception>

#include "engine/base/error.h"
#include "engine/base/exception.h"
#include "engine/config/node.h"
#include "trainer/programs/compare/compare.h"

namespace mtf {
namespace {

constexpr std::string_view kHelp =
    R"(mtf-compare: do two runs differ, and where first?

usage: mtf-compare RUN_A RUN_B [--tolerance NUMBER] [--config] [--metrics] [--tensors]

RUN is the directory of a run (run.model_dir), of a checkpoint, or a .safetensors file; of the latter two
only tensors are compared.

  mtf-compare runs/one runs/again                      bit for bit
  mtf-compare runs/one runs/mesh --tolerance 1e-5      the same up to rounding?
  mtf-compare runs/one/checkpoints/step-00000020 weights.safetensors
  mtf-compare runs/one runs/one --tensors              with itself: are all checksums of its checkpoint right?

  --config       only: which keys of config.yaml differ
  --metrics      only: metrics.jsonl and evaluate.jsonl, step by step
  --tensors      only: the newest checkpoint that both have, element by element
  --tolerance    greatest relative difference that counts as none (default 0: bit for bit)

Several of --config, --metrics, --tensors may be given; without them all that both have is compared.
Steps and metrics that only one run has are counted, and are no difference; tensors that only one has are.
Times, speeds and memory are not compared. NaN equals NaN. The difference of two numbers is relative to the larger
one; of correlations and router/min_gap, which are small differences of numbers up to 1, it is relative to 1; of two
elements of a tensor to the larger one or the tensor's root mean square, if that is larger.

Exit codes: 0 no difference, 1 differences, 2 trouble. Configurations that differ are listed but do not
count, so that 0 means: another layout, the same result. They count where nothing else is compared.
)";

constexpr int kTrouble = 2;

double parse_tolerance(const std::string& text) {
  const std::optional<double> tolerance = config::to_number(text);
  if (!tolerance || *tolerance < 0) {
    throw Error(ErrorKind::kUsage, fmt::format("--tolerance: `{}` is not a number from 0", text),
                "write for example `--tolerance 1e-5`");
  }
  return *tolerance;
}

CompareOptions parse(const std::vector<std::string>& words) {
  cxxopts::Options parser("mtf-compare");
  parser.add_options()("h,help", "")("config", "")("metrics", "")("tensors", "");
  parser.add_options()("tolerance", "", cxxopts::value<std::string>()->default_value("0"));
  parser.add_options()("a", "", cxxopts::value<std::string>())("b", "", cxxopts::value<std::string>());
  parser.parse_positional({"a", "b"});
  std::vector<const char*> arguments{"mtf-compare"};
  for (const std::string& word : words) arguments.push_back(word.c_str());
  const cxxopts::ParseResult parsed = parser.parse(static_cast<int>(arguments.size()), arguments.data());

  CompareOptions options;
  options.help = parsed["help"].as<bool>();
  if (options.help) return options;
  options.config = parsed["config"].as<bool>();
  options.metrics = parsed["metrics"].as<bool>();
  options.tensors = parsed["tensors"].as<bool>();
  options.tolerance = parse_tolerance(parsed["tolerance"].as<std::string>());
  const size_t runs = parsed.count("a") + parsed.count("b") + parsed.unmatched().size();
  if (runs != 2) {
    throw Error(ErrorKind::kUsage, fmt::format("two runs are compared, not {}", runs),
                "`mtf-compare RUN_A RUN_B`; `mtf-compare --help` explains");
  }
  options.a = parsed["a"].as<std::string>();
  options.b = parsed["b"].as<std::string>();
  return options;
}

}  // namespace

CompareOptions parse_compare_command_line(const std::vector<std::string>& words) {
  try {
    return parse(words);
  } catch (const cxxopts::exceptions::exception& error) {
    throw Error(ErrorKind::kUsage, error.what(), "`mtf-compare --help` explains");
  }
}

int compare_main(const std::vector<std::string>& words) {
  try {
    const CompareOptions options = parse_compare_command_line(words);
    bool differ = false;
    if (options.help) {
      fmt::print("{}", kHelp);
    } else {
      const Comparison comparison = compare(options);
      fmt::print("{}", report(comparison));
      differ = comparison.differs();
    }
    check_standard_output();
    return differ ? 1 : 0;
  } catch (const std::exception& error) {
    report_failure(error, "mtf-compare");
    return kTrouble;
  }
}

}  // namespace mtf
