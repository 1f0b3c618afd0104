// Synthetic texts for tests of vocabularies.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace mtf {

/// Returns sentences of words of two to four syllables, some of which are far more frequent than others.
inline std::vector<std::string> made_up_texts(int count) {
  const std::vector<std::string> syllables = {"ha",  "us", "ba",  "um",  "kö", "nig", "ler",
                                              "nen", "ge", "hen", "sta", "dt", "ei",  "ne",
                                              "wei", "ß",  "ver", "sch", "ön", "lich"};
  std::mt19937 random(7);
  std::vector<std::string> words(400);
  for (std::string& word : words) {
    for (uint32_t left = 2 + random() % 3; left > 0; --left) word += syllables[random() % syllables.size()];
  }
  std::vector<std::string> texts(static_cast<size_t>(count));
  for (std::string& text : texts) {
    for (uint32_t left = 3 + random() % 10; left > 0; --left)
      text += words[random() % (1 + random() % words.size())] + (left > 1 ? " " : ".");
  }
  return texts;
}

inline std::string utf8(char32_t c) {
  const auto byte = [](char32_t bits) { return static_cast<char>(bits); };
  if (c < 0x80) return {byte(c)};
  if (c < 0x800) return {byte(0xC0 | c >> 6), byte(0x80 | (c & 63))};
  if (c < 0x10000) return {byte(0xE0 | c >> 12), byte(0x80 | (c >> 6 & 63)), byte(0x80 | (c & 63))};
  return {byte(0xF0 | c >> 18), byte(0x80 | (c >> 12 & 63)), byte(0x80 | (c >> 6 & 63)),
          byte(0x80 | (c & 63))};
}

/// Returns up to 30 characters, half of them ASCII (including control characters), the others from all of
/// Unicode.
inline std::string random_unicode(std::mt19937& random) {
  std::string text;
  for (uint32_t length = random() % 30; length > 0; --length) {
    const uint32_t kind = random() % 6;
    text += utf8(kind < 3   ? random() % 0x80
                 : kind < 5 ? 0x80 + random() % 0xD780
                            : 0x10000 + random() % 0x100000);
  }
  return text;
}

}  // namespace mtf
