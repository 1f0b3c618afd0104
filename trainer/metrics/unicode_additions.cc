#include "trainer/metrics/unicode_additions.h"

#include <algorithm>
#include <array>

namespace mtf {
namespace {

struct Addition {
  char32_t first;
  char32_t last;
  CharacterClass of_character;
};

constexpr auto kNumber = CharacterClass::kNumber;
constexpr auto kPunctuation = CharacterClass::kPunctuation;
constexpr auto kSymbol = CharacterClass::kSymbol;

/// The additions in ascending order, from `regex` 2026.11.15.
constexpr std::array<Addition, 66> kAdditions = {{
    // clang-format off
    {0x1b4e, 0x1b4f, kPunctuation}, {0x1b7f, 0x1b7f, kPunctuation}, {0x20c1, 0x20c4, kSymbol},
    {0x2427, 0x2429, kSymbol}, {0x2b96, 0x2b96, kSymbol}, {0x2e60, 0x2e63, kPunctuation},
    {0x2ffc, 0x2fff, kSymbol}, {0x31e4, 0x31e5, kSymbol}, {0x31ef, 0x31ef, kSymbol},
    {0xfbc3, 0xfbd2, kSymbol}, {0xfd90, 0xfd91, kSymbol}, {0xfdc8, 0xfdce, kSymbol},
    {0x10d40, 0x10d49, kNumber}, {0x10d6e, 0x10d6e, kPunctuation}, {0x10d8e, 0x10d8f, kSymbol},
    {0x10ec9, 0x10eca, kSymbol}, {0x10ed0, 0x10ed0, kPunctuation}, {0x10ed1, 0x10ed8, kSymbol},
    {0x113d4, 0x113d5, kPunctuation}, {0x113d7, 0x113d8, kPunctuation}, {0x116d0, 0x116e3, kNumber},
    {0x11be1, 0x11be1, kPunctuation}, {0x11bf0, 0x11bf9, kNumber}, {0x11de0, 0x11de9, kNumber},
    {0x1246f, 0x1246f, kNumber}, {0x12475, 0x1247f, kNumber}, {0x12550, 0x12686, kNumber},
    {0x16130, 0x16139, kNumber}, {0x16d6d, 0x16d6f, kPunctuation}, {0x16d70, 0x16d79, kNumber},
    {0x16ff4, 0x16ff6, kNumber}, {0x1cc00, 0x1ccef, kSymbol}, {0x1ccf0, 0x1ccf9, kNumber},
    {0x1ccfa, 0x1ccfc, kSymbol}, {0x1cd00, 0x1ceb3, kSymbol}, {0x1ceba, 0x1ced0, kSymbol},
    {0x1ced2, 0x1ced4, kSymbol}, {0x1cedd, 0x1cefd, kSymbol}, {0x1d1eb, 0x1d1ff, kSymbol},
    {0x1d253, 0x1d25a, kSymbol}, {0x1d25d, 0x1d25e, kSymbol}, {0x1d260, 0x1d27f, kSymbol},
    {0x1db00, 0x1db1c, kSymbol}, {0x1e5f1, 0x1e5fa, kNumber}, {0x1e5ff, 0x1e5ff, kPunctuation},
    {0x1f1ae, 0x1f1ae, kSymbol}, {0x1f6d8, 0x1f6d9, kSymbol}, {0x1f777, 0x1f77a, kSymbol},
    {0x1f7da, 0x1f7db, kSymbol}, {0x1f7f1, 0x1f7ff, kSymbol}, {0x1f8b2, 0x1f8bb, kSymbol},
    {0x1f8c0, 0x1f8c1, kSymbol}, {0x1f8d0, 0x1f8d8, kSymbol}, {0x1fa54, 0x1fa57, kSymbol},
    {0x1fa89, 0x1fa8f, kSymbol}, {0x1fabe, 0x1fabe, kSymbol}, {0x1fac6, 0x1fac6, kSymbol},
    {0x1fac8, 0x1fac8, kSymbol}, {0x1facc, 0x1facd, kSymbol}, {0x1fadc, 0x1fadd, kSymbol},
    {0x1fadf, 0x1fadf, kSymbol}, {0x1fae9, 0x1faeb, kSymbol}, {0x1faef, 0x1faef, kSymbol},
    {0x1faf9, 0x1fafa, kSymbol}, {0x1fbcb, 0x1fbef, kSymbol}, {0x1fbfa, 0x1fbfa, kSymbol},
    // clang-format on
}};

}  // namespace

CharacterClass class_of_addition(char32_t character) {
  const auto* const found = std::ranges::lower_bound(kAdditions, character, {}, &Addition::last);
  return found != kAdditions.end() && found->first <= character ? found->of_character
                                                                : CharacterClass::kOther;
}

}  // namespace mtf
