// KernelCompiler compiles kernels with NVRTC from text that is generated when a program is prepared. It needs
// neither a GPU nor CUDA's headers.
#pragma once

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
  /// Compiles a text, which may include kernel_sources(), to a cubin. Throws Error (kSystem) with the
  /// compiler's messages.
  std::vector<char> compile(const std::string& text) const;

 private:
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
  };

  void check(int code, const char* doing) const;

  Functions functions_;
  std::string architecture_, version_;
};

}  // namespace mtf::cuda
