#include "engine/backend/device_plugin.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "engine/base/error.h"

namespace mtf {
namespace {

constexpr const char* kFile = "libmtf_cuda.so";
constexpr const char* kPathVariable = "MTF_CUDA_PLUGIN";

bool is_there(const std::filesystem::path& path) { return access(path.c_str(), F_OK) == 0; }

std::filesystem::path find_plugin() {
  if (const char* named = std::getenv(kPathVariable); named != nullptr && *named != '\0') {
    if (is_there(named)) return std::filesystem::absolute(named);
    throw Error(ErrorKind::kSystem, fmt::format("{}: there is no {}", kPathVariable, named));
  }
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::filesystem::path beside = here / kFile, library = here.parent_path() / "lib" / kFile;
  if (is_there(beside)) return beside;
  if (is_there(library)) return library;
  throw Error(
      ErrorKind::kSystem,
      fmt::format("this build has no CUDA backend: there is no {} in {} or {}", kFile, here.string(),
                  library.parent_path().string()),
      fmt::format("build where the CUDA toolkit is (cmake -DMTF_CUDA=ON), name the file in {}, or use "
                  "`devices: cpu`",
                  kPathVariable));
}

const DevicePlugin& load_plugin(const std::filesystem::path& path) {
  // The library is never closed: objects made by its code live as long as the process.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    throw Error(ErrorKind::kSystem, fmt::format("cannot load the CUDA backend: {}", dlerror()));
  }
  const auto entry = reinterpret_cast<const DevicePlugin* (*)()>(dlsym(library, kDevicePluginEntry));
  if (entry == nullptr) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{} is no CUDA backend: it has no {}", path.string(), kDevicePluginEntry));
  }
  const DevicePlugin& plugin = *entry();
  if (plugin.abi != kDevicePluginAbi) {
    throw Error(ErrorKind::kSystem,
                fmt::format("{} is of another build than this program (interface {}, not {})", path.string(),
                            plugin.abi, kDevicePluginAbi),
                "install both from one build");
  }
  return plugin;
}

}  // namespace

const DevicePlugin& device_plugin() {
  static const DevicePlugin& plugin = load_plugin(find_plugin());
  return plugin;
}

}  // namespace mtf
