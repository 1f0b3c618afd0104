// The entry for the manifest of a checkpoint: the input as it is, and with a checksum that matches. to_json()
// of what was read must read back to the same manifest.
#include <fmt/format.h>

#include "engine/base/check.h"
#include "engine/base/hash.h"
#include "engine/checkpoint/manifest.h"
#include "tests/fuzz/entries.h"
#include "tests/fuzz/expectations.h"

namespace mtf::fuzz {
namespace {

/// Replaces the last entry of `text` by a checksum of what is before it.
std::string with_checksum(std::string_view text) {
  const std::string_view body = text.substr(0, text.rfind("  \"xxh128\": \""));
  return fmt::format("{}  \"xxh128\": \"{}\"\n}}\n", body, hash128_hex(body));
}

void read(const std::string& text) {
  succeeds([&] {
    const std::string json = to_json(parse_manifest(text, "manifest.json"));
    const std::string again = to_json(parse_manifest(json, "written/manifest.json"));
    MTF_CHECK(again == json, "another manifest after reading back\n{}\n{}", json, again);
  });
}

}  // namespace

void run_manifest(std::string_view input) {
  read(std::string(input));
  read(with_checksum(input));
}

}  // namespace mtf::fuzz
