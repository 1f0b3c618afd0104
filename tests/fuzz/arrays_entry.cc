// The entries for arrays in files: NPY and NPZ, CIFAR.
#include "data/sources/cifar.h"
#include "data/sources/npy.h"
#include "tests/fuzz/entries.h"
#include "tests/fuzz/expectations.h"

namespace mtf::fuzz {
namespace {

void read_last(const Source& source) {
  std::vector<std::vector<std::byte>> values;
  std::vector<FeatureSlice> slices;
  int64_t bytes = 0;
  for (const Feature& feature : source.features()) bytes += feature.bytes();
  if (bytes > 1 << 20) return;
  for (const Feature& feature : source.features())
    slices.push_back({values.emplace_back(static_cast<size_t>(feature.bytes())).data()});
  const int64_t last = source.examples() - 1;
  source.read({&last, 1}, slices);
}

/// Opens an array under a name that scales bytes and under one that does not.
void open_array(const NpyArray& array) {
  for (const char* name : {"image", "labels"}) {
    succeeds([&] {
      const auto source = open_arrays({{name, array}}, {});
      read_last(*source);
      if (source->examples() < 1000) source->check_labels({1});
    });
  }
}

}  // namespace

void run_npy(std::string_view input) {
  constexpr int64_t kMostBytes = 1 << 24;
  const std::string path = write_input("input.npy", input);
  succeeds([&] { open_array(read_npy(path, kMostBytes)); });
  succeeds([&] {
    for (const auto& [name, array] : read_npz(path, {}, kMostBytes)) open_array(array);
  });
}

void run_cifar(std::string_view input) {
  const std::string path = write_input("input.bin", input);
  for (const CifarLabels labels : {CifarLabels::kFine, CifarLabels::kCoarse}) {
    succeeds([&] {
      const auto source = open_cifar({path}, labels);
      read_last(*source);
      source->check_labels({100});
    });
  }
}

}  // namespace mtf::fuzz
