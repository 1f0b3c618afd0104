// What every reader promises, and the files that the entries read from.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "engine/base/error.h"

namespace mtf::fuzz {

/// Every problem has a message, and all that is printed is UTF-8 without control characters other than the
/// ends of lines.
void expect_printable(const Error& error);
/// The same for all that was collected.
void expect_printable(const Diagnostics& diagnostics);

/// Runs `read`; true when it threw no Error. An Error must be printable.
template <class Read>
bool succeeds(const Read& read) {
  try {
    read();
    return true;
  } catch (const Error& error) {
    expect_printable(error);
    return false;
  }
}

/// The path of `name` in a directory of this process, in memory where there is /dev/shm; it goes with the
/// process.
std::string input_path(const std::string& name);
/// Writes a file there and returns its path.
std::string write_input(const std::string& name, std::string_view bytes);
/// Removes a file there, if there is one.
void remove_input(const std::string& name);

}  // namespace mtf::fuzz
