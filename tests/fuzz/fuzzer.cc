// The fuzzer of one entry, MTF_FUZZ_ENTRY, for libFuzzer.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/entries.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const mtf::fuzz::Entry& entry = mtf::fuzz::entry_called(MTF_FUZZ_ENTRY);
  entry.run({reinterpret_cast<const char*>(data), size});
  return 0;
}
