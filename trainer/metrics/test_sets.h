// The test sets of sacreBLEU: their names, and where those of the WMT shared tasks are to be had.
#pragma once

#include <string>

namespace mtf {

/// What `sacrebleu --list` prints: all test sets, those of a language pair in either direction, or the pairs
/// and fields of one test set. Empty texts: not given. Throws Error (kUsage) for an unknown name or pair.
std::string list_test_sets(const std::string& name, const std::string& pair);

/// Throws Error (kUsage), which says in one line where the files of the test set ("wmt14") are. sacreBLEU
/// downloads them; mtf-bleu does not.
[[noreturn]] void throw_no_test_set(const std::string& name);

}  // namespace mtf
