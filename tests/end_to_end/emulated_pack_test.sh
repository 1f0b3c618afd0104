#!/usr/bin/env bash
# Tests tools/gpu_pack.sh and the check.py of its pack with the emulated GPU: the pack brings all that its programs need, and
# the checks end well, count what has failed, and leave one JSON.
source "$2/tests/end_to_end/common.sh"
use_emulated_gpu
unset MTF_CUDA_PLUGIN
build=$(dirname "$(dirname "$mtf_train")")
export PYTHONDONTWRITEBYTECODE=1

expect_exit 0 "$source_dir/tools/gpu_pack.sh" --emulator --copy-only --build "$build" --output "$work/pack"
expect_text "gpu_pack: $work/pack, "
[ "$(find pack/libraries -name 'libc.so*' | wc -l)" = 0 ] || fail "the pack has a C library"
mv pack moved
expect_exit 0 python3 moved/check.py --quick --jobs 2 --skip "^(bench|engine)" --output results
expect_text "ok  "
# steps EXPRESSION: prints it for the list of records `steps`.
steps() { python3 -c "import json; steps = json.load(open('results/results.json'))['steps']; print($1)"; }
[ "$(steps '[s["name"] for s in steps if not s["ok"]]')" = "[]" ] || fail "$(cat out)"
[[ "$(steps 'steps[-1]["name"], steps[-1]["line"]')" = "runs 0 of "*" failed" ]] || fail "$(steps 'steps[-1]')"
grep -q '^ok    lm recorded = operation by operation: same: 4 steps' results/logs/runs.log || fail "$(cat results/logs/runs.log)"

# A failure is counted and does not end the checks; what needs a device that is not there does not begin.
rm moved/libraries/libyaml-cpp.so* moved/programs/mtf-compare
expect_exit 1 python3 moved/check.py --quick --only "^(dependencies|runs)" --output broken
expect_text "FAIL"
rm moved/lib/libmtf_cuda_emulator.so
expect_exit 1 python3 moved/check.py --quick --only "^(list-devices|runs)" --output none
expect_text "libmtf_cuda_emulator.so is not there"

# An output that is no pack stays as it is.
mkdir precious
expect_exit 2 "$source_dir/tools/gpu_pack.sh" --emulator --copy-only --build "$build" --output "$work/precious"
expect_text "is there and is no pack"
# A pack that fails midway leaves nothing, so that the command can be repeated.
expect_exit 1 "$source_dir/tools/gpu_pack.sh" --emulator --copy-only --build "$work/nowhere" --output "$work/broken_pack"
[ ! -e broken_pack ] || fail "a pack that is not complete was left behind"

for option in --architectures --build --output; do
  expect_exit 2 "$source_dir/tools/gpu_pack.sh" $option
  expect_text "gpu_pack: $option needs a value"
done
echo "emulated_pack_test: passed"
