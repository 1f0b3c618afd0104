#include "engine/base/utf8.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace mtf {
namespace {

TEST(Utf8, TheFirstInvalidByteIsFoundAtEveryOffset) {
  for (size_t before = 0; before < 20; ++before) {
    const std::string front(before, 'a');
    EXPECT_EQ(first_invalid_byte(front + "ä€🙂"), std::nullopt);
    EXPECT_EQ(first_invalid_byte(front + "\xff"), before);
    EXPECT_EQ(first_invalid_byte(front + "ä\xe2\x82"), before + 2);  // cut off
    EXPECT_EQ(first_invalid_byte(front + "\xc0\x80"), before);       // overlong encoding of NUL
    EXPECT_EQ(first_invalid_byte(front + "\xed\xa0\x80"), before);   // half of a surrogate pair
  }
}

TEST(Utf8, CharactersComeBack) {
  const std::string text = std::string("a\0b", 3) + "ß€🙂\u2028";
  std::string back;
  for (const char32_t character : decode_utf8(text)) append_utf8(character, back);
  EXPECT_EQ(back, text);
  EXPECT_EQ(decode_utf8("a\xff"
                        "b"),
            U"a\ufffdb");
}

TEST(Utf8, WhatIsNoCharacterIsReplaced) {
  std::string text;
  append_utf8(char32_t{0xd800}, text);
  append_utf8(char32_t{0x110000}, text, U'?');
  EXPECT_EQ(text, "\ufffd?");
}

}  // namespace
}  // namespace mtf
