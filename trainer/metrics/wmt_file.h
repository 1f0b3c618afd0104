// Reads the sentences in files of the WMT shared tasks: .sgm before 2021 and .xml since then.
//
//   if (is_wmt_file(path)) use(read_wmt_references(path).references);
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mtf {

/// True for the file name extensions .sgm, .sgml and .xml in any case, optionally followed by .gz.
bool is_wmt_file(std::string_view path);

/// The origin of a sentence, from the attributes of its document.
struct SentenceOrigin {
  std::string language;  ///< original language; empty if unknown
  std::string domain;    ///< empty if unknown
};

struct WmtReferences {
  std::vector<std::vector<std::string>> references;
  std::vector<SentenceOrigin> origins;  ///< [sentences]
};

/// Reads the single reference of an .sgm file, or all references of an .xml file, sorted by translator.
/// Sentences without any reference and test suites are omitted. White space is collapsed to single blanks.
/// Entities of .sgm files are not resolved, as in sacreBLEU (tokeniser 13a resolves them). Throws Error
/// (kData) when the file cannot be read or has no sentence.
WmtReferences read_wmt_references(const std::string& path);

/// Reads the same sentences of the only system of an .xml file, which must have all of them, or those of an
/// .sgm file.
std::vector<std::string> read_wmt_hypothesis(const std::string& path);

}  // namespace mtf
