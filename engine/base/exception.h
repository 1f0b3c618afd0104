// Turns exceptions of any library into an Error with a message for the user, and output that is lost.
//
//   } catch (const std::exception& error) {
//     throw as_error(error, "mtf-train");
//   }
#pragma once

#include <exception>
#include <string_view>

#include "engine/base/error.h"

namespace mtf {

/// Returns `error` itself if it is an Error; otherwise an Error of kind kMemory (memory is exhausted) or
/// kSystem (the system refused something, such as printing, or, for any other exception, `program` has a bug).
Error as_error(const std::exception& error, std::string_view program);

/// Returns the Error (kSystem) of a standard output that cannot be written, with the system's error number. If that is
/// EPIPE it ends the process as SIGPIPE does: nobody reads the result any more, nor wants a message.
Error lost_output(int error);

/// Throws lost_output() when something that was printed to the standard output is lost (a full disk). A program's main()
/// calls it at its end.
void check_standard_output();

/// Prints an exception on the standard error output, for a program's main(). Returns the exit code.
int report_failure(const std::exception& error, std::string_view program);

}  // namespace mtf
