// Consistency checks between the variables, blocks and files of a manifest, and the names of blocks in files.
// Used by the manifest's parser and by the writer and reader of checkpoints.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/manifest.h"

namespace mtf {

/// The largest number of dimensions that a manifest may give a variable.
inline constexpr size_t most_dimensions = 64;

/// Returns the name of a block in its file: NAME if the block is the whole variable, otherwise NAME@BEGIN,
/// such as "layer_1/kernel@0,512".
std::string tensor_name(const std::string& variable, const Shape& shape, std::span<const int64_t> begin,
                        std::span<const int64_t> size);

/// Returns what is wrong with the files and blocks of a manifest. The result is empty if every block lies
/// within its variable and its file, the blocks of each variable hold each element exactly once, and the
/// header and blocks of each file cover all its bytes. Takes time O(blocks · (rank + log blocks)).
std::string problem_of_blocks(const Manifest& manifest);

/// Throws DamagedCheckpoint: "`path`: `what`", with a hint what the user can do.
[[noreturn]] void throw_damaged(const std::string& path, const std::string& what);

}  // namespace mtf
