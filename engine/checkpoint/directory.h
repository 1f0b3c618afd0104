// Names of checkpoint directories, and their removal; used by the writer and the reader.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mtf {

/// Returns the step of "step-00001000"; nothing for any other name.
std::optional<int64_t> step_of(std::string_view name);

/// Returns ".step-00001000.tmp", the name of a checkpoint that is being written or removed. It is never taken
/// for a checkpoint.
std::string unfinished_name(int64_t step);
/// Returns ".step-00001000.old", the name that a complete checkpoint has while another one takes its place,
/// on file systems that cannot exchange two names.
std::string replaced_name(int64_t step);

/// Returns "damaged-step-00001000", the name of a checkpoint that was set aside. It is never taken for a
/// checkpoint.
std::string set_aside_name(int64_t step);

/// Removes a file or a directory with its contents, if it exists. Returns 0 or the system's error number.
int remove_tree(const std::string& path);

}  // namespace mtf
