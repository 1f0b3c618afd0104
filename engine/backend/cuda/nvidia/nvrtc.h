// NVRTC: compiles kernels whose text is made when a program is prepared. Needs no GPU and no header of CUDA.
#pragma once

#include <string>
#include <vector>

#include "engine/backend/cuda/nvidia/shared_library.h"

struct _nvrtcProgram;

namespace mtf::cuda {

class KernelCompiler {
 public:
  /// Of the version `cuda` (13), for "sm_90". Throws Error (kSystem) where it is missing or knows no such
  /// GPU.
  KernelCompiler(int cuda, std::string architecture);

  /// "nvrtc 13.0": the bits of results may depend on it.
  const std::string& version() const { return version_; }
  /// The code (a cubin) of a text that may include kernel_sources(). Throws Error (kSystem) with the
  /// compiler's words.
  std::vector<char> compile(const std::string& text) const;

 private:
  /// The C interface, as it has been since CUDA 11.
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
