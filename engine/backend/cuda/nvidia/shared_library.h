// SharedLibrary is one of CUDA's libraries, loaded when the backend starts, so that this shared object loads
// without them.
#pragma once

#include <string>
#include <string_view>

namespace mtf::cuda {

/// The library is never closed: its functions are used until the process ends.
class SharedLibrary {
 public:
  /// `file` is a name such as "libcublasLt.so.13"; `package` and `cuda`, the major version of CUDA, name the
  /// package of PyPI that provides it: "cublas", "cuda-nvrtc", "cudnn" or "nccl". Searches the directories of
  /// MTF_CUDA_LIBRARY_PATH (separated by colons), the loader's directories, /usr/local/cuda/lib64, and the
  /// packages of the Pythons on PATH. Throws Error (kSystem) that says how to install it.
  SharedLibrary(std::string file, std::string_view package, int cuda);

  /// Throws Error (kSystem) if the library has no such function.
  void* symbol(const char* name) const;

 private:
  std::string file_;
  void* handle_ = nullptr;
};

/// A function of a library: LibraryFunction<decltype(ncclGetVersion)> version{library, "ncclGetVersion"}.
template <class Function>
class LibraryFunction {
 public:
  /// Throws Error (kSystem) if the library has no such function.
  LibraryFunction(const SharedLibrary& library, const char* name)
      : function_(reinterpret_cast<Function*>(library.symbol(name))) {}
  operator Function*() const { return function_; }

 private:
  Function* function_;
};

}  // namespace mtf::cuda
