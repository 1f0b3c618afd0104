// cuDNN knows engines for the graphs of attention. It looks for them for a described GPU: it only needs to find
// a driver, or what the toolkit has in its place for linkers.
#include <dlfcn.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "engine/backend/cuda/nvidia/cudnn_attention.h"
#include "engine/base/error.h"

namespace mtf::cuda::cudnn {
namespace {

constexpr int kCuda = 13;

/// A GPU of compute capability `version` / 100, as cuDNN 9.28 writes it.
std::string gpu(int version, int multiprocessors, int shared_memory) {
  return fmt::format(
      R"({{"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
          "multiProcessorCount": {}, "smCountOrigin": 0, "warpSize": 32, "maxSharedMemoryPerBlock": 49152,
          "maxSharedMemoryPerBlockOptin": {}, "oversizedSharedMemoryPerBlock": 0,
          "reservedSharedMemoryPerBlock": 1024, "maxRegistersPerSM": 65536, "maxCtasPerSM": 32,
          "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "pciDeviceId": 0, "isTccDriver": 0,
          "supportCoopLaunch": 1, "smClockRateKHz": 1500000, "memClockRateKHz": 1500000, "memoryBusWidth": 5120,
          "l2CacheSize": 41943040, "deviceName": "GPU", "deviceVer": {}, "driverVer": 13000, "cudaDeviceId": 0,
          "totalGlobalMem": 85899345920}})",
      multiprocessors, shared_memory, version);
}

/// Without a driver libcuda.so.1 is from now on the toolkit's. False if there is none either.
bool has_driver() {
  return dlopen("libcuda.so.1", RTLD_NOW) != nullptr ||
         dlopen("/usr/local/cuda/lib64/stubs/libcuda.so", RTLD_NOW) != nullptr;
}

/// Attention of heads that lie side by side in rows.
LibraryAttentionProblem problem(int64_t batch, int64_t heads, int64_t queries, int64_t memory,
                                int64_t columns) {
  const int64_t row = heads * columns;
  const MatrixStrides q{queries * row, columns, row}, k{memory * row, columns, row};
  return {.batch = batch,
          .heads = heads,
          .queries = queries,
          .memory = memory,
          .key = columns,
          .value = columns,
          .q = q,
          .k = k,
          .v = k,
          .result = q};
}

class Cudnn : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    if (!has_driver()) GTEST_SKIP() << "neither a driver nor a toolkit";
    try {
      cudnn_.emplace(kCuda);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
    for (const std::string& text : {gpu(800, 108, 166912), gpu(900, 132, 232448)}) {
      devices_.emplace_back(*cudnn_, Kind::kDeviceProperties)
          .set(Attribute::kDeviceJson, std::string_view(text));
      if (devices_.back().try_to_finalize() != 0)
        GTEST_SKIP() << "this version describes GPUs otherwise: " << cudnn_->last_error();
    }
  }

  const Descriptor& a100() const { return devices_[0]; }
  const Descriptor& h100() const { return devices_[1]; }

  /// The number of engines that support a problem.
  size_t engines(LibraryAttentionProblem problem, const Descriptor& device) {
    problem.gradient = GetParam();
    const Target target{.properties = &device};
    AttentionGraph attention(*cudnn_, problem);
    attention.graph().finish(target);
    return attention.graph().engines(target).size();
  }

  std::optional<Functions> cudnn_;
  std::vector<Descriptor> devices_;
};

TEST_P(Cudnn, KnowsAttention) {
  for (const Descriptor& device : devices_) {
    EXPECT_GT(engines(problem(16, 12, 1024, 1024, 64), device), 0u) << cudnn_->last_error();
    EXPECT_GT(engines(problem(2, 4, 70, 130, 40), device), 0u) << cudnn_->last_error();
  }
}

TEST_P(Cudnn, KnowsCausalAttention) {
  LibraryAttentionProblem of_64 = problem(16, 12, 1024, 1024, 64), of_128 = problem(4, 16, 2000, 2000, 128);
  of_64.causal = of_128.causal = true;
  for (const Descriptor& device : devices_) {
    EXPECT_GT(engines(of_64, device), 0u) << cudnn_->last_error();
    EXPECT_GT(engines(of_128, device), 0u) << cudnn_->last_error();
  }
}

TEST_P(Cudnn, KnowsBias) {
  for (LibraryAttentionProblem packed : {problem(16, 12, 1024, 1024, 64), problem(2, 4, 130, 130, 64)}) {
    packed.bias = true;
    for (const bool causal : {false, true}) {
      packed.causal = causal;
      for (const Descriptor& device : devices_)
        EXPECT_GT(engines(packed, device), 0u) << cudnn_->last_error();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Passes, Cudnn, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Gradient" : "Forward"; });

}  // namespace
}  // namespace mtf::cuda::cudnn
