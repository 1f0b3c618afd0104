#include "engine/base/base64.h"

#include <gtest/gtest.h>

namespace mtf {
namespace {

// The test vectors of RFC 4648, section 10, and bytes above 127.
TEST(Base64, IsThatOfTheStandard) {
  EXPECT_EQ(base64(""), "");
  EXPECT_EQ(base64("f"), "Zg==");
  EXPECT_EQ(base64("fo"), "Zm8=");
  EXPECT_EQ(base64("foo"), "Zm9v");
  EXPECT_EQ(base64("foob"), "Zm9vYg==");
  EXPECT_EQ(base64("fooba"), "Zm9vYmE=");
  EXPECT_EQ(base64("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64("\xff\xfe\xfd"), "//79");
}

TEST(Base64, ComesBack) {
  for (const std::string bytes : {"", "f", "fo", "foo", "foob", "fooba", "foobar", "\xff\xfe\xfd"})
    EXPECT_EQ(decode_base64(base64(bytes)), bytes);
  for (const char* other : {"Zg=", "Zg", "Z===", "Zm9*", "Zg==Zg=="})
    EXPECT_EQ(decode_base64(other), std::nullopt);
}

}  // namespace
}  // namespace mtf
