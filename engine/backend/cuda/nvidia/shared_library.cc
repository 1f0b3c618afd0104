#include "engine/backend/cuda/nvidia/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "engine/base/error.h"

namespace mtf::cuda {
namespace {

constexpr const char* kPathVariable = "MTF_CUDA_LIBRARY_PATH";

/// The path of `file` in the directories named by the user; empty if none has it.
std::string named_by_user(const std::string& file) {
  const char* directories = std::getenv(kPathVariable);
  std::istringstream stream(directories == nullptr ? "" : directories);
  for (std::string directory; std::getline(stream, directory, ':');) {
    const std::string path = directory + "/" + file;
    if (!directory.empty() && access(path.c_str(), F_OK) == 0) return path;
  }
  return {};
}

void* open(const std::string& path) { return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); }

}  // namespace

SharedLibrary::SharedLibrary(std::string file, const std::string& package) : file_(std::move(file)) {
  const std::string named = named_by_user(file_);
  handle_ = open(named.empty() ? file_ : named);
  const std::string failure = handle_ == nullptr ? dlerror() : "";
  if (handle_ == nullptr && named.empty()) handle_ = open("/usr/local/cuda/lib64/" + file_);
  if (handle_ == nullptr) {
    throw Error(ErrorKind::kSystem, "cannot load a library of CUDA: " + failure,
                fmt::format("install it (`pip install {}`, or the CUDA toolkit) and name its directory in {}",
                            package, kPathVariable));
  }
}

void* SharedLibrary::symbol(const char* name) const {
  void* address = dlsym(handle_, name);
  if (address == nullptr) {
    throw Error(ErrorKind::kSystem, fmt::format("{} has no function {}", file_, name),
                fmt::format("name the directory of a newer one in {}", kPathVariable));
  }
  return address;
}

}  // namespace mtf::cuda
