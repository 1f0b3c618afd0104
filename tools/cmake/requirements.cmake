# What the build takes from the system. Everything is looked for before anything is reported, so that one message names
# all that is missing, with the packages that have it.
set(mtf_missing "")

# mtf_require(NAME DEBIAN FEDORA ARCH VARIABLE...): notes NAME and its packages unless all variables are true.
macro(mtf_require name debian fedora arch)
  foreach(variable ${ARGN})
    if(NOT ${variable})
      string(APPEND mtf_missing "\n  missing: ${name} (Debian: ${debian}, Fedora: ${fedora}, Arch: ${arch})")
      break()
    endif()
  endforeach()
endmacro()

# mtf_require_package(NAME DEBIAN FEDORA ARCH [ARGUMENT...]): find_package(NAME ARGUMENT...).
macro(mtf_require_package name debian fedora arch)
  find_package(${name} QUIET ${ARGN})
  mtf_require(${name} "${debian}" "${fedora}" "${arch}" ${name}_FOUND)
endmacro()

find_package(Threads REQUIRED)
mtf_require_package(yaml-cpp libyaml-cpp-dev yaml-cpp-devel yaml-cpp)
mtf_require_package(spdlog libspdlog-dev spdlog-devel spdlog)
mtf_require_package(fmt libfmt-dev fmt-devel fmt)
mtf_require_package(nlohmann_json nlohmann-json3-dev json-devel nlohmann-json)
mtf_require_package(cxxopts libcxxopts-dev cxxopts-devel cxxopts)
mtf_require_package(ZLIB zlib1g-dev zlib-devel zlib)
mtf_require_package(PNG libpng-dev libpng-devel libpng)
mtf_require_package(JPEG libjpeg62-turbo-dev libjpeg-turbo-devel libjpeg-turbo)
mtf_require_package(ICU libicu-dev libicu-devel icu COMPONENTS uc i18n)
mtf_require_package(pugixml libpugixml-dev pugixml-devel pugixml)
mtf_require_package(Gloo libgloo-dev gloo-devel gloo CONFIG)
mtf_require_package(Eigen3 libeigen3-dev eigen3-devel eigen NO_MODULE)
mtf_require_package(OpenSSL libssl-dev openssl-devel openssl COMPONENTS Crypto)

# Header-only. libprotobuf is not used: Debian's libsentencepiece exports an older one, and they cannot be in one process.
find_path(PROTOZERO_INCLUDE_DIR protozero/pbf_reader.hpp)
mtf_require(protozero libprotozero-dev protozero-devel protozero PROTOZERO_INCLUDE_DIR)
find_path(SENTENCEPIECE_INCLUDE_DIR sentencepiece_trainer.h)
find_library(SENTENCEPIECE_LIBRARY sentencepiece)
find_library(SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train)
mtf_require(sentencepiece libsentencepiece-dev sentencepiece-devel sentencepiece
            SENTENCEPIECE_INCLUDE_DIR SENTENCEPIECE_LIBRARY SENTENCEPIECE_TRAIN_LIBRARY)
find_path(XXHASH_INCLUDE_DIR xxhash.h)
find_library(XXHASH_LIBRARY xxhash)
mtf_require(xxhash libxxhash-dev xxhash-devel xxhash XXHASH_INCLUDE_DIR XXHASH_LIBRARY)

if(MTF_BUILD_TESTS)
  mtf_require_package(GTest "libgtest-dev libgmock-dev" gmock-devel gtest)
  mtf_require_package(Python3 python3 python3 python COMPONENTS Interpreter)
  if(MTF_EMULATED_GPU)
    mtf_require_package(Boost libboost-context-dev boost-devel boost COMPONENTS context)
  endif()
endif()

if(mtf_missing)
  message(FATAL_ERROR "The build needs packages that are not installed.${mtf_missing}\n"
                      "  On Debian 12, tools/setup.sh installs all of them; -DMTF_BUILD_TESTS=OFF does without those of the tests.")
endif()
