#!/usr/bin/env bash
# Tests the memory plan of decoding, which is made before the first text: caches and programs of the longest
# batch, if no text ends early. A run that exceeds the limit is refused, and the suggested batch size makes it
# fit. Evaluations that decode texts are part of a training run's plan.
source "$2/tests/end_to_end/common.sh"

for ((i = 0; i < 128; i++)); do echo "the cat of number $i sees the dog and the bird by the river again"; done > lines
head -n 20 lines > some
cat > translate.yaml << 'END'
data: {train: {type: parallel, inputs: some, targets: some}, vocabulary: bytes, sequence_length: 72, packing: none, cache: cache}
model:
  type: bitransformer
  d_model: 256
  positions: sinusoid
  layer_defaults:
    SelfAttention: {num_heads: 4, key_value_size: 64}
    EncDecAttention: {num_heads: 4, key_value_size: 64}
    DenseReluDense: {hidden_size: 512}
  encoder: {num_layers: 1, block: [SelfAttention, DenseReluDense]}
  decoder: {num_layers: 3, block: [SelfAttention, EncDecAttention, DenseReluDense]}
train: {steps: 1, batch_size: 1}
infer: {input: lines, output: out.txt, max_length: 60}
END
expect_exit 0 "$mtf_train" translate.yaml run.model_dir=run
run=("$mtf_train" run/config.yaml run.mode=infer)

# resident COMMAND...: prints the peak resident bytes of the command, which must not fail.
resident() {
  python3 "$source_dir/tests/end_to_end/resident.py" "$@" || { cat out >&2; fail "$*"; }
}
# expect_most PLAN BYTES NAME: BYTES must be at most PLAN, and not much less; the plan has room in caches that short texts do
# not touch.
expect_most() {
  awk -v plan="$1" -v bytes="$2" -v name="$3" 'BEGIN {
    printf "%-34s planned %.1f MB, resident %.1f MB (%.3f)\n", name, plan / 1e6, bytes / 1e6, bytes / plan
    exit !(bytes > 0.5 * plan && bytes < 1.03 * plan) }' || fail "$3: the plan is not what was used"
}
# An untrained model ends few texts early: nearly all have 60 tokens.
for arguments in "infer.method=greedy infer.batch_size=128" "infer.method={type:\ sample} infer.batch_size=64" \
  "infer.beam_size=4 infer.batch_size=16 infer.input=some"; do
  eval "words=($arguments)"
  expect_exit 2 "${run[@]}" "${words[@]}" run.memory_limit=50MB
  expect_text " of memory and may take 50 MB (run.memory_limit)"
  expect_text "  decoding"
  [ "$(ls out.txt* 2> /dev/null)" = "" ] || fail "a run that was refused has written something"
  plan=$(sed -n 's/.*the run needs \([0-9.]*\) MB of memory.*/\1/p' out)
  plan=$(awk -v plan="$plan" 'BEGIN { printf "%d", plan * 1e6 }')
  expect_most "$plan" "$(resident "${run[@]}" "${words[@]}")" "$arguments"
  rm out.txt
  expect_exit 2 "${run[@]}" "${words[@]}" "run.memory_limit=$((plan - plan / 500))"
  [ "$arguments" != "infer.method=greedy infer.batch_size=128" ] || expect_exit 0 "${run[@]}" "${words[@]}" "run.memory_limit=$((plan + plan / 500))"
  rm -f out.txt
done
# The suggested batch size makes it fit.
expect_exit 2 "${run[@]}" infer.method=greedy infer.batch_size=128 run.memory_limit=120MB
expect_text 'this fits: `infer.batch_size: '
batch=$(sed -n 's/.*`infer.batch_size: \([0-9]*\)`.*/\1/p' out)
bytes=$(resident "${run[@]}" infer.method=greedy "infer.batch_size=$batch" run.memory_limit=120MB)
[ "$bytes" -le 123000000 ] || fail "a run that may take 120 MB took $bytes"
# If the weights alone exceed the limit no line is read.
expect_exit 2 "${run[@]}" infer.input=- run.memory_limit=15MB < /dev/null
expect_text "  weights"

# Evaluations that decode texts are part of the plan of training, in explain and before the first step.
evaluation="{type: parallel, inputs: lines, targets: lines, metrics: [loss, bleu]}"
train=("$mtf_train" translate.yaml "evaluate.datasets={dev: $evaluation}" evaluate.every=1 evaluate.batch_size=1
  "evaluate.infer={method: greedy, max_length: 60, batch_size: 128}")
"${train[@]}" run.mode=explain explain.format=json > explained.json 2> said || { cat said >&2; fail "cannot explain"; }
read -r plan decoding <<< "$(python3 -c '
import json
process = json.load(open("explained.json"))["memory"]["process"]
print(process["bytes"], process["parts"]["decoding in the evaluation"])')"
[ "$decoding" -gt 50000000 ] || fail "decoding is not in the plan: $decoding"
expect_most "$plan" "$(resident "${train[@]}" run.model_dir=evaluated)" "training with BLEU"
expect_exit 2 "${train[@]}" run.model_dir=refused "run.memory_limit=$((plan - decoding / 2))"
expect_text '`evaluate.infer.batch_size: '
expect_text "decoding in the evaluation"
[ ! -e refused ] || fail "a run that was refused has written something"
batch=$(sed -n 's/.*`evaluate.infer.batch_size: \([0-9]*\)`.*/\1/p' out)
expect_exit 0 "${train[@]}" run.model_dir=smaller "run.memory_limit=$((plan - decoding / 2))" "evaluate.infer.batch_size=$batch"
