// The entry for safetensors files: every byte that a tensor claims to have can be read, and writing the
// tensors again gives an equal file.
#include <algorithm>
#include <numeric>

#include "engine/safetensors/safetensors.h"
#include "tests/fuzz/entries.h"
#include "tests/fuzz/expectations.h"

namespace mtf::fuzz {
namespace {

void expect_equal(const SafetensorsFile& file, const SafetensorsFile& again) {
  MTF_CHECK(again.tensors().size() == file.tensors().size(), "{} tensors became {}", file.tensors().size(),
            again.tensors().size());
  for (const StoredTensor& tensor : file.tensors()) {
    const StoredTensor* copy = again.find(tensor.name);
    MTF_CHECK(copy, "tensor {} is gone", tensor.name);
    MTF_CHECK(copy->dtype == tensor.dtype && copy->shape == tensor.shape &&
                  copy->dimensions == tensor.dimensions && std::ranges::equal(copy->data, tensor.data),
              "tensor {} is another one", tensor.name);
  }
}

}  // namespace

void run_safetensors(std::string_view input) {
  const std::string path = write_input("input.safetensors", input);
  succeeds([&] {
    const SafetensorsFile file(path);
    succeeds([&] { file.at("no such tensor"); });
    const std::string copy = input_path("copy.safetensors");
    write_safetensors(copy, file.tensors(), file.metadata());
    expect_equal(file, SafetensorsFile(copy));
  });
}

}  // namespace mtf::fuzz
