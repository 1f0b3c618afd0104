// Sentences in the files of the WMT shared tasks: .sgm of the years before 2021 and .xml since then.
//
//   if (is_wmt_file(path)) for (auto& reference : read_wmt_references(path)) ...
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mtf {

/// By the ending: .sgm, .sgml or .xml in any case, with .gz behind it or not.
bool is_wmt_file(std::string_view path);

/// What the document of a sentence says about it.
struct SentenceOrigin {
  std::string language;  ///< that it was written in; empty: not said
  std::string domain;    ///< empty: not said
};

struct WmtReferences {
  std::vector<std::vector<std::string>> references;
  std::vector<SentenceOrigin> origins;  ///< of each sentence
};

/// One reference of an .sgm file; of an .xml file all, in the order of their translators. Sentences that
/// have no reference at all and test suites are left out. White space is collapsed to single blanks; entities
/// of .sgm stay as they are (tokeniser 13a resolves them), as sacreBLEU leaves them. Throws Error (kData)
/// when the file cannot be read or has no sentence.
WmtReferences read_wmt_references(const std::string& path);

/// The same sentences of the only system of an .xml file, which must have them all, or those of an .sgm file.
std::vector<std::string> read_wmt_hypothesis(const std::string& path);

}  // namespace mtf
