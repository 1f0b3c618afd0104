// Turns exceptions of any library into an Error with a message for the user.
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
/// kSystem (the system refused something, or, for any other exception, `program` has a bug).
Error as_error(const std::exception& error, std::string_view program);

/// Prints an exception on the standard error output, for a program's main(). Returns the exit code.
int report_failure(const std::exception& error, std::string_view program);

}  // namespace mtf
