// The command line of mtf-bleu, which is that of sacreBLEU for one system: -tok intl, -m bleu chrf, -sl, ...
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/metrics/bleu.h"
#include "data/metrics/chrf.h"
#include "data/metrics/report.h"
#include "data/metrics/ter.h"

namespace mtf {

struct BleuCommand {
  bool help = false;
  bool version = false;
  std::vector<std::string> references;  ///< files
  size_t columns = 1;                   ///< references in the one file, between tabs
  std::optional<std::string> input;     ///< the file of the hypotheses; nothing: standard input
  std::set<std::string> metrics;        ///< of "bleu", "chrf", "ter"
  bool sentence_level = false;
  bool force = false;  ///< no warning about tokenised text
  bool json = true;
  int64_t bootstrap_samples = 0;  ///< 0: no confidence interval
  BleuOptions bleu;
  ChrfOptions chrf;
  TercomOptions ter;
  ReportOptions report;
};

extern const std::string_view kBleuHelp;

/// `words` without the name of the program. Throws Error (kUsage). The environment variables SACREBLEU_FORMAT
/// and NO_COLOR have the say that they have for sacreBLEU.
BleuCommand parse_bleu_command_line(const std::vector<std::string>& words);

}  // namespace mtf
