// Ids of a vocabulary in another order: here 0 is padding, which a text also begins with in a language model, and 1 ends a
// text; in a tokeniser of another program any ids may.
//
//   const std::vector<int32_t> file_ids = file_ids_of({.size = 50257, .end = 50256});   // GPT-2
//   // file_ids[0] == kNoFileId, file_ids[1] == 50256, file_ids[2] == 2, ..., file_ids[50256] == 1, file_ids[50257] == 0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace mtf {

/// The id of the file of padding that it does not have.
inline constexpr int32_t kNoFileId = -1;

/// The ids of a file that are not what they are here.
struct FileIds {
  int64_t size = 0;  ///< ids of the file, at least 2
  /// What texts begin with, which becomes id 0; nothing: id 0 is a new one, and the file's 0 stands behind all others.
  std::optional<int32_t> begin = {};
  int32_t end = 0;  ///< what ends a text, which becomes id 1; not `begin`
};

/// Returns the id of the file for each id here: `begin` (or kNoFileId), `end`, and the others in their places but for those
/// that had to make room. There are ids.size of them, or one more without `begin`.
std::vector<int32_t> file_ids_of(const FileIds& ids);

}  // namespace mtf
