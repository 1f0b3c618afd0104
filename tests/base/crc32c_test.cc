#include "engine/base/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace mtf {
namespace {

using Checksum = uint32_t (*)(std::string_view, uint32_t);

/// Runs each test for both implementations; the parameter is true for the one with tables.
class Crc32c : public ::testing::TestWithParam<bool> {
 protected:
  const Checksum crc = GetParam() ? &crc32c_by_table : &crc32c;
};

std::string counting(int first, int step) {
  std::string bytes(32, '\0');
  for (char& byte : bytes) {
    byte = static_cast<char>(first);
    first += step;
  }
  return bytes;
}

/// The values are those of RFC 3720, appendix B.4, which prints the bytes of a checksum in network order.
TEST_P(Crc32c, HasTheValuesOfRfc3720) {
  EXPECT_EQ(crc(std::string(32, '\0'), 0), 0x8a9136aau);
  EXPECT_EQ(crc(std::string(32, '\xff'), 0), 0x62a8ab43u);
  EXPECT_EQ(crc(counting(0, 1), 0), 0x46dd794eu);
  EXPECT_EQ(crc(counting(31, -1), 0), 0x113fdb5cu);
  std::string read_command(48, '\0');  // an iSCSI SCSI Read (10) command
  for (const auto& [at, value] : {std::pair{0, 0x01},
                                  {1, 0xc0},
                                  {16, 0x14},
                                  {22, 0x04},
                                  {27, 0x14},
                                  {31, 0x18},
                                  {32, 0x28},
                                  {40, 0x02}})
    read_command[at] = static_cast<char>(value);
  EXPECT_EQ(crc(read_command, 0), 0xd9963a56u);
  EXPECT_EQ(crc("123456789", 0), 0xe3069283u);
  EXPECT_EQ(crc("", 0), 0u);
}

TEST_P(Crc32c, GoesOnFromTheChecksumOfTheBeginning) {
  std::string bytes;
  for (int i = 0; i < 100; ++i) bytes += static_cast<char>(i * i * 7);
  for (size_t cut = 0; cut <= bytes.size(); ++cut)
    EXPECT_EQ(crc(std::string_view(bytes).substr(cut), crc(bytes.substr(0, cut), 0)), crc32c(bytes)) << cut;
}

TEST_P(Crc32c, DoesNotDependOnAlignment) {
  const std::string bytes = counting(3, 5) + counting(7, 11);
  const uint32_t expected = crc32c(std::string_view(bytes).substr(5, 40));
  std::string shifted = bytes.substr(5, 40);
  for (int shift = 0; shift < 9; ++shift) {
    EXPECT_EQ(crc(std::string_view(shifted).substr(shift), 0), expected) << shift;
    shifted.insert(0, 1, 'x');
  }
}

INSTANTIATE_TEST_SUITE_P(Both, Crc32c, ::testing::Bool(),
                         [](const auto& p) { return p.param ? "by_table" : "by_instruction"; });

}  // namespace
}  // namespace mtf
