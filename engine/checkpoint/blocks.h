// What must hold between the variables, blocks and files of a manifest, and what blocks are called in files.
// For the manifest's parser and for the writer and reader of checkpoints.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/checkpoint/manifest.h"

namespace mtf {

/// Longest list of dimensions that a manifest may give a variable.
inline constexpr size_t most_dimensions = 64;

/// Under which name a block lies in its file: NAME when it is all of the variable, else NAME@BEGIN, such as
/// "layer_1/kernel@0,512".
std::string tensor_name(const std::string& variable, const Shape& shape, std::span<const int64_t> begin,
                        std::span<const int64_t> size);
std::vector<int64_t> sizes_of(const Shape& shape);
std::vector<std::string> names_of(const Shape& shape);

/// What is wrong with the files and blocks of a manifest; empty: every block lies in its variable and its
/// file, the blocks of a variable hold each element once, and the header and the blocks of a file each of its
/// bytes. Takes time O(blocks · (rank + log blocks)).
std::string problem_of_blocks(const Manifest& manifest);

/// Throws DamagedCheckpoint: "`path`: `what`", and what a person can do.
[[noreturn]] void throw_damaged(const std::string& path, const std::string& what);

}  // namespace mtf
