#!/usr/bin/env bash
# Tests the timeline of some steps: instructions, collectives, the wait for data, evaluation and checkpoints,
# in one process and in several; and the FLOPs and memory in the log.
source "$2/tests/end_to_end/common.sh"
source "$source_dir/tests/end_to_end/processes.sh"
read -ra data <<< "$(mnist_data)"
options=("$source_dir/configs/models/mnist.yaml" "${data[@]}" vars.hidden=48 train.batch_size=48 train.epochs=null train.steps=9
  train.log_every=1 evaluate.every=6 checkpoint.every=3 run.threads=2)
mesh=(mesh=rows:2\;cols:2 "layout=batch:rows;hidden:cols")

# check STEPS FILE...: checks timelines and writes their contents to `out`.
check() {
  python3 "$source_dir/tests/end_to_end/check_profile.py" "$@" > out 2>&1 || { cat out >&2; fail "check_profile.py $*"; }
}
expect_span() { grep -qE "^$1 [0-9]+\$" out || { cat out >&2; fail "no span is: $1"; }; }
expect_no_span() { ! grep -qE "^$1 [0-9]+\$" out || { cat out >&2; fail "a span is: $1"; }; }

expect_exit 0 "$mtf_train" "${options[@]}" run.model_dir=alone profile.steps=6 profile.skip=1
expect_text "profile of 6 steps: alone/profile.json"
check 6 alone/profile.json
for span in "step step" "data wait" "compute einsum" "compute relu" "compute adafactor_apply" "evaluation evaluation" \
  "checkpoint snapshot" "checkpoint write"; do expect_span "thread $span"; done
expect_no_span "thread communication .*"

# The run is the same with and without a profile, and writes one only if it is requested.
expect_exit 0 "$mtf_train" "${options[@]}" run.model_dir=unwatched
expect_exit 0 "$mtf_compare" alone unwatched
expect_text "same: 9 steps"
[ ! -e unwatched/profile.json ] || fail "a timeline that nobody asked for"

# Collectives within a process are in the timeline.
expect_exit 0 "$mtf_train" "${options[@]}" "${mesh[@]}" run.model_dir=mesh profile.steps=2 profile.skip=1
check 2 mesh/profile.json
expect_span "thread compute einsum"
expect_span "thread communication all_reduce"

# Collectives between processes: the instructions that start and await them, and the thread that runs them.
expect_exit 0 timeout 60 "$mtf_launch" -n 2 -- "$mtf_train" "${options[@]}" "${mesh[@]}" run.model_dir=two profile.steps=3 profile.skip=2
expect_text "[0] profile of 3 steps: two/profile.rank-0.json"
[ ! -e two/profile.json ] || fail "two processes write one file"
check 3 two/profile.rank-0.json two/profile.rank-1.json
expect_span "thread communication all_reduce"
expect_span "thread communication done"
expect_span "communication thread communication all_reduce"

# A run may end before or within the profiled steps.
expect_exit 0 "$mtf_train" "${options[@]}" run.model_dir=short profile.steps=4 train.steps=5
expect_text "no profile: the run ends within the 10 steps of \`profile.skip\`"
expect_exit 0 "$mtf_train" "${options[@]}" run.model_dir=cut profile.steps=400 profile.skip=6
expect_text "profile of 3 steps: cut/profile.json"
check 3 cut/profile.json

# Utilization is logged if the peak is known: the FLOPs are those of forward and backward of 48 examples,
# where the first layer's input needs no gradient.
! grep -q '"mfu"' alone/metrics.jsonl || fail "the peak of a processor is not known"
expect_exit 0 "$mtf_train" "${options[@]}" run.model_dir=peak run.peak_flops=1e12
expect_text " % MFU  "
python3 - << 'END'
import json
flops = 2 * 48 * (2 * 784 * 48 + 3 * 48 * 10)
for line in map(json.loads, open("peak/metrics.jsonl")):
    rate = flops / (line["step_ms"] / 1e3)
    assert abs(line["model_flops_per_second"] / rate - 1) < 1e-6, line
    assert abs(line["mfu"] / (rate / 1e12) - 1) < 1e-6, line
    assert 1e6 < line["memory_bytes"] < 1e10, line
END
