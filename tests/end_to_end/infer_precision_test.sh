#!/usr/bin/env bash
# Tests weights in fewer bits (precision.infer): texts, scores and losses are nearly those of float32; no layout, process,
# thread or batch changes those of int8; evaluations within the training take part; memory has only what is read.
source "$2/tests/end_to_end/common.sh"
use_python

backward_sentences
{
  backward_translator 64 16 128
  cat << 'YAML'
train: {steps: 400, batch_size: 16, log_every: 100}
evaluate: {every: 200, datasets: {dev: {type: parallel, inputs: test.in, targets: test.out, metrics: [loss, bleu]}}}
checkpoint: {every: 200, keep_last: 2}
YAML
} > translate.yaml
expect_exit 0 "$mtf_train" translate.yaml run.model_dir=run

# decode MODE TYPE ARGUMENT...: prints the results; standard error is written to $work/said.
decode() {
  local mode=$1 type=$2
  shift 2
  "$mtf_train" run/config.yaml run.mode="$mode" precision.infer="$type" "$@" 2> "$work/said" ||
    { cat "$work/said" >&2; fail "$mode $type $*"; }
}
expect_same_file() { cmp -s "$1" "$2" || { diff "$1" "$2" | head -n 5 >&2; fail "$3"; }; }
input=(infer.input=test.in infer.format=jsonl)
scored=(score.inputs=test.in score.targets=test.out)

# ---- Nearly float32 ----
for type in same bfloat16 int8; do
  decode infer $type infer.input=test.in > $type.txt
  decode score $type "${scored[@]}" > $type.scores
  decode evaluate $type > $type.evaluation
done
"$python" - << 'END'
import json, math
def lines(name): return open(name).read().splitlines()
texts = lines("same.txt")
scores = [float(x) for x in lines("same.scores")]
wide = json.loads(lines("same.evaluation")[0])
for type, most, most_of_one in ("bfloat16", 0.02, 0.1), ("int8", 0.04, 0.4):
    equal = sum(a == b for a, b in zip(lines(type + ".txt"), texts, strict=True))
    errors = [abs(float(a) - b) / max(1, abs(b)) for a, b in zip(lines(type + ".scores"), scores, strict=True)]
    mean, worst = sum(errors) / len(errors), max(errors)
    narrow = json.loads(lines(type + ".evaluation")[0])
    loss = abs(narrow["loss"] / wide["loss"] - 1)
    print(f"{type}: {equal} of {len(texts)} texts, scores to {mean:.2g}, at worst {worst:.2g}, loss to {loss:.2g}")
    assert equal >= 0.8 * len(texts), (type, equal)
    assert 0 < mean < most and worst < most_of_one and 0 < loss < most, (type, mean, worst, loss)
    assert abs(narrow["bleu"] - wide["bleu"]) < 10, (narrow["bleu"], wide["bleu"])
END

# ---- int8 is the same everywhere ----
for method in greedy beam; do
  decode infer int8 "${input[@]}" infer.method=$method > $method
  for arguments in infer.batch_size=1 infer.batch_size=7 run.threads=1 run.threads=3 "mesh=x:2 layout=batch:x" \
    "mesh=x:4 layout=batch:x"; do
    decode infer int8 "${input[@]}" infer.method=$method $arguments > other
    expect_same_file other $method "$method: something else with $arguments"
  done
done
"$python" - > strip.py << 'END'
print("import json, sys\nfor line in sys.stdin: print(json.loads(line)['text'])")
END
"$python" strip.py < beam > beam.texts
for layout in "y:2 heads:y;d_ff:y;vocab:y" "x:2;y:2 batch:x;heads:y;d_ff:y;vocab:y" "x:8 batch:x" "y:8 d_ff:y" "y:4 heads:y"; do
  read -r mesh rules <<< "$layout"
  for type in int8 bfloat16; do
    decode infer $type "${input[@]}" mesh="$mesh" layout="$rules" | "$python" strip.py > split
    [ $type = int8 ] && wanted=beam.texts || wanted=bfloat16.txt
    expect_same_file split $wanted "$type: other texts with $layout"
  done
done
# Norms that are split round otherwise, and so do codes.
decode infer int8 "${input[@]}" mesh=x:2 layout=d_model:x | "$python" strip.py > split
[ "$(paste -d '\n' split beam.texts | awk 'NR % 2 { text = $0; next } text == $0 { n++ } END { print n + 0 }')" -ge 36 ] ||
  fail "other texts where d_model is split"
decode infer int8 "${input[@]}" mesh=x:2 layout=batch:x parameter_layout=d_model:x > split
expect_same_file split beam "other texts where parameters are split"
for mesh in "x:2 batch:x" "y:2 heads:y;d_ff:y;vocab:y"; do
  read -r mesh rules <<< "$mesh"
  expect_exit 0 "$(dirname "$mtf_train")/mtf-launch" -n 2 "$mtf_train" run/config.yaml run.mode=infer precision.infer=int8 \
    "${input[@]}" mesh=$mesh layout="$rules" infer.output=processes
  "$python" strip.py < processes > split
  expect_same_file split beam.texts "other texts with two processes and $rules"
done
for set in $("$mtf_train" --list-devices | grep -o 'avx512\|avx2\|portable' | sort -u) portable; do
  decode infer int8 "${input[@]}" run.instruction_set=$set | "$python" strip.py > split
  [ "$(paste -d '\n' split beam.texts | awk 'NR % 2 { text = $0; next } text == $0 { n++ } END { print n + 0 }')" -ge 36 ] ||
    fail "other texts with the instruction set $set"
done

# ---- Several checkpoints ----
decode infer int8 "${input[@]}" "infer.checkpoint=[400, 400]" infer.ensemble=true > members
expect_same_file members beam "an ensemble of equal members decodes something else"
decode infer int8 infer.input=test.in "infer.checkpoint=[200, 400]" infer.output="of.{step}" > nothing
expect_same_file of.400 beam.texts "the second checkpoint decodes something else than alone"
! cmp -s of.200 of.400 || fail "both checkpoints decode the same"
decode infer int8 infer.input=test.in "infer.checkpoint={average: 2}" > mean
decode infer same infer.input=test.in "infer.checkpoint={average: 2}" > wide_mean
[ "$(paste -d '\n' mean wide_mean | awk 'NR % 2 { text = $0; next } text == $0 { n++ } END { print n + 0 }')" -ge 32 ] ||
  fail "the mean of two checkpoints decodes other texts"

# ---- Within the training ----
for layout in "x:1 batch:x" "x:2;y:2 batch:x;heads:y;d_ff:y;vocab:y"; do
  read -r mesh rules <<< "$layout"
  expect_exit 0 "$mtf_train" translate.yaml run.model_dir=trained precision.infer=int8 train.ema_decay=0.9 mesh="$mesh" layout="$rules"
  tail -n 1 trained/evaluate.jsonl > during
  "$mtf_train" trained/config.yaml run.mode=evaluate > after 2> said || { cat said >&2; fail "evaluate"; }
  "$python" - << 'END'
import json
during, after = (json.loads(open(name).read().splitlines()[-1]) for name in ("during", "after"))
for name in "loss", "bleu":
    assert abs(during[name] - after[name]) <= 1e-4 * max(1, after[name]), (name, during, after)
END
  rm -r trained
done

# ---- What memory has ----
expect_exit 0 "$mtf_train" translate.yaml run.model_dir=explained run.mode=explain precision.infer=int8
expect_text "copies of weights of the evaluation"
expect_exit 2 "$mtf_train" run/config.yaml run.mode=infer infer.input=test.in run.memory_limit=1MB
weights() { grep -o '[0-9.,]* [A-Za-z]*B  weights' out | head -n 1; }
wide=$(weights)
expect_exit 2 "$mtf_train" run/config.yaml run.mode=infer infer.input=test.in run.memory_limit=1MB precision.infer=int8
echo "weights in float32: $wide, int8: $(weights)"
[ "$wide" != "$(weights)" ] || fail "weights take as much memory in int8"

# ---- Predictions ----
mnist_data > nothing
cat > classes.yaml << 'YAML'
data: {train: {type: idx, images: train-images, labels: train-labels}}
model: {type: classifier, input: image, layers: [dense: {output: {hidden: 64}, activation: relu}, dense: {output: {classes: 10}}]}
train: {steps: 60, batch_size: 20}
YAML
expect_exit 0 "$mtf_train" classes.yaml run.model_dir=classes
for type in same int8 bfloat16; do
  expect_exit 0 "$mtf_train" classes/config.yaml run.mode=infer "infer.input={type: idx, images: test-images}" precision.infer=$type \
    infer.output=$type.classes
  expect_same_file $type.classes same.classes "$type: other classes"
done

# ---- Refusals ----
expect_exit 2 "$mtf_train" run/config.yaml run.mode=infer precision.infer=int4
expect_text "precision.infer"
expect_exit 2 "$mtf_train" run/config.yaml run.mode=infer precision.infer=int8 devices=cuda
expect_text "\`precision.infer: int8\` is for processors, and \`devices\` names a GPU"
echo "ok"
