#include "trainer/metrics/bleu_main.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <set>

#include "engine/base/error.h"
#include "engine/base/exception.h"
#include "trainer/metrics/command_line.h"
#include "trainer/metrics/systems_report.h"
#include "trainer/metrics/test_sets.h"

namespace mtf {
namespace {

std::unique_ptr<TextMetric> make_metric(const std::string& name, const BleuCommand& command) {
  if (name == "chrf") return make_chrf(command.chrf);
  if (name == "ter") return make_ter(command.ter);
  return make_bleu(command.bleu);
}

void warn_if_tokenized(const Corpus& corpus) {
  constexpr int64_t kMany = 100;
  for (size_t s = 0; s < corpus.systems.size(); ++s) {
    const int64_t lines = tokenized_lines(corpus.systems[s]);
    if (lines < kMany) continue;
    fmt::print(
        stderr,
        "warning: {} lines of {} end in ` .`: the text looks tokenised, which lowers BLEU; detokenise it, or "
        "write --force if it is as it should be\n",
        lines, corpus.sources[s]);
  }
}

void print_sentences(const Corpus& corpus, const BleuCommand& command) {
  const std::unique_ptr<TextMetric> metric = make_metric(command.metrics.front(), command);
  const SegmentStatistics statistics(*metric, corpus.systems.front(), corpus.references);
  MetricScore score{.name = metric->name(), .signature = signature_of(*metric, corpus.references.size())};
  for (size_t i = 0; i < statistics.segments(); ++i) {
    score.value = metric->value(statistics.row(i));
    score.details = metric->details(statistics.row(i));
    fmt::print("{}", text_report(std::span(&score, 1), command.report));
  }
}

std::vector<std::string> sorted(std::vector<std::string> names) {
  std::ranges::sort(names);
  return names;
}

/// Returns the distinct non-empty values of the field `name` of the origins.
std::vector<std::string> values_in(const Corpus& corpus, std::string SentenceOrigin::*name) {
  std::set<std::string> values;
  for (const SentenceOrigin& origin : corpus.origins) values.insert(origin.*name);
  values.erase("");
  return {values.begin(), values.end()};
}

/// The scores of a subset of the sentences, for a line of the report.
struct SubsetScore {
  std::string key;
  size_t sentences;
  std::vector<MetricScore> scores;
};

std::vector<SubsetScore> subset_scores(const Corpus& corpus, const BleuCommand& command) {
  const OriginFilter& filter = command.origin;
  const auto given_or = [](const std::string& given, std::vector<std::string> otherwise) {
    return given.empty() ? std::move(otherwise) : std::vector<std::string>{given};
  };
  std::vector<SubsetScore> results;
  for (const std::string& language :
       given_or(filter.language, values_in(corpus, &SentenceOrigin::language))) {
    std::vector<std::string> domains = given_or(filter.domain, values_in(corpus, &SentenceOrigin::domain));
    domains.insert(domains.begin(), "");
    for (const std::string& domain : domains) {
      const Corpus subset = subset_of(corpus, {language, domain});
      if (subset.sentences() == 0) continue;
      const bool country = domain.starts_with("country:");
      SubsetScore& result = results.emplace_back();
      result.key = fmt::format("origlang={} {}", language,
                               domain.empty() ? "domain=ALL"
                               : country      ? "country=" + domain.substr(domain.find(':') + 1)
                                              : "domain=" + domain);
      result.sentences = subset.sentences();
      for (const std::string& name : command.metrics)
        result.scores.push_back(
            corpus_score(*make_metric(name, command), subset.systems.front(), subset.references));
    }
  }
  return results;
}

void print_subsets(const Corpus& corpus, const BleuCommand& command) {
  const std::vector<SubsetScore> results = subset_scores(corpus, command);
  if (results.empty()) {
    fmt::print("No subset information found. Consider using --origlang argument.\n");
    return;
  }
  size_t key_width = 0, name_width = 0;
  for (const SubsetScore& result : results) key_width = std::max(key_width, result.key.size() + 1);
  for (const MetricScore& score : results.front().scores)
    name_width = std::max(name_width, score.name.size());
  for (const SubsetScore& result : results) {
    const std::string key = fmt::format("{:<{}}", result.key, key_width);
    for (const MetricScore& score : result.scores) {
      fmt::print("{}: sentences={:<6} {:<{}} = {}\n",
                 command.report.color ? fmt::format("\x1b[33m{}\x1b[0m", key) : key, result.sentences,
                 score.name, name_width, decimals(score.value, command.report.width));
    }
  }
}

void print_one_system(const Corpus& corpus, const BleuCommand& command) {
  std::vector<MetricScore> scores;
  for (const std::string& name : sorted(command.metrics)) {
    scores.push_back(corpus_score(*make_metric(name, command), corpus.systems.front(), corpus.references,
                                  command.bootstrap_samples));
  }
  fmt::print("{}", command.report.format == ReportFormat::kJson ? json_report(scores, command.report)
                                                                : text_report(scores, command.report));
}

void print_systems(const Corpus& corpus, const BleuCommand& command) {
  SystemsReport report{.names = corpus.names, .columns = {}, .paired = command.paired};
  for (const std::string& name : command.paired ? command.metrics : sorted(command.metrics)) {
    const std::unique_ptr<TextMetric> metric = make_metric(name, command);
    if (command.paired) {
      report.columns.push_back(paired_test(*metric, corpus.systems, corpus.references, *command.paired));
      continue;
    }
    MetricColumn& column = report.columns.emplace_back();
    column.name = metric->name();
    column.signature = signature_of(*metric, corpus.references.size());
    for (const std::vector<std::string>& system : corpus.systems)
      column.scores.push_back({.value = corpus_score(*metric, system, corpus.references).value});
  }
  fmt::print("{}", systems_report(report, command.report));
}

void check_systems(size_t systems, const BleuCommand& command) {
  if (systems > 1 && command.sentence_level)
    throw Error(ErrorKind::kUsage, fmt::format("--sentence-level takes one system, not {}", systems));
  if (systems > 1 && command.bootstrap_samples > 0)
    throw Error(ErrorKind::kUsage, "--confidence is for one system", "--paired-bs compares several");
  if (systems == 1 && command.paired)
    throw Error(ErrorKind::kUsage, "a paired test compares systems; there is one",
                "`mtf-bleu ref.de -i baseline.de other.de --paired-bs`");
}

void run(const BleuCommand& command) {
  const Corpus all = read_corpus(command.files);
  check_systems(all.systems.size(), command);
  const bool filtered = !command.origin.language.empty() || !command.origin.domain.empty();
  const Corpus corpus = filtered ? subset_of(all, command.origin) : all;
  if (corpus.sentences() == 0)
    throw Error(ErrorKind::kUsage, "no sentence is of this --origlang and --subset",
                fmt::format("languages are {}", fmt::join(values_in(all, &SentenceOrigin::language), ", ")));
  if (std::ranges::find(command.metrics, "bleu") != command.metrics.end() && !command.force)
    warn_if_tokenized(corpus);
  if (command.sentence_level) return print_sentences(corpus, command);
  if (corpus.systems.size() > 1) return print_systems(corpus, command);
  print_one_system(corpus, command);
  if (command.detail) print_subsets(all, command);
}

}  // namespace

int bleu_main(const std::vector<std::string>& words) {
  try {
    const BleuCommand command = parse_bleu_command_line(words);
    if (command.help) {
      fmt::print("{}", kBleuHelp);
    } else if (command.version) {
      fmt::print("mtf-bleu {}, with the figures of sacreBLEU {}\n", MTF_VERSION, kSacrebleuVersion);
    } else if (command.list) {
      fmt::print("{}", list_test_sets(command.test_set, command.language_pair));
    } else {
      run(command);
    }
    check_standard_output();
    return 0;
  } catch (const std::exception& error) {
    return report_failure(error, "mtf-bleu");
  }
}

}  // namespace mtf
