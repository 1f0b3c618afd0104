// NVRTC: compiles kernels whose text is made when a program is prepared. Needs no GPU and no header of CUDA.
#pragma once

#include <string>
#include <vector>

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
    const char* (*error_text)(int code);
    int (*version)(int* major, int* minor);
    int (*architecture_count)(int* count);
    int (*architectures)(int* list);
    int (*create)(_nvrtcProgram** program, const char* text, const char* name, int headers,
                  const char* const* header_texts, const char* const* header_names);
    int (*destroy)(_nvrtcProgram** program);
    int (*compile)(_nvrtcProgram* program, int options, const char* const* option_list);
    int (*log_size)(_nvrtcProgram* program, size_t* size);
    int (*log)(_nvrtcProgram* program, char* text);
    int (*code_size)(_nvrtcProgram* program, size_t* size);
    int (*code)(_nvrtcProgram* program, char* code);
  };

  void check(int code, const char* doing) const;

  Functions functions_;
  std::string architecture_, version_;
};

}  // namespace mtf::cuda
