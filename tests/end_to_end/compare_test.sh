#!/usr/bin/env bash
# Tests mtf-compare: the same run, the same on another layout, other results, shorter runs, files of tensors,
# errors.
source "$2/tests/end_to_end/common.sh"

run_toy() {  # DIRECTORY ARGUMENT... : 20 steps, each in metrics.jsonl
  local directory=$1
  shift
  expect_exit 0 "$mtf_train" "$source_dir/configs/models/toy.yaml" train.steps=20 train.log_every=1 \
    "run.model_dir=$directory" "$@"
}

# expect_verdict PATTERN: the last line of the output must match PATTERN.
expect_verdict() {
  tail -n 1 out | grep -qE -- "$1" || { cat out >&2; fail "the verdict does not match: $1"; }
}

run_toy one
run_toy again run.threads=2
expect_exit 0 "$mtf_compare" one again
expect_verdict '^same: 20 steps'
expect_text "run.threads"
expect_exit 0 "$mtf_compare" one again --tensors
expect_verdict '^same: 2 tensors$'

run_toy mesh "mesh=rows:2;cols:2" "layout=batch:rows;hidden_odd:cols"
expect_exit 0 "$mtf_compare" one mesh --tolerance 1e-5
expect_verdict '^same within 1e-05: 20 steps'
expect_text "{rows: 2, cols: 2}"
expect_text "layout.hidden_odd"
expect_exit 1 "$mtf_compare" one mesh --config
expect_verdict '^different: first key mesh$'

run_toy rate learning_rate=0.0002
expect_exit 1 "$mtf_compare" one rate --metrics
expect_verdict '^different: first at step 1, learning_rate 0.0001 against 0.0002 \(5.0e-01\)$'
! grep -q examples_per_second out || fail "speeds are compared"

# One number of one step differs.
cp -r one changed
sed -i '7s/"loss":[^,]*/"loss":0.25/' changed/metrics.jsonl
expect_exit 1 "$mtf_compare" one changed
expect_verdict '^different: first at step 7, loss 0\.[0-9]* against 0\.25 '
expect_exit 0 "$mtf_compare" one changed --tolerance=0.9

# Steps that only one run has are counted.
run_toy short train.steps=15
expect_exit 0 "$mtf_compare" one short
expect_verdict '^same: 15 steps.*, 5 steps only in A$'

# Half a line at the end, which a killed program leaves, is ignored; damage elsewhere is an error.
printf '{"step":21,"lo' >> changed/metrics.jsonl
expect_exit 1 "$mtf_compare" one changed
sed -i '3s/$/}/' changed/metrics.jsonl
expect_exit 2 "$mtf_compare" one changed
expect_text "changed/metrics.jsonl:3: "

# The last byte of a checkpoint's weights differs.
cp -r one torn
weights=$(ls torn/checkpoints/step-00000020/*.safetensors | tail -n 1)
truncate -s -1 "$weights" && printf '\001' >> "$weights"
expect_exit 2 "$mtf_compare" one torn
expect_text "$(basename "$weights")"
expect_exit 0 "$mtf_compare" one torn --metrics
# So a comparison with itself checks a checkpoint.
checkpoint=torn/checkpoints/step-00000020
expect_exit 2 "$mtf_compare" "$checkpoint" "$checkpoint"
expect_text "do not have the checksum of the manifest"
expect_exit 0 "$mtf_compare" "${checkpoint/torn/one}" "${checkpoint/torn/one}"

# Files of tensors are compared.
sgd=$source_dir/tests/golden/02_toy_sgd/tensors.safetensors
adafactor=$source_dir/tests/golden/02_toy_adafactor/tensors.safetensors
expect_exit 0 "$mtf_compare" "$sgd" "$sgd"
expect_verdict '^same: [0-9]+ tensors$'
expect_exit 1 "$mtf_compare" "$sgd" "$adafactor"
expect_verdict '^different: first tensor '
expect_exit 2 "$mtf_compare" "$sgd" "$source_dir/configs/models/toy.yaml"
[ "$(wc -l < out)" = 1 ] || fail "trouble is not said in one line"

# Help and errors of usage.
expect_exit 0 "$mtf_compare" --help
expect_text "usage: mtf-compare RUN_A RUN_B"
[ "$(wc -l < out)" -le 45 ] || fail "--help is longer than a screen"
for words in "" one "one again short" "one missing" "one $work/missing.safetensors" "one $source_dir" "one again --tensor" \
  "one again --tolerance x" "one $sgd --metrics"; do
  read -ra arguments <<< "$words"
  expect_exit 2 "$mtf_compare" "${arguments[@]}"
  [ "$(wc -l < out)" = 1 ] || { cat out >&2; fail "trouble is not said in one line: mtf-compare $words"; }
done
