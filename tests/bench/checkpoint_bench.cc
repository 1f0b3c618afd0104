// Compares the speed of write_checkpoint() with that of a plain write and fsync of the same bytes, in turns.
//
//   checkpoint_bench [DIRECTORY [MEGABYTES [ROUNDS]]]     // a directory on the disk in question
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "engine/base/check.h"
#include "engine/base/file.h"
#include "engine/checkpoint/checkpoint.h"

namespace mtf {
namespace {

template <class Action>
double seconds_of(const Action& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// Tensors like the weights of a model, large matrices and small vectors, with the bytes of `bytes`.
std::vector<CheckpointTensor> tensors_in(std::span<const std::byte> bytes) {
  std::vector<CheckpointTensor> tensors;
  const auto take = [&](const std::string& name, size_t wanted) {
    const auto count = static_cast<int64_t>(std::min(wanted, bytes.size()) / sizeof(float));
    if (count == 0) return;
    tensors.push_back({.name = name,
                       .dtype = DType::kFloat32,
                       .shape = {{"elements", count}},
                       .begin = {},
                       .size = {},
                       .data = bytes.first(static_cast<size_t>(count) * sizeof(float))});
    bytes = bytes.subspan(tensors.back().data.size());
  };
  for (int layer = 0; bytes.size() >= sizeof(float); ++layer) {
    take(fmt::format("layer_{:03}/kernel", layer), 16 << 20);
    take(fmt::format("layer_{:03}/bias", layer), 8 << 10);
  }
  return tensors;
}

void write_plainly(const std::string& path, std::span<const std::byte> bytes) {
  const File file(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
  MTF_CHECK(file.open() && file.write(bytes) == 0 && file.sync() == 0, "cannot write {}", path);
}

void run(const std::string& directory, size_t bytes, int rounds) {
  std::vector<std::byte> data(bytes);
  std::mt19937_64 random(1);
  for (size_t i = 0; i + 8 <= bytes; i += 8) {
    const uint64_t word = random();
    std::memcpy(data.data() + i, &word, 8);
  }
  const std::vector<CheckpointFile> files = {{"weights.safetensors", tensors_in(data)}};
  const std::string plain = directory + "/plain", checkpoints = directory + "/checkpoints";
  std::filesystem::create_directories(directory);
  std::vector<double> plain_seconds, write_seconds, read_seconds;
  for (int round = 0; round < rounds; ++round) {
    const auto measure_plain = [&] {
      plain_seconds.push_back(seconds_of([&] { write_plainly(plain, data); }));
      std::filesystem::remove(plain);
    };
    if (round % 2 == 0) measure_plain();
    write_seconds.push_back(seconds_of([&] { write_checkpoint(checkpoints, Manifest{}, files); }));
    read_seconds.push_back(
        seconds_of([&] { CheckpointReader(list_checkpoints(checkpoints)[0].path).verify(); }));
    std::filesystem::remove_all(checkpoints);
    if (round % 2 == 1) measure_plain();
    fmt::print("plain {:.3f} s, checkpoint {:.3f} s, verified in {:.3f} s\n", plain_seconds.back(),
               write_seconds.back(), read_seconds.back());
  }
  const double gigabytes = static_cast<double>(bytes) / 1e9;
  const auto report = [&](const char* what, double plain_time, double write_time) {
    fmt::print("{}: plain {:.2f} GB/s, checkpoint {:.2f} GB/s, ratio {:.2f}\n", what, gigabytes / plain_time,
               gigabytes / write_time, plain_time / write_time);
  };
  report("medians", median(plain_seconds), median(write_seconds));
  report("fastest", std::ranges::min(plain_seconds), std::ranges::min(write_seconds));
  fmt::print("verified at {:.2f} GB/s\n", gigabytes / median(read_seconds));
}

}  // namespace
}  // namespace mtf

int main(int count, char** arguments) {
  const std::string directory = count > 1 ? arguments[1] : "checkpoint_bench.tmp";
  const size_t megabytes = count > 2 ? std::strtoull(arguments[2], nullptr, 10) : 1024;
  mtf::run(directory, megabytes << 20, count > 3 ? std::atoi(arguments[3]) : 7);
}
