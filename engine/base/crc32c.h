// CRC-32C (Castagnoli; RFC 3720, appendix B.4): the checksum of TFRecord files.
#pragma once

#include <cstdint>
#include <string_view>

namespace mtf {

/// The checksum of `bytes`; with the checksum of what stands before them as `crc`, that of both together.
/// By SSE4.2 where the machine has it.
uint32_t crc32c(std::string_view bytes, uint32_t crc = 0);

/// The same from tables, for machines without the instruction.
uint32_t crc32c_by_table(std::string_view bytes, uint32_t crc = 0);

}  // namespace mtf
