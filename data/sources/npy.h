// Arrays of NumPy: NPY files, and NPZ archives of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/elements.h"
#include "data/sources/array_source.h"
#include "engine/config/types.h"

namespace mtf {

/// One array: the numbers lie in the mapped file, or in memory where they were compressed.
struct NpyArray {
  std::string path;  ///< FILE, or FILE:MEMBER
  StoredElements elements;
  bool fortran_order = false;  ///< the first dimension runs fastest
  std::vector<int64_t> sizes;
  std::shared_ptr<const void> owner;
  std::span<const std::byte> data;
  bool in_memory = false;
};

/// The largest array that is decompressed into memory.
inline constexpr int64_t kMostArrayBytes = int64_t{1} << 36;

/// Reads an NPY file, plain or .gz. Throws Error (kData), which says what is wrong: Python objects, texts, structures,
/// complex numbers, a damaged header, missing or surplus bytes.
NpyArray read_npy(const std::string& path, int64_t most_bytes = kMostArrayBytes);
/// Reads arrays of an NPZ file, by their names without `.npy`: those that are wanted, or without `wanted` all. Throws Error:
/// kConfig for a name that the file does not have, kData for what read_npy() refuses.
std::map<std::string, NpyArray> read_npz(const std::string& path,
                                         const std::vector<config::Name>& wanted = {},
                                         int64_t most_bytes = kMostArrayBytes);

/// Returns a source of arrays whose first dimension is that of the examples. Floating-point numbers become float32; whole
/// numbers int32, but uint8, other than in the feature `labels`, float32 from 0 to 1. `dimensions` names the other
/// dimensions by feature.
std::unique_ptr<ArraySource> open_arrays(const std::vector<std::pair<std::string, NpyArray>>& arrays,
                                         const config::Named<std::vector<config::Name>>& dimensions,
                                         const Mark& mark = {});

}  // namespace mtf
