#!/usr/bin/env bash
# Makes a directory that travels to a machine with a GPU, and an archive of it: programs, CUDA backend, tests, benchmarks,
# Debian's libraries that another Linux lacks, and check.py, which runs all of it there. That machine needs a driver, the
# libraries of CUDA (toolkit or wheels), Python 3 and, for the comparisons, PyTorch; no compiler.
#
#   tools/gpu_pack.sh [--architectures 90] [--build build/gpu] [--output build/dist/gpu_pack]
#   tools/gpu_pack.sh --emulator [--build build] [--output DIR]     with the emulated GPU, to try check.py without a GPU
#
# Without --emulator it needs nvcc, and configures and builds BUILD. --copy-only packs what BUILD has, without an archive.
# On the other machine: tar xJf gpu_pack.tar.xz; python3 gpu_pack/check.py
set -euo pipefail
cd "$(dirname "$0")/.."

architectures=90 build= output=build/dist/gpu_pack emulator= make=yes
while [ $# -gt 0 ]; do
  case $1 in
    --architectures | --build | --output)
      [ "${2:-}" ] || { echo "gpu_pack: $1 needs a value; see the top of $0" >&2; exit 2; } ;;&
    --architectures) architectures=$2; shift ;;
    --build) build=$2; shift ;;
    --output) output=$2; shift ;;
    --emulator) emulator=yes ;;
    --copy-only) make= ;;
    *) echo "gpu_pack: unknown argument $1; see the top of $0" >&2; exit 2 ;;
  esac
  shift
done

programs=(mtf-train mtf-compare mtf-launch mtf-convert ops_test spmd_test runtime_test trainer_test gpu_operations_bench)
if [ "$emulator" ]; then
  build=${build:-build}
  programs+=(cuda_test)
  plugin=libmtf_cuda_emulator.so
else
  build=${build:-build/gpu}
  programs+=(cuda_gpu_test)
  plugin=libmtf_cuda.so
  [ ! "$make" ] || cmake --preset release -B "$build" -DMTF_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES="$architectures"
fi
[ ! "$make" ] || cmake --build "$build" --target "${programs[@]}" "$(basename $plugin .so | sed s/^lib//)" mtf_old_plugin

if [ -e "$output" ] && [ ! -e "$output/pack.json" ]; then
  echo "gpu_pack: $output is there and is no pack; remove it, or name another --output" >&2
  exit 2
fi
rm -rf "$output"
trap 'rm -rf "$output"' EXIT  # a pack that is not complete
mkdir -p "$output"/{bin,programs,lib,libraries,sources/tests}
for program in "${programs[@]}"; do
  strip -o "$output/programs/$program" "$build/bin/$program"
done
for library in $plugin libmtf_old_plugin.so; do  # the latter is what a test must refuse
  strip -o "$output/lib/$library" "$build/lib/$library"
done
# Those of the C and C++ compilers are as new or newer there.
for library in $(ldd "$output"/programs/* "$output/lib/$plugin" | awk '/=> \// { print $3 }' | sort -u); do
  case $(basename "$library") in
    libc.so.* | libm.so.* | libdl.so.* | librt.so.* | libpthread.so.* | libstdc++.so.* | libgcc_s.so.*) ;;
    *) cp -L "$library" "$output/libraries/" ;;
  esac
done
# The libraries are for these programs alone: Python and others there have their own.
for program in "${programs[@]}"; do
  cat > "$output/bin/$program" << 'WRAPPER'
#!/bin/sh
pack=$(dirname "$(dirname "$(readlink -f "$0")")")
export LD_LIBRARY_PATH="$pack/libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
exec "$pack/programs/$(basename "$0")" "$@"
WRAPPER
  chmod +x "$output/bin/$program"
done
cp -r configs "$output/sources/"
cp -r --parents tests/end_to_end tests/bench/gpu tests/golden "$output/sources/"
find "$output/sources" -name __pycache__ -prune -exec rm -r {} +
cp tools/gpu_checks.py "$output/check.py"
cat > "$output/pack.json" << JSON
{"commit": "$(git describe --always --dirty)", "plugin": "$plugin", "architectures": "$([ "$emulator" ] && echo none || echo "$architectures")",
 "source_dir": "$PWD", "programs": "$(echo "${programs[@]}")"}
JSON
trap - EXIT
echo "gpu_pack: $output, $(du -sh "$output" | cut -f1)"
[ "$make" ] || exit 0
tar c -C "$(dirname "$output")" "$(basename "$output")" | xz -T0 -3 > "$output.tar.xz"
echo "gpu_pack: $output.tar.xz, $(du -h "$output.tar.xz" | cut -f1)"
