// Prepares the process of a run, before anything else is done.
#pragma once

#include <string>
#include <string_view>

namespace mtf {

/// Makes a write beyond the file size limit (`ulimit -f`), or to a pipe without reader, return an error instead of
/// ending the process, and opens /dev/null for closed standard streams: otherwise a file of the run could get the
/// descriptor of such a stream, and messages would be written into it. Writes to a standard output that was closed
/// still fail, so that a result does not get lost unnoticed.
void prepare_process();

/// Ends the process as SIGPIPE does by default, without a message: nobody reads its result any more.
void end_by_broken_pipe();

/// Returns the version and a hash of the program's file; all processes of a run must have the same.
std::string build_of_program(std::string_view version);

/// Returns an identifier of this boot of the machine, which is the same in all containers; empty if it is unknown.
std::string machine_id();

}  // namespace mtf
