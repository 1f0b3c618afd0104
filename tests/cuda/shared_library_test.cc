// Where the backend looks for CUDA's libraries. A library of the C library stands for them.
#include "engine/backend/cuda/nvidia/shared_library.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "engine/base/error.h"

namespace mtf::cuda {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFile = "libmtf_test_library.so.13";
constexpr const char* kMath = "/lib/x86_64-linux-gnu/libm.so.6";

class LibrarySearch : public ::testing::Test {
 protected:
  LibrarySearch() {
    fs::remove_all(folder_);
    fs::create_directories(folder_ / "bin");
    setenv("PATH", (folder_.string() + "/bin:" + path_).c_str(), 1);
  }
  ~LibrarySearch() override {
    setenv("PATH", path_.c_str(), 1);
    unsetenv("MTF_CUDA_LIBRARY_PATH");
    fs::remove_all(folder_);
  }

  /// Puts a link to TARGET into a directory below the folder, which is returned.
  fs::path place(const std::string& directory, const fs::path& target = kMath) const {
    fs::create_directories(folder_ / directory);
    fs::create_symlink(target, folder_ / directory / kFile);
    return folder_ / directory;
  }
  static bool finds(const char* function) {
    return SharedLibrary(kFile, "cublas", 13).symbol(function) != nullptr;
  }
  static std::string failure(const std::string& package, int cuda) {
    try {
      SharedLibrary(kFile, package, cuda);
    } catch (const Error& error) {
      return error.what();
    }
    return "none";
  }

  fs::path folder_ = fs::path(::testing::TempDir()) / ("libraries-" + std::to_string(getpid()));
  std::string path_ = std::getenv("PATH");
};

TEST_F(LibrarySearch, FindsThePackagesOfThePythonOnPath) {
  place("lib/python3.12/site-packages/nvidia/cu13/lib");
  EXPECT_TRUE(finds("cos"));
}

TEST_F(LibrarySearch, FindsPackagesOfTheDistributionsPython) {
  place("lib/python3/dist-packages/nvidia/cublas/lib");
  EXPECT_TRUE(finds("cos"));
}

TEST_F(LibrarySearch, FindsPackagesBesideItsOwnWheel) {
  fs::create_directories(folder_ / "site-packages/mtf_train/bin");
  place("site-packages/nvidia/nccl/lib");
  setenv("PATH", (folder_ / "site-packages/mtf_train/bin").c_str(), 1);
  EXPECT_TRUE(finds("cos"));
}

TEST_F(LibrarySearch, TakesTheUsersDirectoryFirst) {
  place("lib/python3.12/site-packages/nvidia/damaged/lib", "/etc/hostname");
  setenv("MTF_CUDA_LIBRARY_PATH", ("/nowhere:" + place("mine").string()).c_str(), 1);
  EXPECT_TRUE(finds("cos"));
}

TEST_F(LibrarySearch, SaysWhatToInstall) {
  const std::string newer = failure("cublas", 13), older = failure("cublas", 12), nccl = failure("nccl", 13);
  EXPECT_NE(newer.find("libmtf_test_library.so.13: cannot open shared object file"), std::string::npos)
      << newer;
  EXPECT_NE(newer.find("the CUDA 13 toolkit, or `pip install nvidia-cublas` into"), std::string::npos)
      << newer;
  EXPECT_NE(older.find("the CUDA 12 toolkit, or `pip install nvidia-cublas-cu12` into"), std::string::npos)
      << older;
  EXPECT_NE(nccl.find("`pip install nvidia-nccl-cu13` into"), std::string::npos) << nccl;
}

TEST_F(LibrarySearch, NamesTheFileThatCannotBeLoaded) {
  // The loader remembers the paths that it has opened: this is another one than those above.
  const fs::path directory = place("lib/python3.12/site-packages/nvidia/damaged/lib", "/etc/hostname");
  const std::string text = failure("cublas", 13);
  EXPECT_NE(text.find((directory / kFile).string()), std::string::npos) << text;
}

}  // namespace
}  // namespace mtf::cuda
