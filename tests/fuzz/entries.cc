#include "tests/fuzz/entries.h"

#include <algorithm>
#include <array>

#include "engine/base/check.h"

namespace mtf::fuzz {

std::span<const Entry> entries() {
  static constexpr std::array<Entry, 10> kEntries = {{{"yaml", run_yaml},
                                                      {"config", run_config},
                                                      {"safetensors", run_safetensors},
                                                      {"manifest", run_manifest},
                                                      {"idx", run_idx},
                                                      {"png", run_png},
                                                      {"jpeg", run_jpeg},
                                                      {"npy", run_npy},
                                                      {"cifar", run_cifar},
                                                      {"table", run_table}}};
  return kEntries;
}

const Entry& entry_called(std::string_view name) {
  const auto found =
      std::ranges::find_if(entries(), [name](const Entry& entry) { return entry.name == name; });
  MTF_CHECK(found != entries().end(), "there is no fuzz entry {}", name);
  return *found;
}

}  // namespace mtf::fuzz
