// CUDA's libraries, which are looked for when the backend starts: this shared object loads without them.
#pragma once

#include <string>

namespace mtf::cuda {

/// Stays open: its functions are used until the process ends.
class SharedLibrary {
 public:
  /// `file`: "libcublasLt.so.13"; `package`: that of pip which brings it. Looks in the directories of
  /// MTF_CUDA_LIBRARY_PATH (separated by colons), where the loader looks, and in /usr/local/cuda/lib64.
  /// Throws Error (kSystem).
  SharedLibrary(std::string file, const std::string& package);

  /// Throws Error (kSystem) where the library has no such function.
  void* symbol(const char* name) const;

 private:
  std::string file_;
  void* handle_ = nullptr;
};

/// One function of a library: LibraryFunction<decltype(ncclGetVersion)> version{library, "ncclGetVersion"}.
template <class Function>
class LibraryFunction {
 public:
  /// Throws Error (kSystem) where the library has no such function.
  LibraryFunction(const SharedLibrary& library, const char* name)
      : function_(reinterpret_cast<Function*>(library.symbol(name))) {}
  operator Function*() const { return function_; }

 private:
  Function* function_;
};

}  // namespace mtf::cuda
