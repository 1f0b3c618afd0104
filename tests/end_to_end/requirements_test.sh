#!/usr/bin/env bash
# CMake names all that is missing on the system in one message, with the packages that have it.
source "$2/tests/end_to_end/common.sh"

# Without a compiler of CUDA: its checks take seconds and are beside the point.
expect_exit 1 cmake -S "$source_dir" -B build -G Ninja -DMTF_CUDA=OFF -DCMAKE_DISABLE_FIND_PACKAGE_yaml-cpp=ON \
  -DCMAKE_DISABLE_FIND_PACKAGE_Gloo=ON -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON
expect_text "missing: yaml-cpp (Debian: libyaml-cpp-dev, Fedora: yaml-cpp-devel, Arch: yaml-cpp)"
expect_text "missing: Gloo (Debian: libgloo-dev,"
expect_text "missing: GTest (Debian: libgtest-dev libgmock-dev,"
[ "$(grep -c missing: out)" -eq 3 ] || { cat out >&2; fail "more is missing than was taken away"; }

expect_exit 1 cmake -S "$source_dir" -B folders -G Ninja -DMTF_CUDA=OFF "-DMTF_TEST_FOLDERS=comm;nope"
expect_text "there is no nope; a list of some of"
expect_exit 1 cmake -S "$source_dir" -B cuda -G Ninja -DMTF_CUDA=FOO
expect_text "MTF_CUDA=FOO: it is AUTO (where there is an nvcc), ON or OFF"

# What only the tests need is not missed without them.
expect_exit 1 cmake -S "$source_dir" -B build -DMTF_BUILD_TESTS=OFF
! grep -q GTest out || fail "GTest is missed although no test is built"
