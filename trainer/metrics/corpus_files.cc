#include "trainer/metrics/corpus_files.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <regex>

#include "engine/base/error.h"
#include "trainer/metrics/text_lines.h"
#include "trainer/metrics/unicode.h"

namespace mtf {
namespace {

constexpr const char* kStandardInput = "standard input";

void read_references(const CorpusFiles& files, Corpus& corpus, std::vector<std::string>& names) {
  const auto add = [&](std::vector<std::vector<std::string>> references, const std::string& path) {
    for (std::vector<std::string>& reference : references) {
      corpus.references.push_back(std::move(reference));
      names.push_back(path);
    }
  };
  for (const std::string& path : files.references) {
    if (is_wmt_file(path)) {
      WmtReferences read = read_wmt_references(path);
      if (corpus.origins.empty()) corpus.origins = std::move(read.origins);
      add(std::move(read.references), path);
    } else {
      add(split_columns(read_lines(path, files.limit), files.columns, path), path);
    }
  }
}

/// Reads the outputs of one or several systems, separated by tabs.
void read_standard_input(const TextLimit& limit, Corpus& corpus) {
  LineSplitter splitter(kStandardInput, read_from(STDIN_FILENO, kStandardInput), limit);
  const std::vector<std::string> lines = read_lines(splitter);
  const auto systems = lines.empty() ? 1 : 1 + static_cast<size_t>(std::ranges::count(lines.front(), '\t'));
  corpus.systems.resize(systems);
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto found = 1 + static_cast<size_t>(std::ranges::count(lines[i], '\t'));
    if (found != systems)
      throw Error(
          ErrorKind::kUsage,
          fmt::format("{}: line {} has {} outputs, line 1 has {}", kStandardInput, i + 1, found, systems),
          "one tab between the outputs of two systems; with `-i FILE` a tab is part of the text");
    std::string_view rest = lines[i];
    for (std::vector<std::string>& system : corpus.systems) {
      const size_t end = std::min(rest.find('\t'), rest.size());
      system.emplace_back(strip_right(rest.substr(0, end)));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
  }
  corpus.sources.assign(systems, kStandardInput);
  for (size_t s = 1; s <= systems; ++s) corpus.names.push_back(fmt::format("System {}", s));
}

void read_outputs(const CorpusFiles& files, Corpus& corpus) {
  for (const std::string& path : files.outputs) {
    if (std::ranges::find(corpus.names, path) != corpus.names.end()) {
      // The baseline is also one of the systems.
      if (files.baseline_first && path == corpus.names.front()) continue;
      throw Error(ErrorKind::kUsage, fmt::format("--input names {} twice", path), "each system once");
    }
    corpus.systems.push_back(is_wmt_file(path) ? read_wmt_hypothesis(path) : read_lines(path, files.limit));
    corpus.names.push_back(path);
  }
  corpus.sources = corpus.names;
}

void name_baseline(bool in_files, std::vector<std::string>& names) {
  if (in_files) {
    names.front() = "Baseline: " + names.front();
  } else {
    names.insert(names.begin(), "Baseline");
    names.pop_back();
  }
}

std::optional<std::regex> regex_of(std::string domain) {
  constexpr std::string_view kCountry = "country:";
  if (domain.empty()) return std::nullopt;
  if (domain.starts_with(kCountry)) domain.erase(0, kCountry.size());
  try {
    return std::regex(domain);
  } catch (const std::regex_error&) {
    throw Error(ErrorKind::kUsage, fmt::format("--subset: `{}` is no regular expression", domain),
                "a part of the name of a domain, such as `news`");
  }
}

bool is_language(const std::string& language, const std::string& wanted) {
  constexpr std::string_view kNot = "non-";
  if (wanted.empty()) return true;
  return wanted.starts_with(kNot) ? language != wanted.substr(kNot.size()) : language == wanted;
}

}  // namespace

Corpus read_corpus(const CorpusFiles& files) {
  Corpus corpus;
  std::vector<std::string> reference_names;
  read_references(files, corpus, reference_names);
  if (files.outputs.empty()) {
    read_standard_input(files.limit, corpus);
  } else {
    read_outputs(files, corpus);
  }
  for (size_t s = 0; s < corpus.systems.size(); ++s)
    check_line_counts(corpus.systems[s].size(), corpus.sources[s], corpus.references, reference_names);
  if (files.baseline_first) name_baseline(!files.outputs.empty(), corpus.names);
  return corpus;
}

Corpus subset_of(const Corpus& corpus, const OriginFilter& filter) {
  if (corpus.origins.empty())
    throw Error(ErrorKind::kUsage, "--origlang and --subset need references that say where they are from",
                "a file of WMT, .sgm or .xml");
  const std::optional<std::regex> domain = regex_of(filter.domain);
  Corpus subset{
      .names = corpus.names, .systems = {}, .sources = corpus.sources, .references = {}, .origins = {}};
  subset.systems.resize(corpus.systems.size());
  subset.references.resize(corpus.references.size());
  for (size_t i = 0; i < corpus.origins.size(); ++i) {
    const SentenceOrigin& origin = corpus.origins[i];
    if (!is_language(origin.language, filter.language)) continue;
    if (domain && (origin.domain.empty() || !std::regex_search(origin.domain, *domain))) continue;
    for (size_t s = 0; s < corpus.systems.size(); ++s) subset.systems[s].push_back(corpus.systems[s][i]);
    for (size_t r = 0; r < corpus.references.size(); ++r)
      subset.references[r].push_back(corpus.references[r][i]);
    subset.origins.push_back(origin);
  }
  return subset;
}

}  // namespace mtf
