// Parses the command line of mtf-bleu, which has the options of sacreBLEU: -tok intl, -m bleu chrf, -sl,
// --paired-bs, ...
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "trainer/metrics/bleu.h"
#include "trainer/metrics/chrf.h"
#include "trainer/metrics/corpus_files.h"
#include "trainer/metrics/paired_test.h"
#include "trainer/metrics/report.h"
#include "trainer/metrics/ter.h"

namespace mtf {

struct BleuCommand {
  bool help = false;
  bool version = false;
  bool list = false;          ///< list test sets: all, those of `language_pair`, or the one named `test_set`
  std::string test_set = {};  ///< empty: not given
  std::string language_pair = {};
  CorpusFiles files;
  OriginFilter origin;
  std::vector<std::string> metrics;  ///< any of "bleu", "chrf", "ter", each once, in the given order
  bool sentence_level = false;
  bool detail = false;            ///< also prints scores by the origin of the sentences
  bool force = false;             ///< suppresses the warning about tokenised text
  int64_t bootstrap_samples = 0;  ///< 0: no confidence interval
  std::optional<PairedOptions> paired;
  BleuOptions bleu;
  ChrfOptions chrf;
  TercomOptions ter;
  ReportOptions report;
};

extern const std::string_view kBleuHelp;

/// Parses the arguments `words`, which do not include the program's name. Throws Error (kUsage). The
/// environment variables SACREBLEU_FORMAT and NO_COLOR have the same effect as in sacreBLEU.
BleuCommand parse_bleu_command_line(const std::vector<std::string>& words);

}  // namespace mtf
