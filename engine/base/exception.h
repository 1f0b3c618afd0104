// Exceptions of the libraries below, in words for the one who started the program.
//
//   } catch (const std::exception& error) {
//     throw as_error(error, "mtf-train");
//   }
#pragma once

#include <exception>
#include <string_view>

#include "engine/base/error.h"

namespace mtf {

/// `error` itself where it is an Error; else one of kind kMemory or kSystem that says what went wrong: no
/// more memory, what the system refused, and of anything else that `program` has a mistake.
Error as_error(const std::exception& error, std::string_view program);

/// What a program's main() does with an exception: says it on the standard error output. Returns the exit
/// code.
int report_failure(const std::exception& error, std::string_view program);

}  // namespace mtf
