// A mapped file that becomes shorter: the kernel answers a read behind its new end with SIGBUS, which here ends the process
// with a line that names the file, and exit code 1.
#pragma once

#include <cstddef>
#include <string>

namespace mtf {

/// Says that `size` bytes from `memory` on are those of the file `path`. Of more than 1,024 files at a time the further ones
/// end the process without a line.
void watch_mapping(const void* memory, size_t size, const std::string& path);
/// Says that they no longer are.
void forget_mapping(const void* memory);

}  // namespace mtf
