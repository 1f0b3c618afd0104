#include "engine/backend/cuda/nvidia/shared_library.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <vector>

#include "engine/base/error.h"

namespace mtf::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kPathVariable = "MTF_CUDA_LIBRARY_PATH";
constexpr const char* kToolkit = "/usr/local/cuda/lib64";

/// The directories that an environment variable names, in its order.
std::vector<fs::path> directories_of(const char* variable) {
  const char* value = std::getenv(variable);
  std::istringstream stream(value == nullptr ? "" : value);
  std::vector<fs::path> result;
  for (std::string directory; std::getline(stream, directory, ':');)
    if (!directory.empty()) result.emplace_back(directory);
  return result;
}

/// The entries of a directory by name; none if it cannot be read.
std::vector<fs::path> entries(const fs::path& directory) {
  std::error_code ignored;
  std::vector<fs::path> result;
  for (fs::directory_iterator entry(directory, ignored), end; !ignored && entry != end;
       entry.increment(ignored))
    result.push_back(entry->path());
  std::ranges::sort(result);
  return result;
}

bool is_there(const fs::path& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

/// The folders of packages of a Python whose program is in `bin`: those of its prefix, and the one that the
/// commands of mtf-train's own wheel put before the others (PACKAGES/mtf_train/bin).
std::vector<fs::path> package_folders(const fs::path& bin) {
  const fs::path prefix = bin.parent_path();
  std::vector<fs::path> result;
  if (prefix.parent_path().filename() == "site-packages") result.push_back(prefix.parent_path());
  for (const char* library : {"lib", "lib64"}) {
    for (const fs::path& python : entries(prefix / library)) {
      if (!python.filename().string().starts_with("python3")) continue;
      result.push_back(python / "site-packages");
      result.push_back(python / "dist-packages");
    }
  }
  return result;
}

/// The path of `file` in one of NVIDIA's packages, such as site-packages/nvidia/cu13/lib; empty if there is
/// none.
fs::path in_packages(const std::string& file) {
  for (const fs::path& bin : directories_of("PATH")) {
    for (const fs::path& folder : package_folders(bin)) {
      for (const fs::path& package : entries(folder / "nvidia"))
        if (is_there(package / "lib" / file)) return package / "lib" / file;
    }
  }
  return {};
}

/// The files beside those that the loader finds itself: the toolkit's, and one of a Python's packages.
std::vector<fs::path> elsewhere(const std::string& file) {
  std::vector<fs::path> result;
  for (const fs::path& path : {fs::path(kToolkit) / file, in_packages(file)})
    if (!path.empty() && is_there(path)) result.push_back(path);
  return result;
}

fs::path named_by_user(const std::string& file) {
  for (const fs::path& directory : directories_of(kPathVariable))
    if (is_there(directory / file)) return directory / file;
  return {};
}

void* open(const fs::path& path) { return dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); }

/// Up to CUDA 12 the names of all packages end in the version, since then those of cuDNN and NCCL.
std::string package_name(std::string_view package, int cuda) {
  const bool has_version = cuda < 13 || package == "cudnn" || package == "nccl";
  return fmt::format("nvidia-{}{}", package, has_version ? fmt::format("-cu{}", cuda) : "");
}

}  // namespace

SharedLibrary::SharedLibrary(std::string file, std::string_view package, int cuda) : file_(std::move(file)) {
  const fs::path named = named_by_user(file_);
  handle_ = open(named.empty() ? fs::path(file_) : named);
  if (handle_ != nullptr) return;
  std::string failure = dlerror();
  if (named.empty()) {
    for (const fs::path& path : elsewhere(file_)) {
      handle_ = open(path);
      if (handle_ != nullptr) return;
      failure = dlerror();
    }
  }
  throw Error(ErrorKind::kSystem, "cannot load a library of CUDA: " + failure,
              fmt::format("install the CUDA {} toolkit, or `pip install {}` into the Python on PATH, or name "
                          "the library's directory in {}",
                          cuda, package_name(package, cuda), kPathVariable));
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
