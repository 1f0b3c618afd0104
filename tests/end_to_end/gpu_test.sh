#!/usr/bin/env bash
# Runs the tests of a GPU, end-to-end and unit tests; skipped if there is none.
source "$2/tests/end_to_end/common.sh"
"$mtf_train" --list-devices > devices
if ! grep -q '^cuda:0' devices; then
  echo "skipped: $(grep '^no GPU' devices)"
  exit 77
fi
device_steps=100
source "$source_dir/tests/end_to_end/device_runs.sh"
for folder in ops spmd runtime; do
  MTF_TEST_DEVICES=cuda "$(dirname "$mtf_train")/${folder}_test" --gtest_brief=1 > out 2>&1 || { cat out >&2; fail "$folder"; }
done
