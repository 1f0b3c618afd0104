#include "trainer/metrics/command_line.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cxxopts.hpp>
#include <limits>
#include <utility>

#include "data/text/lowercase.h"
#include "engine/base/error.h"
#include "engine/base/parse_number.h"
#include "trainer/metrics/option_table.h"
#include "trainer/metrics/test_sets.h"

namespace mtf {
namespace {

const std::vector<OptionName>& options() {
  static const std::vector<OptionName> table = {
      {"help", "h", Takes::kNothing},
      {"version", "V", Takes::kNothing},
      {"input", "i", Takes::kValues},
      {"num-refs", "nr", Takes::kValue},
      {"encoding", "e", Takes::kValue},
      {"language-pair", "l", Takes::kValue},
      {"metrics", "m", Takes::kValues},
      {"sentence-level", "sl", Takes::kNothing},
      {"smooth-method", "s", Takes::kValue},
      {"smooth-value", "sv", Takes::kValue},
      {"tokenize", "tok", Takes::kValue},
      {"lowercase", "lc", Takes::kNothing},
      {"force", "", Takes::kNothing},
      {"chrf-char-order", "cc", Takes::kValue},
      {"chrf-word-order", "cw", Takes::kValue},
      {"chrf-beta", "", Takes::kValue},
      {"chrf-whitespace", "", Takes::kNothing},
      {"chrf-lowercase", "", Takes::kNothing},
      {"chrf-eps-smoothing", "", Takes::kNothing},
      {"ter-case-sensitive", "", Takes::kNothing},
      {"ter-asian-support", "", Takes::kNothing},
      {"ter-no-punct", "", Takes::kNothing},
      {"ter-normalized", "", Takes::kNothing},
      {"confidence", "ci", Takes::kNothing},
      {"confidence-n", "cin", Takes::kValue},
      {"quiet", "q", Takes::kNothing},
      {"short", "sh", Takes::kNothing},
      {"score-only", "b", Takes::kNothing},
      {"width", "w", Takes::kValue},
      {"no-color", "nc", Takes::kNothing},
      {"format", "f", Takes::kValue},
      {"origlang", "ol", Takes::kValue},
      {"subset", "", Takes::kValue},
      {"list", "", Takes::kNothing},
      {"detail", "d", Takes::kNothing},
      {"paired-ar", "par", Takes::kNothing},
      {"paired-bs", "pbs", Takes::kNothing},
      {"paired-ar-n", "parn", Takes::kValue},
      {"paired-bs-n", "pbsn", Takes::kValue},
      {"paired-jobs", "j", Takes::kValue},
      // Options of mtf-bleu that sacreBLEU does not have.
      {"spm-model", "", Takes::kValue},
      {"max-line-bytes", "", Takes::kValue},
      // Options of sacreBLEU that mtf-bleu does not support.
      {"test-set", "t", Takes::kValue},
      {"download", "", Takes::kValue},
      {"echo", "", Takes::kValues},
      {"citation", "", Takes::kNothing},
      {"cite", "", Takes::kNothing},
  };
  return table;
}

cxxopts::ParseResult parse_words(const std::vector<std::string>& words) {
  cxxopts::Options parser("mtf-bleu");
  for (const OptionName& option : options()) {
    const std::string name(option.name);
    if (option.takes == Takes::kNothing) {
      parser.add_options()(name, "");
    } else {
      parser.add_options()(name, "", cxxopts::value<std::string>());
    }
  }
  const std::vector<std::string> long_words = with_long_names(words, options());
  std::vector<const char*> arguments{"mtf-bleu"};
  for (const std::string& word : long_words) arguments.push_back(word.c_str());
  return parser.parse(static_cast<int>(arguments.size()), arguments.data());
}

/// Typed access to the parsed options.
class Parsed {
 public:
  explicit Parsed(const std::vector<std::string>& words) : result_(parse_words(words)) {}

  bool has(const std::string& name) const { return result_.count(name) > 0; }
  std::string text(const std::string& name) const { return result_[name].as<std::string>(); }
  std::string text_or_empty(const std::string& name) const { return has(name) ? text(name) : ""; }
  std::vector<std::string> texts(const std::string& name) const {
    std::vector<std::string> values;
    const std::string given = text_or_empty(name);
    std::string_view rest = given;
    while (!rest.empty()) {
      const size_t end = std::min(rest.find(kValueSeparator), rest.size());
      values.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return values;
  }
  std::vector<std::string> words() const { return result_.unmatched(); }

  /// Sets `value` if the option is given.
  template <class Number>
  void set_number(const std::string& name, Number& value, Number least,
                  Number most = std::numeric_limits<Number>::max()) const {
    if (!has(name)) return;
    const std::string given = text(name);
    const auto number = parse_number<Number>(given);
    if (!number || !(*number >= least && *number <= most)) {
      throw Error(ErrorKind::kUsage,
                  fmt::format("--{}: `{}` is not a {}number", name, given,
                              std::is_integral_v<Number> ? "whole " : ""),
                  most == std::numeric_limits<Number>::max()
                      ? fmt::format("a number from {}", least)
                      : fmt::format("a number from {} to {}", least, most));
    }
    value = *number;
  }

  /// Returns the option's value, which must be one of `choices`, or `otherwise` if it is not given.
  std::string choice(const std::string& name, const std::vector<std::string>& choices,
                     const std::string& otherwise) const {
    if (!has(name)) return otherwise;
    check_choice(name, text(name), choices);
    return text(name);
  }
  static void check_choice(const std::string& name, const std::string& value,
                           const std::vector<std::string>& choices) {
    if (std::ranges::find(choices, value) != choices.end()) return;
    throw Error(ErrorKind::kUsage, fmt::format("--{}: there is no `{}`", name, value),
                fmt::format("{}", fmt::join(choices, ", ")));
  }

 private:
  cxxopts::ParseResult result_;
};

void refuse_what_is_missing(const Parsed& parsed) {
  if (parsed.has("test-set")) throw_no_test_set(parsed.text("test-set"));
  for (const char* const name : {"download", "echo", "citation", "cite"}) {
    if (!parsed.has(name)) continue;
    throw Error(ErrorKind::kUsage, fmt::format("--{} is about test sets, of which mtf-bleu has none", name),
                "sacreBLEU has them");
  }
}

std::vector<std::string> metrics_of(const Parsed& parsed) {
  std::vector<std::string> metrics;
  for (const std::string& name : parsed.texts("metrics")) {
    Parsed::check_choice("metrics", name, {"bleu", "chrf", "ter"});
    if (std::ranges::find(metrics, name) == metrics.end()) metrics.push_back(name);
  }
  if (metrics.empty()) metrics.emplace_back("bleu");
  return metrics;
}

bool has_metric(const std::vector<std::string>& metrics, std::string_view name) {
  return std::ranges::find(metrics, name) != metrics.end();
}

/// Returns the index of the dash in a language pair.
size_t dash_of(const std::string& pair) {
  const size_t dash = pair.find('-');
  if (dash == std::string::npos || dash + 1 == pair.size())
    throw Error(ErrorKind::kUsage, fmt::format("--language-pair: `{}` is no pair", pair),
                "for example `en-de`");
  return dash;
}

/// Returns the tokenizer of --tokenize, or else the one for the target language.
BleuTokenizer tokenizer_of(const Parsed& parsed) {
  const std::vector<std::string> names = bleu_tokenizer_names();
  if (parsed.has("tokenize")) return *bleu_tokenizer_named(parsed.choice("tokenize", names, "13a"));
  if (!parsed.has("language-pair")) return BleuTokenizer::k13a;
  const std::string pair = parsed.text("language-pair");
  const size_t dash = dash_of(pair);
  const std::string target = pair.substr(dash + 1, pair.find('-', dash + 1) - dash - 1);
  if ((target == "ja" || target == "ko") && has_metric(metrics_of(parsed), "bleu")) {
    throw Error(ErrorKind::kUsage,
                fmt::format("--language-pair {}: the tokeniser of sacreBLEU for it, {}-mecab, is not here",
                            pair, target),
                "choose another, for example `-tok char`");
  }
  return target == "zh" ? BleuTokenizer::kZh : BleuTokenizer::k13a;
}

BleuOptions bleu_options(const Parsed& parsed) {
  BleuOptions bleu;
  bleu.tokenizer = tokenizer_of(parsed);
  bleu.tokenizer_model = parsed.text_or_empty("spm-model");
  bleu.smoothing = *smoothing_named(parsed.choice("smooth-method", smoothing_names(), "exp"));
  if (parsed.has("smooth-value")) parsed.set_number("smooth-value", bleu.smooth_value.emplace(), 0.0);
  bleu.lowercase = parsed.has("lowercase");
  bleu.effective_order = parsed.has("sentence-level");
  return bleu;
}

ChrfOptions chrf_options(const Parsed& parsed) {
  ChrfOptions chrf;
  parsed.set_number<int64_t>("chrf-char-order", chrf.char_order, 0);
  parsed.set_number<int64_t>("chrf-word-order", chrf.word_order, 0);
  parsed.set_number<int64_t>("chrf-beta", chrf.beta, 0);
  chrf.whitespace = parsed.has("chrf-whitespace");
  chrf.lowercase = parsed.has("chrf-lowercase");
  chrf.eps_smoothing = parsed.has("chrf-eps-smoothing");
  return chrf;
}

TercomOptions ter_options(const Parsed& parsed) {
  return {.normalized = parsed.has("ter-normalized"),
          .no_punctuation = parsed.has("ter-no-punct"),
          .asian_support = parsed.has("ter-asian-support"),
          .case_sensitive = parsed.has("ter-case-sensitive")};
}

std::string environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

/// Returns the format of the report; --detail excludes JSON.
ReportFormat format_of(const Parsed& parsed) {
  const std::vector<std::string> formats = {"json", "text", "latex"};
  const std::string from_environment = to_lower_case(environment("SACREBLEU_FORMAT"));
  const std::string from_option = parsed.choice("format", formats, "json");
  const bool is_set = std::ranges::find(formats, from_environment) != formats.end();
  const std::string name = is_set ? from_environment : from_option;
  if (name == "latex") return ReportFormat::kLatex;
  return name == "text" || parsed.has("detail") ? ReportFormat::kText : ReportFormat::kJson;
}

ReportOptions report_options(const Parsed& parsed) {
  ReportOptions report;
  report.format = format_of(parsed);
  parsed.set_number<int64_t>("width", report.width, 0, 1000);
  report.score_only = parsed.has("score-only");
  report.short_signature = parsed.has("short");
  report.color = report.format != ReportFormat::kJson && !parsed.has("no-color") &&
                 environment("NO_COLOR").empty() && ::isatty(STDOUT_FILENO);
  return report;
}

std::optional<PairedOptions> paired_options(const Parsed& parsed) {
  PairedOptions bootstrap{PairedTest::kBootstrap, 1000}, randomization{PairedTest::kRandomization, 10000};
  parsed.set_number<int64_t>("paired-bs-n", bootstrap.samples, 1);
  parsed.set_number<int64_t>("paired-ar-n", randomization.samples, 1);
  int64_t jobs = 1;  // checked but not used: one process is fast enough
  parsed.set_number<int64_t>("paired-jobs", jobs, 0);
  if (parsed.has("paired-bs") && parsed.has("paired-ar"))
    throw Error(ErrorKind::kUsage, "--paired-bs and --paired-ar are two tests", "one of them");
  if (parsed.has("paired-bs")) return bootstrap;
  return parsed.has("paired-ar") ? std::optional(randomization) : std::nullopt;
}

CorpusFiles files_of(const Parsed& parsed) {
  CorpusFiles files;
  files.references = parsed.words();
  parsed.set_number<size_t>("num-refs", files.columns, 1, 1000);
  files.outputs = parsed.texts("input");
  if (parsed.has("input") && files.outputs.empty())
    throw Error(ErrorKind::kUsage, "--input has no name of a file", "`mtf-bleu ref.de -i out.de`");
  parsed.set_number<int64_t>("max-line-bytes", files.limit.bytes, 1);
  return files;
}

void check(const BleuCommand& command) {
  if (command.files.references.empty())
    throw Error(ErrorKind::kUsage, "there is no reference", "`mtf-bleu ref.de -i out.de`");
  if (command.files.columns != 1 && command.files.references.size() > 1) {
    throw Error(ErrorKind::kUsage,
                "--num-refs is for references in the columns of one file, but there are several",
                "either of the two");
  }
  if (has_metric(command.metrics, "chrf") && command.chrf.char_order + command.chrf.word_order == 0) {
    throw Error(ErrorKind::kUsage, "--chrf-char-order and --chrf-word-order are both 0",
                "6 and 0 give chrF, 6 and 2 chrF++");
  }
  if (command.sentence_level && command.metrics.size() > 1)
    throw Error(ErrorKind::kUsage, "--sentence-level takes one metric", "for example `-m chrf`");
  if (command.sentence_level && command.bootstrap_samples > 0)
    throw Error(ErrorKind::kUsage, "--confidence is for a corpus, not for --sentence-level",
                "either of the two");
  if (command.sentence_level && command.paired)
    throw Error(ErrorKind::kUsage, "paired tests are for a corpus, not for --sentence-level",
                "either of the two");
}

BleuCommand command_of(const Parsed& parsed) {
  BleuCommand command;
  command.help = parsed.has("help");
  command.version = parsed.has("version");
  if (command.help || command.version) return command;
  command.language_pair = parsed.text_or_empty("language-pair");
  if (!command.language_pair.empty()) dash_of(command.language_pair);
  command.test_set = parsed.text_or_empty("test-set");
  command.list = parsed.has("list");
  if (command.list) return command;
  refuse_what_is_missing(parsed);
  parsed.choice("encoding", {"utf-8", "utf8", "UTF-8", "UTF8"}, "utf-8");
  command.files = files_of(parsed);
  command.origin = {parsed.text_or_empty("origlang"), parsed.text_or_empty("subset")};
  command.metrics = metrics_of(parsed);
  command.sentence_level = parsed.has("sentence-level");
  command.detail = parsed.has("detail");
  command.force = parsed.has("force");
  command.paired = paired_options(parsed);
  command.files.baseline_first = command.paired.has_value();
  if (parsed.has("confidence")) {
    command.bootstrap_samples = 1000;
    parsed.set_number<int64_t>("confidence-n", command.bootstrap_samples, 1);
  }
  command.bleu = bleu_options(parsed);
  command.chrf = chrf_options(parsed);
  command.ter = ter_options(parsed);
  command.report = report_options(parsed);
  check(command);
  return command;
}

}  // namespace

const std::string_view kBleuHelp =
    R"(mtf-bleu: BLEU, chrF and TER, with the numbers and the command line of sacreBLEU 2.6

usage: mtf-bleu REFERENCE... [-i FILE...] [options] [< FILE]

  cat out.de | mtf-bleu ref.de                    one sentence a line; plain, .gz, WMT .sgm or .xml
  mtf-bleu ref1.de ref2.de -i out.de -m bleu chrf -tok intl -f text
  mtf-bleu ref.de -i baseline.de other.de --paired-bs -f text

  -i, --input FILE...          the output to score, instead of standard input; of several systems a table
  -nr, --num-refs N            the one reference file has N references a line, between tabs
  -m, --metrics NAME...        bleu, chrf, ter
  -sl, --sentence-level        a score per line (effective order for BLEU)
  -l, --language-pair S-T      tokeniser zh when T is zh
  --max-line-bytes N           a longer line is an error (67108864: 64 MiB)
BLEU
  -tok, --tokenize NAME        13a (default), intl, char, zh, none; spm, flores101, flores200, spBLEU-1K
  --spm-model FILE             the SentencePiece model of the last four; otherwise where sacreBLEU keeps it
  -s, --smooth-method NAME     exp (default), floor, add-k, none;  -sv, --smooth-value NUMBER
  -lc, --lowercase             upper and lower case are the same
  --force                      no warning when the text looks tokenised
chrF
  -cc, --chrf-char-order N     (6)     -cw, --chrf-word-order N   (0; 2 is chrF++)     --chrf-beta N   (2)
  --chrf-whitespace            --chrf-lowercase            --chrf-eps-smoothing
TER
  --ter-case-sensitive   --ter-asian-support   --ter-no-punct   --ter-normalized
significance
  -ci, --confidence            95 % interval by bootstrap resampling;  -cin, --confidence-n N   (1000)
  -pbs, --paired-bs            is each system different from the first: bootstrap;  -pbsn, --paired-bs-n N   (1000)
  -par, --paired-ar            the same by approximate randomization;  -parn, --paired-ar-n N   (10000)
parts of a WMT reference (.sgm, .xml)
  -d, --detail                 scores by the original language and the domain of the documents
  -ol, --origlang L            only documents from this language, or not from it: non-L
  --subset REGEX               only documents of such domains
report
  -f, --format NAME            json (default), text, latex (of several systems);  SACREBLEU_FORMAT overrides it
  -b, --score-only   -w, --width DECIMALS (1)   -sh, --short signature   -q, --quiet   -nc, --no-color
  --list [-l S-T | -t NAME]    test sets that sacreBLEU downloads

The seed of random numbers is 12345, or what SACREBLEU_SEED says.
Exit codes: 0 scored, 1 a file cannot be read or is not UTF-8, 2 wrong options or line counts that differ.
)";

BleuCommand parse_bleu_command_line(const std::vector<std::string>& words) {
  try {
    return command_of(Parsed(words));
  } catch (const cxxopts::exceptions::exception& error) {
    throw Error(ErrorKind::kUsage, error.what(), "`mtf-bleu --help` explains");
  }
}

}  // namespace mtf
