// What a run needs of its process, before anything else.
#pragma once

namespace mtf {

/// A file that reaches the limit of its size (`ulimit -f`) is an error of the write instead of the process's
/// end. Standard streams that are closed become /dev/null: no file of the run can get the number of one, and
/// messages into itself.
void prepare_process();

}  // namespace mtf
