// What a run needs of its process, before anything else.
#pragma once

#include <string>
#include <string_view>

namespace mtf {

/// A file that reaches the limit of its size (`ulimit -f`) is an error of the write instead of the process's
/// end. Standard streams that are closed become /dev/null: no file of the run can get the number of one, and
/// messages into itself.
void prepare_process();

/// The version and a hash of the program's file: what the processes of a run must have in common.
std::string build_of_program(std::string_view version);

}  // namespace mtf
