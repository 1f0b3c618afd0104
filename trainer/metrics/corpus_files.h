// The texts that mtf-bleu scores: references and the outputs of one system or several.
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
  size_t columns = 1;  ///< references in the one file, between tabs
  std::vector<std::string> outputs =
      {};                       ///< a file for each system; none: standard input, with tabs between them
  bool baseline_first = false;  ///< the first system is what the others are compared with
  TextLimit limit = {.setting = "--max-line-bytes"};
};

struct Corpus {
  std::vector<std::string> names;                 ///< of the systems, as a table shows them
  std::vector<std::vector<std::string>> systems;  ///< [systems, sentences]
  std::vector<std::string> sources;               ///< of the systems, for messages
  References references;
  std::vector<SentenceOrigin> origins;  ///< of each sentence; empty where the references do not tell them

  size_t sentences() const { return systems.front().size(); }
};

/// Files are plain or .gz, lines of text or of WMT (.sgm, .xml). Throws Error: kUsage when texts differ in
/// their numbers of lines, when two systems have one name, or lines of standard input differ in their tabs;
/// kData when a file cannot be read.
Corpus read_corpus(const CorpusFiles& files);

/// Sentences that are chosen by where they are from. Empty: any.
struct OriginFilter {
  std::string language = {};  ///< "en"; or all others, "non-en"
  std::string domain =
      {};  ///< a regular expression that is found in the domain; "country:" in front is left out
};

/// The sentences that the filter lets pass, which may be none. Throws Error (kUsage) when the references do
/// not say where they are from, or for what is no regular expression.
Corpus subset_of(const Corpus& corpus, const OriginFilter& filter);

}  // namespace mtf
