#include "trainer/checkpoint/file_names.h"

#include <fmt/format.h>

#include <algorithm>

namespace mtf {

namespace {

constexpr std::string_view kEnding = ".safetensors";

}  // namespace

std::string file_name_of_process(std::string_view stem, int rank, int processes) {
  if (processes == 1) return fmt::format("{}{}", stem, kEnding);
  return fmt::format("{}-{:05}-of-{:05}{}", stem, rank + 1, processes, kEnding);
}

std::string file_name_of_one(std::string_view name) {
  constexpr std::string_view form = "-00000-of-00000.safetensors";
  if (name.size() < form.size()) return std::string(name);
  const std::string_view stem = name.substr(0, name.size() - form.size()), rest = name.substr(stem.size());
  const bool fits = std::ranges::equal(form, rest, [](char expected, char c) {
    return expected == '0' ? '0' <= c && c <= '9' : expected == c;
  });
  return fits ? fmt::format("{}{}", stem, kEnding) : std::string(name);
}

}  // namespace mtf
