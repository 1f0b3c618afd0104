// The test sets of sacreBLEU: their names, and the sources of those of the WMT shared tasks.
#pragma once

#include <string>

namespace mtf {

/// Returns what `sacrebleu --list` prints: all test sets, those of a language pair in either direction, or
/// the pairs and fields of one test set. An empty argument means that it is not given. Throws Error (kUsage)
/// for an unknown name or pair.
std::string list_test_sets(const std::string& name, const std::string& pair);

/// Throws Error (kUsage), which says where the files of the test set ("wmt14") are. sacreBLEU downloads them;
/// mtf-bleu does not.
[[noreturn]] void throw_no_test_set(const std::string& name);

}  // namespace mtf
