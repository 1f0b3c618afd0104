#!/usr/bin/env bash
# Tests runs on a GPU; skipped if there is none. Arguments after the source directory set what device_runs.sh compares:
#   gpu_test.sh MTF_TRAIN SOURCE_DIR device_steps=300 mean_tolerance=0.01
source "$2/tests/end_to_end/common.sh"
use_gpu
for setting in "${@:3}"; do declare "$setting"; done
source "$source_dir/tests/end_to_end/device_runs.sh"
report_failures
