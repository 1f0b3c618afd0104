// The emulator's backend in a shared object, loaded as programs load it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "engine/backend/device_plugin.h"
#include "engine/graph/graph.h"
#include "engine/ops/shift.h"
#include "tests/support/failure.h"

namespace mtf {
namespace {

using ::testing::ElementsAre;
using ::testing::ExitedWithCode;
using ::testing::HasSubstr;

std::string built(const std::string& file) {
  const auto program = std::filesystem::read_symlink("/proc/self/exe");
  return program.parent_path().parent_path() / "lib" / file;
}

void name_plugin(const std::string& path) { setenv("MTF_CUDA_PLUGIN", path.c_str(), 1); }

const DevicePlugin& emulator() {
  name_plugin(built("libmtf_cuda_emulator.so"));
  return device_plugin();
}

TEST(DevicePlugin, ListsDevices) {
  const std::vector<DeviceInfo> devices = emulator().devices();
  ASSERT_FALSE(devices.empty());
  EXPECT_EQ(devices[0].index, 0);
  EXPECT_EQ(emulator().make_backend(0)->device_info()->pci, devices[0].pci);
  EXPECT_EQ(&device_plugin(), &emulator());
}

TEST(DevicePlugin, RunsOperationsOfTheProgram) {
  const std::unique_ptr<Backend> backend = emulator().make_backend(0);
  Graph graph;
  const Tensor x = graph.input("x", {{"a", 4}});
  const Tensor y = shift(x, 1, "a", true);
  const LocalTensor local{x.shape(), x.shape(), x.shape().strides(), x.dtype()};
  const std::unique_ptr<Kernel> kernel = backend->prepare(KernelContext{y.operation(), {local}, {local}});
  const auto in = backend->allocate(16), out = backend->allocate(16);
  std::vector<float> values = {1, 2, 3, 4};
  backend->write(in->data(), reinterpret_cast<const std::byte*>(values.data()), 16);
  const int64_t begin = 0;
  const Slice input{in->data(), &begin}, output{out->data(), &begin};
  kernel->run(KernelCall{{&input, 1}, {&output, 1}}, 0, 1);
  backend->read(reinterpret_cast<std::byte*>(values.data()), out->data(), 16);
  EXPECT_THAT(values, ElementsAre(4, 1, 2, 3));
}

TEST(DevicePlugin, ItsErrorsAreCaughtInTheProgram) {
  EXPECT_THAT(failure([] { emulator().make_backend(1000); }, ErrorKind::kSystem), HasSubstr("no GPU 1000"));

  class Unknown final : public OperationBase<Unknown> {
   public:
    explicit Unknown(const Tensor& x) : OperationBase({x}, {{x.shape(), x.dtype()}}) {}
    std::string_view name() const override { return "unknown"; }
  };
  Graph graph;
  const Tensor y = graph.add<Unknown>(graph.input("x", {{"a", 4}})).output();
  const std::unique_ptr<Backend> backend = emulator().make_backend(0);
  EXPECT_THAT(failure(
                  [&] {
                    backend->prepare(KernelContext{y.operation(), {}, {}});
                  },
                  ErrorKind::kConfig),
              HasSubstr("operation unknown has no CUDA kernel for float32"));
}

/// Runs in a separate process, because a program loads only one plugin.
void expect_refused(const std::string& path, const std::string& message) {
  const auto load = [&] {
    name_plugin(path);
    std::fputs(failure(device_plugin, ErrorKind::kSystem).c_str(), stderr);
    std::exit(::testing::Test::HasFailure() ? 1 : 0);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(load(), ExitedWithCode(0), message);
}

TEST(DevicePluginDeathTest, AFileThatIsMissing) {
  expect_refused("/nowhere/libmtf_cuda.so", "MTF_CUDA_PLUGIN: there is no /nowhere/libmtf_cuda.so");
}

TEST(DevicePluginDeathTest, AFileThatIsNoLibrary) {
  const std::string path = ::testing::TempDir() + "/no_library.so";
  std::ofstream(path) << "text";
  expect_refused(path, "cannot load the CUDA backend: .*no_library.so: file too short");
}

TEST(DevicePluginDeathTest, ALibraryThatIsNoBackend) {
  expect_refused("/lib/x86_64-linux-gnu/libm.so.6", "libm.so.6 is no CUDA backend");
}

TEST(DevicePluginDeathTest, ABackendOfAnotherBuild) {
  expect_refused(built("libmtf_old_plugin.so"),
                 "is of another build than this program .interface 0, not [0-9]+.");
}

}  // namespace
}  // namespace mtf
