// The names of a checkpoint's files: "weights.safetensors" where one process writes it, and where several do,
// "weights-00002-of-00004.safetensors".
#pragma once

#include <string>
#include <string_view>

namespace mtf {

/// Returns the name of the file that process `rank` of `processes` writes.
std::string file_name_of_process(std::string_view stem, int rank, int processes);

/// Returns the name that the file would have if one process had written it. Other names are returned as they are.
std::string file_name_of_one(std::string_view name);

}  // namespace mtf
