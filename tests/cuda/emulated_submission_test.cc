// Work is given to the device as the environment says; recordings and kernels that fail, which the emulated GPU does on
// request, are reported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/backend/cuda/cuda_backend.h"
#include "engine/ops/softmax.h"
#include "engine/ops/unary.h"
#include "tests/cuda/run_on.h"
#include "tests/support/failure.h"

namespace mtf::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Shape kShape{{"rows", 4}, {"columns", 8}};

/// y = softmax(exp(x)).
Program program() {
  Graph graph;
  const Graph::Scope layer = graph.scope("decoder/head");
  graph.set_output("y", softmax(exp(graph.input("x", kShape)), "columns"));
  return partition(graph, Layouts::single());
}

std::map<std::string, Values> feeds() { return {{"x", random_normal_values(kShape.size(), 1)}}; }

class SubmissionTest : public ::testing::Test {
 protected:
  ~SubmissionTest() override {
    for (const char* variable :
         {"MTF_CUDA_GRAPHS", "MTF_CUDA_CHECK", "MTF_EMULATED_FAULT", "NVIDIA_TF32_OVERRIDE"})
      unsetenv(variable);
  }

  /// The device with a variable of the environment set.
  static cuda::CudaBackend device_with(const char* variable, const char* value) {
    setenv(variable, value, 1);
    return cuda::CudaBackend(cuda::open_device(0));
  }
  static void expect_usual_bits(Backend& device) {
    expect_same_bits(run_on(device, program(), feeds()), usual());
  }
  static Results usual() { return run_on(cuda_device(), program(), feeds()); }
  static std::vector<std::string> warnings(Backend& device) {
    std::vector<std::string> texts;
    for (const BackendNote& note : device.take_notes())
      if (note.is_warning) texts.push_back(note.text);
    return texts;
  }
};

TEST_F(SubmissionTest, FollowsTheEnvironment) {
  EXPECT_EQ(cuda_device().submission(), Submission::kRecorded);
  EXPECT_EQ(device_with("MTF_CUDA_GRAPHS", "1").submission(), Submission::kRecorded);
  EXPECT_EQ(device_with("MTF_CUDA_GRAPHS", "0").submission(), Submission::kEager);
  EXPECT_EQ(device_with("MTF_CUDA_CHECK", "1").submission(), Submission::kAwaited);
  EXPECT_EQ(failure([] { device_with("MTF_CUDA_CHECK", "yes"); }, ErrorKind::kUsage),
            "MTF_CUDA_CHECK: `yes`; 0 or 1");
}

TEST_F(SubmissionTest, DoesNotChangeBits) {
  cuda::CudaBackend eager = device_with("MTF_CUDA_GRAPHS", "0"), awaited = device_with("MTF_CUDA_CHECK", "1");
  expect_usual_bits(eager);
  expect_usual_bits(awaited);
}

TEST_F(SubmissionTest, ARecordingThatFailsIsAWarning) {
  for (const auto& [fault, reason] :
       {std::pair("capture", "starting a kernel: operation failed"),
        std::pair("graph", "making a graph of what was recorded: out of memory")}) {
    cuda::CudaBackend device = device_with("MTF_EMULATED_FAULT", fault);
    expect_usual_bits(device);
    EXPECT_THAT(warnings(device),
                ElementsAre(AllOf(HasSubstr("steps run without CUDA graphs"), HasSubstr(reason))));
    EXPECT_THAT(warnings(device), IsEmpty());
  }
}

TEST_F(SubmissionTest, AKernelThatFailsInAReplayNamesTheCommandThatFindsIt) {
  cuda::CudaBackend device = device_with("MTF_EMULATED_FAULT", "kernel:Softmax:3");
  const std::string error = failure([&] { run_on(device, program(), feeds()); }, ErrorKind::kSystem);
  EXPECT_THAT(error, HasSubstr("illegal memory access"));
  EXPECT_THAT(error, HasSubstr("`MTF_CUDA_CHECK=1 "));
  EXPECT_THAT(error, HasSubstr("cuda_test"));  // the command line of this program
  EXPECT_THAT(failure([&] { device.wait(); }, ErrorKind::kSystem), HasSubstr("illegal memory access"));
}

TEST_F(SubmissionTest, AKernelThatFailsWhereItIsAwaitedIsNamed) {
  setenv("MTF_CUDA_CHECK", "1", 1);
  cuda::CudaBackend device = device_with("MTF_EMULATED_FAULT", "kernel:Softmax:3");
  const std::string error = failure([&] { run_on(device, program(), feeds()); }, ErrorKind::kSystem);
  EXPECT_THAT(error, HasSubstr("emulated GPU failed in %"));
  EXPECT_THAT(error, HasSubstr("= softmax("));
  EXPECT_THAT(error, HasSubstr("of layer decoder/head: CUDA, waiting for the GPU: an illegal memory access"));
  EXPECT_THAT(error, HasSubstr("`compute-sanitizer`"));
}

TEST_F(SubmissionTest, VariablesThatChangeProductsArePartOfTheInstructionSet) {
  const std::string usual = cuda_device().instruction_set();
  EXPECT_EQ(device_with("NVIDIA_TF32_OVERRIDE", "1").instruction_set(), usual + " NVIDIA_TF32_OVERRIDE=1");
}

}  // namespace
}  // namespace mtf::testing
