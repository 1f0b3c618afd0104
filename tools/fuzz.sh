#!/usr/bin/env bash
# Fuzzes the readers of untrusted files: tools/fuzz.sh [SECONDS [TARGET...]], by default 60 seconds for each
# of yaml, config, safetensors, manifest, idx, png, jpeg, npy, cifar and table. Builds into build/fuzz with clang 19, which
# is installed if it is missing: older ones do not know the standard library's ranges. New inputs that reach more code are stored in build/fuzz/corpus, findings in
# build/fuzz/findings; the exit code is 1 if there is a finding. Copy a finding to tests/fuzz/corpus/TARGET
# under a name that says what was wrong: tests/fuzz/corpus_test.cc reads it.
set -euo pipefail
cd "$(dirname "$0")/.."

seconds=${1:-60}
targets=("${@:2}")
[ ${#targets[@]} -gt 0 ] || targets=(yaml config safetensors manifest idx png jpeg npy cifar table)

tools/setup.sh
if ! [ -e "$(clang++-19 -print-file-name=libclang_rt.fuzzer-x86_64.a 2> /dev/null)" ]; then
  as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends clang-19 libclang-rt-19-dev
fi
cmake --preset fuzz
cmake --build --preset fuzz

# Small inputs are read many times per second; those of a whole configuration take longest.
declare -A longest=([yaml]=16384 [config]=4096 [safetensors]=16384 [manifest]=16384 [idx]=65536
  [png]=16384 [jpeg]=16384 [npy]=16384 [cifar]=16384 [table]=8192)
declare -A dictionary=([yaml]=yaml [config]=yaml [safetensors]=json [manifest]=json)
export ASAN_OPTIONS=quarantine_size_mb=8:malloc_context_size=3
found=0
for target in "${targets[@]}"; do
  corpus=build/fuzz/corpus/$target findings=build/fuzz/findings/$target
  mkdir -p "$corpus" "$findings"
  options=(-max_total_time="$seconds" -max_len="${longest[$target]}" -timeout=10 -rss_limit_mb=1024 -malloc_limit_mb=512
    -artifact_prefix="$findings/" -print_final_stats=1)
  [ -z "${dictionary[$target]:-}" ] || options+=(-dict="tests/fuzz/${dictionary[$target]}.dict")
  echo "fuzz: $target for $seconds s"
  if build/fuzz/bin/fuzz_"$target" "${options[@]}" "$corpus" "tests/fuzz/corpus/$target" \
    < /dev/null > "$findings.log" 2>&1; then
    grep -aE "^(Done|stat::number|stat::peak)" "$findings.log"
    grep -aoE "cov: [0-9]+ ft: [0-9]+" "$findings.log" | tail -1
  else
    tail -n 40 "$findings.log"
    found=1
  fi
done
exit $found
