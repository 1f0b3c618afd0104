// Where the test sets of the WMT shared tasks are to be had.
#pragma once

#include <string>

namespace mtf {

/// Throws Error (kUsage), which says in one line where the files of the test set ("wmt14") are. sacreBLEU
/// downloads them; mtf-bleu does not.
[[noreturn]] void throw_no_test_set(const std::string& name);

}  // namespace mtf
