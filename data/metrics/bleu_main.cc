#include "data/metrics/bleu_main.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>

#include "data/metrics/command_line.h"
#include "data/metrics/text_lines.h"
#include "data/metrics/wmt_file.h"
#include "engine/core/error.h"

namespace mtf {
namespace {

/// What is scored, with the names of where it came from.
struct Corpus {
  std::vector<std::string> hypotheses;
  std::string hypothesis_name;
  References references;
  std::vector<std::string> reference_names;
};

std::vector<std::string> read_standard_input_lines() {
  const std::string name = "standard input";
  std::vector<std::string> lines = lines_of(read_standard_input(), name);
  const auto with_tab = std::ranges::find_if(
      lines, [](const std::string& line) { return line.find('\t') != std::string::npos; });
  if (with_tab != lines.end()) {
    throw Error(ErrorKind::kUsage,
                fmt::format("{}: line {} has a tab, which stands between the outputs of two systems", name,
                            with_tab - lines.begin() + 1),
                "one system; with `-i FILE` a tab is part of the text");
  }
  return lines;
}

References read_references(const std::string& path, size_t columns) {
  if (is_wmt_file(path)) return read_wmt_references(path);
  return split_columns(read_lines(path), columns, path);
}

std::vector<std::string> read_hypotheses(const std::optional<std::string>& path) {
  if (!path) return read_standard_input_lines();
  return is_wmt_file(*path) ? read_wmt_hypothesis(*path) : read_lines(*path);
}

Corpus read_corpus(const BleuCommand& command) {
  Corpus corpus;
  for (const std::string& path : command.references) {
    for (std::vector<std::string>& text : read_references(path, command.columns)) {
      corpus.references.push_back(std::move(text));
      corpus.reference_names.push_back(path);
    }
  }
  corpus.hypotheses = read_hypotheses(command.input);
  corpus.hypothesis_name = command.input.value_or("standard input");
  check_line_counts(corpus.hypotheses.size(), corpus.hypothesis_name, corpus.references,
                    corpus.reference_names);
  return corpus;
}

std::unique_ptr<TextMetric> make_metric(const std::string& name, const BleuCommand& command) {
  if (name == "chrf") return make_chrf(command.chrf);
  if (name == "ter") return make_ter(command.ter);
  return make_bleu(command.bleu);
}

void warn_if_tokenized(const Corpus& corpus) {
  constexpr int64_t kMany = 100;
  const int64_t lines = tokenized_lines(corpus.hypotheses);
  if (lines < kMany) return;
  fmt::print(
      stderr,
      "warning: {} lines of {} end in ` .`: the text looks tokenised, which lowers BLEU; detokenise it, or "
      "write --force if it is as it should be\n",
      lines, corpus.hypothesis_name);
}

void print_sentences(const Corpus& corpus, const BleuCommand& command) {
  const std::unique_ptr<TextMetric> metric = make_metric(*command.metrics.begin(), command);
  const SegmentStatistics statistics(*metric, corpus.hypotheses, corpus.references);
  MetricScore score{.name = metric->name(), .signature = signature_of(*metric, corpus.references.size())};
  for (size_t i = 0; i < statistics.segments(); ++i) {
    score.value = metric->value(statistics.row(i));
    score.details = metric->details(statistics.row(i));
    fmt::print("{}", text_report(std::span(&score, 1), command.report));
  }
}

void print_corpus(const Corpus& corpus, const BleuCommand& command) {
  std::vector<MetricScore> scores;
  for (const std::string& name : command.metrics) {
    scores.push_back(corpus_score(*make_metric(name, command), corpus.hypotheses, corpus.references,
                                  command.bootstrap_samples));
  }
  fmt::print("{}", command.json ? json_report(scores, command.report) : text_report(scores, command.report));
}

void run(const BleuCommand& command) {
  const Corpus corpus = read_corpus(command);
  if (command.metrics.contains("bleu") && !command.force) warn_if_tokenized(corpus);
  if (command.sentence_level) {
    print_sentences(corpus, command);
  } else {
    print_corpus(corpus, command);
  }
}

}  // namespace

int bleu_main(const std::vector<std::string>& words) {
  try {
    const BleuCommand command = parse_bleu_command_line(words);
    if (command.help) {
      fmt::print("{}", kBleuHelp);
    } else if (command.version) {
      fmt::print("mtf-bleu {}\n", MTF_VERSION);
    } else {
      run(command);
    }
    return 0;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return error.exit_code();
  } catch (const std::exception& error) {
    fmt::print(stderr, "mtf-bleu: {}\n", error.what());
  }
  return 1;
}

}  // namespace mtf
