// KernelCompiler compiles kernels with NVRTC from text that is generated when a program is prepared. It needs
// neither a GPU nor CUDA's headers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/backend/cuda/nvidia/shared_library.h"

struct _nvrtcProgram;

namespace mtf::cuda {

class KernelCompiler {
 public:
  /// A compiler of CUDA's major version `cuda` (13) for an architecture such as "sm_90". Throws Error
  /// (kSystem) if it is missing or does not know the architecture.
  KernelCompiler(int cuda, std::string architecture);

  /// Such as "nvrtc 13.0"; the bits of results may depend on it.
  const std::string& version() const { return version_; }
  /// Its release as CUDART_VERSION has it: 13010 for 13.1.
  int release() const { return release_; }
  /// Compiles a text, which may include kernel_sources(), to a cubin. Throws Error (kSystem) with the
  /// compiler's messages.
  std::vector<char> compile(const std::string& text) const;
  /// The PTX of a text, from which its cubin is made. Throws as compile() does.
  std::string ptx(const std::string& text) const;

 private:
  struct DestroyProgram {
    const KernelCompiler* compiler;
    void operator()(_nvrtcProgram* program) const { compiler->functions_.destroy(&program); }
  };
  using Program = std::unique_ptr<_nvrtcProgram, DestroyProgram>;
  /// NVRTC's C interface, unchanged since CUDA 11.
  struct Functions {
    SharedLibrary library;
    LibraryFunction<const char*(int code)> error_text{library, "nvrtcGetErrorString"};
    LibraryFunction<int(int* major, int* minor)> version{library, "nvrtcVersion"};
    LibraryFunction<int(int* count)> architecture_count{library, "nvrtcGetNumSupportedArchs"};
    LibraryFunction<int(int* list)> architectures{library, "nvrtcGetSupportedArchs"};
    LibraryFunction<int(_nvrtcProgram** program, const char* text, const char* name, int headers,
                        const char* const* header_texts, const char* const* header_names)>
        create{library, "nvrtcCreateProgram"};
    LibraryFunction<int(_nvrtcProgram** program)> destroy{library, "nvrtcDestroyProgram"};
    LibraryFunction<int(_nvrtcProgram* program, int options, const char* const* option_list)> compile{
        library, "nvrtcCompileProgram"};
    LibraryFunction<int(_nvrtcProgram* program, size_t* size)> log_size{library, "nvrtcGetProgramLogSize"};
    LibraryFunction<int(_nvrtcProgram* program, char* text)> log{library, "nvrtcGetProgramLog"};
    LibraryFunction<int(_nvrtcProgram* program, size_t* size)> code_size{library, "nvrtcGetCUBINSize"};
    LibraryFunction<int(_nvrtcProgram* program, char* code)> code{library, "nvrtcGetCUBIN"};
    LibraryFunction<int(_nvrtcProgram* program, size_t* size)> ptx_size{library, "nvrtcGetPTXSize"};
    LibraryFunction<int(_nvrtcProgram* program, char* text)> ptx{library, "nvrtcGetPTX"};
  };

  Program compiled(const std::string& text) const;

  void check(int code, const char* doing) const;

  Functions functions_;
  std::string architecture_, version_;
  int release_ = 0;
};

/// A warning if NVRTC and the nvcc that built the kernels are of different releases (as CUDART_VERSION has
/// them), else nothing. Both round sums and products as the formulas say, but each brings its own exp, tanh
/// and other functions.
std::optional<std::string> release_warning(int nvrtc, int nvcc);

}  // namespace mtf::cuda
