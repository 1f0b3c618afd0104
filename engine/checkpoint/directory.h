// Names and removal of checkpoints on disk, for their writer and reader.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace mtf {

/// The step of "step-00001000"; nothing for every other name.
std::optional<int64_t> step_of(std::string_view name);

/// ".step-00001000.tmp": a checkpoint that is being written or removed. Never taken for a checkpoint.
std::string unfinished_name(int64_t step);
/// ".step-00001000.old": a complete checkpoint for the moment in which another takes its name, on file
/// systems that cannot exchange two names.
std::string replaced_name(int64_t step);

/// "damaged-step-00001000": a checkpoint that was set aside. Never taken for one again.
std::string set_aside_name(int64_t step);

/// Removes a file, or a directory and what is in it; nothing there is no error. Returns 0 or the system's
/// error number.
int remove_tree(const std::string& path);

}  // namespace mtf
