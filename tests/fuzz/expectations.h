// Checks of what every reader promises, and the files that the entries read.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "engine/base/error.h"

namespace mtf::fuzz {

/// Checks that every problem has a message, and that everything printed is UTF-8 without control characters
/// other than newlines.
void expect_printable(const Error& error);
/// The same for all collected problems.
void expect_printable(const Diagnostics& diagnostics);

/// Runs `read`; returns true if it threw no Error. An Error must be printable.
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

/// Returns the path of `name` in a directory of this process, which is in memory if there is /dev/shm, and is
/// removed when the process ends.
std::string input_path(const std::string& name);
/// Writes a file into that directory and returns its path.
std::string write_input(const std::string& name, std::string_view bytes);
/// Removes a file of that directory, if it exists.
void remove_input(const std::string& name);

}  // namespace mtf::fuzz
