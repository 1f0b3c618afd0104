#include "engine/backend/cuda/nvidia/nvrtc.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string_view>

#include "engine/backend/cuda/fusion/fusion_source.h"
#include "engine/backend/cuda/nvidia/shared_library.h"
#include "engine/base/error.h"

namespace mtf::cuda {
namespace {

constexpr std::string_view kPackage = "cuda-nvrtc";
constexpr int kSuccess = 0;

/// Loads NVRTC's second library. NVRTC itself looks for it only where the loader does, which need not be
/// where NVRTC was found.
void load_builtins(int major, int minor) {
  try {
    SharedLibrary(fmt::format("libnvrtc-builtins.so.{}.{}", major, minor), kPackage, major);
  } catch (const Error&) {  // built in, or missing: then NVRTC reports it
  }
}

}  // namespace

KernelCompiler::KernelCompiler(int cuda, std::string architecture)
    : functions_{SharedLibrary(fmt::format("libnvrtc.so.{}", cuda), kPackage, cuda)},
      architecture_(std::move(architecture)) {
  int major = 0, minor = 0, count = 0;
  check(functions_.version(&major, &minor), "asking for its version");
  version_ = fmt::format("nvrtc {}.{}", major, minor);
  release_ = 1000 * major + 10 * minor;
  check(functions_.architecture_count(&count), "asking for its architectures");
  std::vector<int> known(static_cast<size_t>(count));
  check(functions_.architectures(known.data()), "asking for its architectures");
  const auto is_this = [&](int known) { return fmt::format("sm_{}", known) == architecture_; };
  if (std::ranges::none_of(known, is_this)) {
    throw Error(ErrorKind::kSystem, fmt::format("{} does not know {}", version_, architecture_),
                "name the directory of a newer one in MTF_CUDA_LIBRARY_PATH");
  }
  load_builtins(major, minor);
}

void KernelCompiler::check(int code, const char* doing) const {
  if (code == kSuccess) return;
  throw Error(ErrorKind::kSystem, fmt::format("NVRTC, {}: {}", doing, functions_.error_text(code)));
}

KernelCompiler::Program KernelCompiler::compiled(const std::string& text) const {
  std::vector<const char*> names, texts;
  for (const SourceFile& file : kernel_sources()) {
    names.push_back(file.name);
    texts.push_back(file.text);
  }
  _nvrtcProgram* made = nullptr;
  check(functions_.create(&made, text.c_str(), "generated.cu", static_cast<int>(names.size()), texts.data(),
                          names.data()),
        "beginning to compile");
  Program program(made, {this});

  const std::string architecture = "--gpu-architecture=" + architecture_;
  const char* options[] = {architecture.c_str(), "--std=c++20", "--device-as-default-execution-space",
                           "--fmad=false",           // as the operations' own kernels (nvidia/CMakeLists.txt)
                           "--diag-suppress=1097"};  // ignores attributes of other compilers
  const int code = functions_.compile(program.get(), static_cast<int>(std::size(options)), options);
  if (code != kSuccess) {
    size_t size = 0;
    check(functions_.log_size(program.get(), &size), "reading what was wrong");
    std::string log(size, '\0');
    check(functions_.log(program.get(), log.data()), "reading what was wrong");
    throw Error(ErrorKind::kSystem,
                fmt::format("NVRTC, compiling: {}\n{}", functions_.error_text(code), log.c_str()));
  }
  return program;
}

std::vector<char> KernelCompiler::compile(const std::string& text) const {
  const Program program = compiled(text);
  size_t size = 0;
  check(functions_.code_size(program.get(), &size), "reading the code");
  std::vector<char> cubin(size);
  check(functions_.code(program.get(), cubin.data()), "reading the code");
  return cubin;
}

std::string KernelCompiler::ptx(const std::string& text) const {
  const Program program = compiled(text);
  size_t size = 0;
  check(functions_.ptx_size(program.get(), &size), "reading the PTX");
  std::string result(size, '\0');
  check(functions_.ptx(program.get(), result.data()), "reading the PTX");
  return result;
}

std::optional<std::string> release_warning(int nvrtc, int nvcc) {
  if (nvrtc == nvcc) return {};
  const auto release = [](int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); };
  return fmt::format(
      "nvrtc {} compiles the fusions of kernels that were built by nvcc {}: functions such as exp may differ "
      "in "
      "the last bits between a fusion and its operations one by one",
      release(nvrtc), release(nvcc));
}

}  // namespace mtf::cuda
