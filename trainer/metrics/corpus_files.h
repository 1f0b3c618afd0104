// Reads the texts that mtf-bleu scores: references, and the outputs of one or several systems.
//
//   Corpus corpus = read_corpus({.references = {"ref.de"}, .outputs = {"out.de"}});
//   const Corpus news = subset_of(corpus, {.language = "en", .domain = "news"});
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/text/line_splitter.h"
#include "trainer/metrics/metric.h"
#include "trainer/metrics/wmt_file.h"

namespace mtf {

struct CorpusFiles {
  std::vector<std::string> references;
  size_t columns = 1;  ///< number of tab-separated references in each line of a file
  /// A file for each system; empty: standard input, with tabs between the systems.
  std::vector<std::string> outputs = {};
  bool baseline_first = false;  ///< the first system is the baseline of the comparison
  TextLimit limit = {.setting = "--max-line-bytes"};
};

struct Corpus {
  std::vector<std::string> names;                 ///< [systems]: names in tables
  std::vector<std::vector<std::string>> systems;  ///< [systems, sentences]
  std::vector<std::string> sources;               ///< [systems]: names in messages
  References references;
  /// [sentences]; empty if the references do not contain them.
  std::vector<SentenceOrigin> origins;

  size_t sentences() const { return systems.front().size(); }
};

/// Reads files of lines, or of the WMT shared tasks (.sgm, .xml), plain or .gz. Throws Error: kUsage when the
/// numbers of lines differ, two systems have the same name, or lines of standard input have different numbers
/// of tabs; kData when a file cannot be read.
Corpus read_corpus(const CorpusFiles& files);

/// Selects sentences by their origin. An empty field selects all.
struct OriginFilter {
  std::string language = {};  ///< "en", or "non-en" for all other languages
  /// A regular expression that is searched in the domain; a leading "country:" is ignored.
  std::string domain = {};
};

/// Returns the sentences that the filter selects, possibly none. Throws Error (kUsage) when the references do
/// not contain origins, or when the domain is not a valid regular expression.
Corpus subset_of(const Corpus& corpus, const OriginFilter& filter);

}  // namespace mtf
