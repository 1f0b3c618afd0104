// CRC-32C (Castagnoli; RFC 3720, appendix B.4), the checksum of TFRecord files.
#pragma once

#include <cstdint>
#include <string_view>

namespace mtf {

/// Returns the checksum of `bytes`. If `crc` is the checksum of the bytes before them, the result is that of
/// both together. Uses SSE4.2 where the machine has it.
uint32_t crc32c(std::string_view bytes, uint32_t crc = 0);

/// The same checksum computed from tables, for machines without the instruction.
uint32_t crc32c_by_table(std::string_view bytes, uint32_t crc = 0);

}  // namespace mtf
