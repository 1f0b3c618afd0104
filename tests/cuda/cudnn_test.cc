// cuDNN knows engines for the graphs of attention. It plans for a described GPU; none is needed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "engine/backend/cuda/nvidia/cudnn_attention.h"
#include "engine/base/error.h"

namespace mtf::cuda::cudnn {
namespace {

constexpr int kCuda = 13;

/// A GPU of compute capability `version` / 100, as cuDNN writes it.
std::string gpu(int version, int multiprocessors, int shared_memory) {
  return R"({"maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64], "regsPerBlock": 65536,
             "warpSize": 32, "maxSharedMemoryPerBlock": 49152, "reservedSharedMemoryPerBlock": 1024,
             "maxRegistersPerSM": 65536, "maxCtasPerSM": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048,
             "pciDeviceId": 0, "isTccDriver": 0, "supportCoopLaunch": 1, "smClockRateKHz": 1500000,
             "memClockRateKHz": 1500000, "l2CacheSize": 41943040, "deviceName": "GPU", "driverVer": 13000,
             "cudaDeviceId": 0, "totalGlobalMem": 85899345920, "deviceVer": )" +
         std::to_string(version) + R"(, "multiProcessorCount": )" + std::to_string(multiprocessors) +
         R"(, "maxSharedMemoryPerBlockOptin": )" + std::to_string(shared_memory) + "}";
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
    try {
      cudnn_.emplace(kCuda);
    } catch (const Error& error) {
      GTEST_SKIP() << error.what();
    }
  }

  /// Without a driver every engine that knows the pattern says that it misses the driver.
  void expect_engine(LibraryAttentionProblem problem, const std::string& device) {
    problem.gradient = GetParam();
    Descriptor properties(*cudnn_, Kind::kDeviceProperties);
    properties.set(Attribute::kDeviceJson, std::string_view(device)).finalize();
    const Target target{.properties = &properties};
    AttentionGraph attention(*cudnn_, problem);
    attention.graph().finish(target);
    if (!attention.graph().engines(target).empty()) return;
    EXPECT_THAT(cudnn_->last_error(), ::testing::HasSubstr("libcuda"));
  }

  std::optional<Functions> cudnn_;
  const std::string a100_ = gpu(800, 108, 166912), h100_ = gpu(900, 132, 232448);
};

TEST_P(Cudnn, KnowsAttention) {
  for (const std::string& device : {a100_, h100_}) {
    expect_engine(problem(16, 12, 1024, 1024, 64), device);
    expect_engine(problem(2, 4, 70, 130, 40), device);
  }
}

TEST_P(Cudnn, KnowsCausalAttention) {
  LibraryAttentionProblem of_64 = problem(16, 12, 1024, 1024, 64), of_128 = problem(4, 16, 2000, 2000, 128);
  of_64.causal = of_128.causal = true;
  for (const std::string& device : {a100_, h100_}) {
    expect_engine(of_64, device);
    expect_engine(of_128, device);
  }
}

TEST_P(Cudnn, KnowsSegments) {
  LibraryAttentionProblem packed = problem(16, 12, 1024, 1024, 64);
  packed.segments = true;
  packed.segment_stride = 1024;
  for (const bool causal : {false, true}) {
    packed.causal = causal;
    expect_engine(packed, h100_);
    if (!GetParam()) expect_engine(packed, a100_);
  }
}

INSTANTIATE_TEST_SUITE_P(Passes, Cudnn, ::testing::Bool(),
                         [](const auto& info) { return info.param ? "Gradient" : "Forward"; });

}  // namespace
}  // namespace mtf::cuda::cudnn
