// The promises of every device, tested on the one with which the program is linked: a GPU or the emulator.
#include "engine/backend/cuda/device/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <thread>
#include <tuple>
#include <vector>

#include "engine/backend/cuda/contractions/matmul_plan.h"
#include "engine/backend/cuda/cuda_backend.h"
#include "engine/backend/element.h"
#include "tests/cuda/device_array.h"
#include "tests/support/failure.h"
#include "tests/support/gpu_gate.h"

namespace mtf::cuda {
namespace {

using testing::DeviceArray;
using ::testing::HasSubstr;

/// Opens the device before the first test: without one the program ends.
class NeedsDevice final : public ::testing::Environment {
 public:
  void SetUp() override {
    mtf::testing::skip_without_gpu([] { open_device(0); });
  }
  void TearDown() override { mtf::testing::exit_as_skipped_after_skips(); }
};
[[maybe_unused]] const auto* const environment = ::testing::AddGlobalTestEnvironment(new NeedsDevice);

class DeviceTest : public ::testing::Test {
 protected:
  std::unique_ptr<Device> opened_ = open_device(0);
  Device& device_ = *opened_;
};

TEST_F(DeviceTest, SaysWhatItIs) {
  const DeviceInfo& info = device_.info();
  EXPECT_EQ(info.index, 0);
  EXPECT_FALSE(info.name.empty());
  EXPECT_GT(info.memory_bytes, 0);
  EXPECT_GT(info.multiprocessors, 0);
  const std::vector<DeviceInfo> visible = visible_devices();
  ASSERT_FALSE(visible.empty());
  EXPECT_EQ(visible[0].name, info.name);
  EXPECT_EQ(visible[0].peers.size(), visible.size());
}

TEST(OpenDevice, SaysWhichThereAre) {
  EXPECT_THAT(failure([] { open_device(1000); }, ErrorKind::kSystem), HasSubstr("there is no GPU 1000"));
}

TEST_F(DeviceTest, MemoryIsZeroedAndAligned) {
  for (int round = 0; round < 2; ++round) {  // the second round may reuse memory of the first
    const DeviceArray<int32_t> memory(device_, 1000);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.bytes()) % 256, 0u);
    EXPECT_EQ(memory.get(), std::vector<int32_t>(1000));
    DeviceArray<int32_t> other(device_, std::vector<int32_t>(1000, 7));
  }
}

TEST_F(DeviceTest, TooMuchMemoryIsAnErrorAfterWhichItGoesOn) {
  EXPECT_THAT(failure([&] { device_.allocate(int64_t{1} << 50); }, ErrorKind::kMemory),
              HasSubstr("are needed"));
  EXPECT_EQ(DeviceArray<int32_t>(device_, {1, 2, 3}).get(), (std::vector<int32_t>{1, 2, 3}));
}

TEST_F(DeviceTest, CopiesAndZeros) {
  const DeviceArray<int32_t> from(device_, {1, 2, 3, 4}), to(device_, 4);
  device_.copy(device_.compute(), to.bytes(), from.bytes(), 16);
  device_.zero(device_.compute(), to.bytes() + 4, 8);
  device_.copy(device_.compute(), to.bytes(), from.bytes(), 0);
  EXPECT_EQ(to.get(), (std::vector<int32_t>{1, 0, 0, 4}));
}

TEST_F(DeviceTest, StreamsWaitForEvents) {
  const Stream other = device_.make_stream();
  const auto begun = device_.make_event(), ended = device_.make_event();
  const int64_t count = 1 << 22, bytes = 4 * count;
  const DeviceArray<int32_t> from(device_, std::vector<int32_t>(count, 5)), middle(device_, count),
      to(device_, count);
  device_.copy(device_.compute(), middle.bytes(), from.bytes(), bytes);
  begun->record(device_.compute());
  begun->wait_in(other);
  device_.copy(other, to.bytes(), middle.bytes(), bytes);
  ended->record(other);
  ended->wait_in(device_.compute());
  EXPECT_EQ(to.get(), std::vector<int32_t>(count, 5));
  ended->wait();
  device_.make_event()->wait();  // an event that was never recorded
}

TEST_F(DeviceTest, RecordingsRunWhenTheyAreReplayed) {
  DeviceArray<int32_t> x(device_, {1, 2, 3});
  const DeviceArray<int32_t> y(device_, 3), z(device_, 3);
  const auto recording = device_.record([&] {
    device_.copy(device_.compute(), y.bytes(), x.bytes(), 12);
    device_.zero(device_.compute(), y.bytes(), 4);
    device_.copy(device_.compute(), z.bytes(), y.bytes(), 12);
  });
  EXPECT_EQ(z.get(), std::vector<int32_t>(3));
  recording->replay();
  EXPECT_EQ(z.get(), (std::vector<int32_t>{0, 2, 3}));
  x.set({4, 5, 6});
  recording->replay();
  recording->replay();
  EXPECT_EQ(z.get(), (std::vector<int32_t>{0, 5, 6}));
}

TEST_F(DeviceTest, RecordingsReachOverStreams) {
  const Stream other = device_.make_stream();
  const auto begun = device_.make_event(), ended = device_.make_event();
  const DeviceArray<int32_t> x(device_, {1, 2, 3}), y(device_, 3), z(device_, 3);
  const auto recording = device_.record([&] {
    begun->record(device_.compute());
    begun->wait_in(other);
    device_.copy(other, y.bytes(), x.bytes(), 12);
    ended->record(other);
    ended->wait_in(device_.compute());
    device_.copy(device_.compute(), z.bytes(), y.bytes(), 12);
  });
  EXPECT_EQ(y.get(), std::vector<int32_t>(3));
  recording->replay();
  EXPECT_EQ(z.get(), (std::vector<int32_t>{1, 2, 3}));
}

TEST_F(DeviceTest, AFailureWhileRecordingEndsTheRecording) {
  const DeviceArray<int32_t> x(device_, {1, 2, 3}), y(device_, 3);
  EXPECT_THROW(device_.record([&] {
    device_.copy(device_.compute(), y.bytes(), x.bytes(), 12);
    throw Error(ErrorKind::kSystem, "it failed");
  }),
               Error);
  EXPECT_EQ(y.get(), std::vector<int32_t>(3));
  device_.record([] {})->replay();
  device_.wait(device_.compute());
}

TEST_F(DeviceTest, AnyThreadMayUseIt) {
  const DeviceArray<int32_t> x(device_, {1, 2, 3}), y(device_, 3);
  std::thread([&] {
    device_.copy(device_.compute(), y.bytes(), x.bytes(), 12);
    EXPECT_EQ(y.get(), (std::vector<int32_t>{1, 2, 3}));
  }).join();
}

TEST_F(DeviceTest, StagedCopiesKeepTheirOrder) {
  CudaBackend backend(std::move(opened_));
  constexpr int64_t kCount = 5 << 20;  // 20 MiB: more than is staged at a time
  std::vector<int32_t> values(kCount);
  const auto memory = backend.allocate(kCount * 4);
  for (int32_t round = 0; round < 3; ++round) {
    for (int64_t i = 0; i < kCount; ++i) values[i] = static_cast<int32_t>(i) * (round + 1);
    backend.write(memory->data(), reinterpret_cast<const std::byte*>(values.data()), kCount * 4);
    std::fill(values.begin(), values.end(), -1);
  }
  for (int32_t i = 0; i < 1000; ++i) {
    const int32_t value = -i;
    backend.write(memory->data() + 4 * i, reinterpret_cast<const std::byte*>(&value), 4);
  }
  backend.read(reinterpret_cast<std::byte*>(values.data()), memory->data(), kCount * 4);
  for (int64_t i = 0; i < kCount; ++i) ASSERT_EQ(values[i], static_cast<int32_t>(i < 1000 ? -i : i * 3)) << i;
  EXPECT_FALSE(backend.instruction_set().empty());
}

/// Whole numbers that fit into bfloat16 and whose sums are exact in float32, so an algorithm's order is
/// irrelevant.
template <class T>
std::vector<T> numbers(int64_t count, int seed) {
  std::vector<T> result;
  for (int64_t i = 0; i < count; ++i) result.push_back(narrow<T>((i * 7 + i / 13 + seed) % 11 - 5));
  return result;
}

/// Computes c as the problem is defined, element by element. If `rounds_product`, the sum of products is rounded to
/// c's type before anything is added.
template <class Input, class Output>
void multiply(const MatmulProblem& p, const std::vector<Input>& a, const std::vector<Input>& b,
              const std::vector<Output>& bias, std::vector<Output>& c, bool rounds_product = false) {
  for (int64_t matrix = 0; matrix < p.batch; ++matrix) {
    for (int64_t i = 0; i < p.m; ++i) {
      for (int64_t j = 0; j < p.n; ++j) {
        double sum = 0;
        for (int64_t l = 0; l < p.k; ++l) {
          sum += widen(a[matrix * p.batch_a + (p.transpose_a ? l * p.row_a + i : i * p.row_a + l)]) *
                 widen(b[matrix * p.batch_b + (p.transpose_b ? j * p.row_b + l : l * p.row_b + j)]);
        }
        Output& y = c[matrix * p.batch_c + i * p.row_c + j];
        if (rounds_product) sum = widen(narrow<Output>(sum));
        if (p.accumulate) sum += widen(y);
        if (p.bias) sum += widen(bias[j]);
        if (p.epilogue == Epilogue::kGelu)
          sum *= 0.5 * (1 + std::tanh(0.7978845608028654 * (sum + 0.044715 * sum * sum * sum)));
        y = narrow<Output>(sum);
      }
    }
  }
}

template <class T>
std::vector<double> widened(const std::vector<T>& values) {
  std::vector<double> result;
  for (const T value : values) result.push_back(widen(value));
  return result;
}

template <class T>
bool same_bits(const std::vector<T>& x, const std::vector<T>& y) {
  return x.size() == y.size() && std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
}

bool is_aligned(const MatmulProblem& problem) {
  const ColumnMajorProblem matrices = column_major(problem);
  return std::min({matrices.first.alignment, matrices.second.alignment, matrices.output.alignment}) >= 16;
}

/// Checks the product of generated matrices that begin `offset` elements into their memory: nothing else of c
/// is written, and the bits are the same when it is repeated and when it is replayed from a recording.
template <class Input, class Output>
void expect_product(Device& device, MatmulProblem p, int64_t offset = 0) {
  SCOPED_TRACE(::testing::Message() << text(p) << ", transposed: " << p.transpose_a << p.transpose_b
                                    << ", rows " << p.row_a << " " << p.row_b << " " << p.row_c
                                    << ", accumulate " << p.accumulate << ", offset " << offset);
  p.input = DTypeOf<Input>::value;
  p.output = DTypeOf<Output>::value;
  if (offset != 0) {
    p.alignment_a = p.alignment_b = sizeof(Input);
    p.alignment_c = sizeof(Output);
  }
  const auto size = [&](int64_t rows, int64_t row, int64_t batch) {
    return offset + rows * row + (p.batch - 1) * batch;
  };
  const std::vector<Input> a = numbers<Input>(size(p.transpose_a ? p.k : p.m, p.row_a, p.batch_a), 1);
  const std::vector<Input> b = numbers<Input>(size(p.transpose_b ? p.n : p.k, p.row_b, p.batch_b), 2);
  const std::vector<Output> c = numbers<Output>(size(p.m, p.row_c, p.batch_c), 3);
  const std::vector<Output> bias = numbers<Output>(p.n, 4);
  const auto shifted = [&]<class T>(const std::vector<T>& x) {
    return std::vector<T>(x.begin() + offset, x.end());
  };
  const auto product = [&](bool rounds_product) {
    std::vector<Output> result = shifted(c);
    multiply(p, shifted(a), shifted(b), bias, result, rounds_product);
    result.insert(result.begin(), c.begin(), c.begin() + offset);
    return result;
  };
  const std::vector<Output> expected = product(false);

  const auto plan = device.matmuls().prepare(p);
  if (plan == nullptr && !is_aligned(p)) return;  // prepared_product.h then goes another way
  ASSERT_NE(plan, nullptr);
  EXPECT_EQ(device.matmuls().prepare(p), plan);
  const DeviceArray<Input> a_there(device, a), b_there(device, b);
  DeviceArray<Output> c_there(device, c);
  const DeviceArray<Output> bias_there(device, bias);
  const DeviceArray<char> workspace(device, plan->workspace_bytes());
  const auto run = [&] {
    plan->run(a_there.data() + offset, b_there.data() + offset, c_there.data() + offset, workspace.data(),
              p.bias ? bias_there.data() : nullptr);
  };
  run();
  const std::vector<Output> actual = c_there.get();
  if (p.epilogue == Epilogue::kGelu) {
    for (size_t i = 0; i < c.size(); ++i)
      ASSERT_NEAR(widen(actual[i]), widen(expected[i]), 0.01 * std::abs(widen(expected[i])) + 1e-3) << i;
  } else if (p.accumulate) {
    ASSERT_THAT(widened(actual), ::testing::AnyOf(widened(expected), widened(product(true))));
  } else {
    ASSERT_EQ(widened(actual), widened(expected));
  }
  const auto recording = device.record(run);
  for (int round = 0; round < 2; ++round) {
    c_there.set(c);
    recording->replay();
    ASSERT_TRUE(same_bits(c_there.get(), actual));
  }
}

MatmulProblem dense(int64_t m, int64_t n, int64_t k, bool transpose_a = false, bool transpose_b = false) {
  MatmulProblem p{.m = m, .n = n, .k = k, .transpose_a = transpose_a, .transpose_b = transpose_b};
  p.row_a = transpose_a ? m : k;
  p.row_b = transpose_b ? k : n;
  p.row_c = n;
  return p;
}

template <class Types>
class MatmulTest : public ::testing::Test {
 protected:
  using Input = std::tuple_element_t<0, Types>;
  using Output = std::tuple_element_t<1, Types>;

  void expect(const MatmulProblem& problem, int64_t offset = 0) {
    expect_product<Input, Output>(*device_, problem, offset);
  }

  std::unique_ptr<Device> device_ = open_device(0);
};

using MatmulTypes = ::testing::Types<std::tuple<float, float>, std::tuple<double, double>,
                                     std::tuple<BFloat16, BFloat16>, std::tuple<BFloat16, float>>;
TYPED_TEST_SUITE(MatmulTest, MatmulTypes);

TYPED_TEST(MatmulTest, OfEveryForm) {
  for (const auto& [m, n, k] :
       {std::tuple{64, 96, 32}, {5, 7, 3}, {1, 33, 17}, {33, 1, 17}, {9, 8, 1}, {1, 1, 1}}) {
    for (const bool transpose_a : {false, true}) {
      for (const bool transpose_b : {false, true}) {
        for (const bool accumulate : {false, true}) {
          MatmulProblem p = dense(m, n, k, transpose_a, transpose_b);
          p.accumulate = accumulate;
          this->expect(p);
        }
      }
    }
  }
}

TYPED_TEST(MatmulTest, OfPartsOfLargerMatrices) {
  MatmulProblem p = dense(24, 40, 16, true, false);
  p.row_a = 41;
  p.row_b = 64;
  p.row_c = 43;
  this->expect(p);
  this->expect(p, 1);
  this->expect(p, 3);
}

TYPED_TEST(MatmulTest, OfBatches) {
  for (const bool transpose_b : {false, true}) {
    MatmulProblem p = dense(16, 24, 8, false, transpose_b);
    p.batch = 5;
    p.batch_a = 16 * 8 + 3;
    p.batch_b = 24 * 8;
    p.batch_c = 16 * 24;
    this->expect(p);
    p.batch_b = 0;  // all matrices share one b
    this->expect(p);
    // The heads of one position are adjacent.
    p.batch_a = 8;
    p.row_a = 5 * 8;
    p.batch_c = 24;
    p.row_c = 5 * 24;
    p.accumulate = true;
    this->expect(p);
  }
}

TYPED_TEST(MatmulTest, OfManySmallMatrices) {
  MatmulProblem p = dense(2, 3, 4);
  p.batch = kMostMatrices + 5;
  p.batch_a = 8;
  p.batch_b = 12;
  p.batch_c = 6;
  this->expect(p);
}

TYPED_TEST(MatmulTest, WithLongSums) { this->expect(dense(24, 16, 20000)); }

TYPED_TEST(MatmulTest, WithBiasAndEpilogue) {
  if (std::is_same_v<typename TestFixture::Input, double>) return;
  for (const bool bias : {false, true}) {
    for (const Epilogue epilogue : {Epilogue::kNone, Epilogue::kGelu}) {
      for (const bool transpose_b : {false, true}) {
        MatmulProblem p = dense(48, 40, 16, false, transpose_b);
        p.bias = bias;
        p.epilogue = epilogue;
        this->expect(p);
      }
    }
  }
}

TEST_F(DeviceTest, MatmulOfRoundedFactors) {
  MatmulProblem p = dense(64, 96, 32);
  for (const MatmulPrecision precision : {MatmulPrecision::kTf32, MatmulPrecision::kBFloat16}) {
    p.precision = precision;
    expect_product<float, float>(device_, p);
  }
}

}  // namespace
}  // namespace mtf::cuda
