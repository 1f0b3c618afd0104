#!/usr/bin/env bash
# Tests the dependencies of the programs and of the CUDA backend: programs start without any CUDA library; the
# backend loads without a driver and without the libraries that it loads itself, and exports one function.
source "$(dirname "$0")/common.sh"

# expect_no_cuda FILE: the file must not depend on CUDA, neither directly nor through another library.
expect_no_cuda() {
  ! ldd "$1" | grep -E 'lib(cuda|cublas|cudnn|nccl|nv)' >&2 || fail "$1 is linked with CUDA"
}

build=$(dirname "$(dirname "$mtf_train")")
for program in "$build"/bin/mtf-*; do
  expect_no_cuda "$program"
done

plugin=$build/lib/libmtf_cuda.so
if [ ! -e "$plugin" ]; then
  echo "the rest is skipped: this build has no CUDA backend"
  exit 77
fi

expect_no_cuda "$plugin"
[ "$(nm --dynamic --defined-only "$plugin" | awk '{print $3}')" = mtf_device_plugin ] ||
  fail "$plugin shows more than its entry: $(nm --dynamic --defined-only "$plugin" | head)"
