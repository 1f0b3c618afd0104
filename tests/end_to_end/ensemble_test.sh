#!/usr/bin/env bash
# Tests ensembles of checkpoints of one run and of several, also of other sizes: their probabilities are the means of the
# members', equal members decode what one of them decodes, and neither layouts nor processes change that.
source "$2/tests/end_to_end/common.sh"
use_python

backward_sentences
{
  backward_translator 32 8 64
  cat << 'YAML'
train: {steps: 300, batch_size: 16, log_every: 100}
checkpoint: {every: 100, keep_last: 3}
YAML
} > translate.yaml
expect_exit 0 "$mtf_train" translate.yaml run.model_dir=a
mkdir b
cp a/vocabulary.model b
expect_exit 0 "$mtf_train" translate.yaml run.model_dir=b run.seed=2

# decode MODE ARGUMENT...: prints the results; standard error is written to $work/said.
decode() {
  local mode=$1
  shift
  "$mtf_train" a/config.yaml run.mode="$mode" "$@" 2> "$work/said" || { cat "$work/said" >&2; fail "$mode $*"; }
}
expect_same_file() { cmp -s "$1" "$2" || { diff "$1" "$2" | head -n 5 >&2; fail "$3"; }; }
input=(infer.input=test.in infer.format=jsonl)
both=("infer.checkpoint=[200, 300, b]" infer.ensemble=true)

# ---- Equal members ----
for method in greedy beam "{type: sample, samples: 2}"; do
  decode infer "${input[@]}" "infer.method=$method" > one
  for members in "[300, 300]" "[300, 300, a]"; do
    decode infer "${input[@]}" "infer.method=$method" "infer.checkpoint=$members" infer.ensemble=true > same
    expect_same_file same one "an ensemble of equal members decodes something else: $method $members"
  done
done
grep -q "^the ensemble of step 300, step 300 and a/checkpoints/step-00000300: 40 lines" said || fail "the report does not name the members: $(cat said)"

# ---- A member's running means ----
expect_exit 0 "$mtf_train" translate.yaml run.model_dir=means train.steps=20 train.ema_decay=0.9 run.seed=3
"$mtf_train" means/config.yaml run.mode=score score.inputs=test.in score.targets=test.in > means_alone 2> said
decode score score.inputs=test.in score.targets=test.in "score.checkpoint=[means, means]" score.ensemble=true > of_means
expect_close of_means means_alone 1e-6
expect_exit 2 "$mtf_train" a/config.yaml run.mode=infer infer.input=test.in "infer.checkpoint=[200, 300]" infer.ensemble=true mesh=x:2 layout=layers:x
expect_text "the members of an ensemble cannot lie on the stages of a pipeline"

# ---- Different members: probabilities ----
decode infer "${input[@]}" "${both[@]}" infer.method=greedy > greedy
decode infer "${input[@]}" "${both[@]}" > beam
! cmp -s greedy one || fail "different members decode what one of them decodes"
"$python" -c 'import json; [print(json.loads(line)["text"]) for line in open("greedy")]' > greedy.txt
per_token=(score.inputs=test.in score.targets=greedy.txt score.per_token=true)
decode score "${per_token[@]}" score.checkpoint=200 > member_0
decode score "${per_token[@]}" score.checkpoint=300 > member_1
decode score "${per_token[@]}" score.checkpoint=b > member_2
decode score "${per_token[@]}" "score.checkpoint=[200, 300, b]" score.ensemble=true > ensemble
decode score "${per_token[@]}" "score.checkpoint=[200, 300, b]" score.ensemble=true score.ensemble_reduce=mean_logit > logits
! cmp -s ensemble logits || fail "mean_logit is mean_prob"
"$python" - << 'END'
import json, math
def load(name): return [json.loads(line) for line in open(name)]
members = [load(f"member_{i}") for i in range(3)]
worst = compared = 0
for of_ensemble, decoded, *each in zip(load("ensemble"), load("greedy"), *members, strict=True):
    for i, actual in enumerate(of_ensemble["log_probs"]):
        wanted = math.log(sum(math.exp(member["log_probs"][i]) for member in each) / 3)
        worst = max(worst, abs(actual - wanted))
    assert abs(of_ensemble["log_prob"] - sum(of_ensemble["log_probs"])) < 1e-4
    if decoded["pieces"] == of_ensemble["pieces"]:
        compared += 1
        assert max(abs(x - y) for x, y in zip(decoded["log_probs"], of_ensemble["log_probs"])) < 1e-4
print(f"the largest difference from the mean of the probabilities is {worst:.2g}")
assert worst < 5e-6, worst
assert compared > 20, compared
END

# ---- Layouts and processes ----
"$python" - > strip.py << 'END'
print("import json, sys\nfor line in sys.stdin: print(json.loads(line)['text'])")
END
for method in greedy beam; do
  "$python" strip.py < $method > $method.texts
  for layout in "x:2 batch:x" "y:2 heads:y;d_ff:y;vocab:y" "x:2;y:2 batch:x;heads:y;d_ff:y" "x:8 batch:x"; do
    read -r mesh rules <<< "$layout"
    decode infer "${input[@]}" "${both[@]}" infer.method=$method mesh="$mesh" layout="$rules" | "$python" strip.py > split
    expect_same_file split $method.texts "$method: other texts with $layout"
  done
  expect_exit 0 "$(dirname "$mtf_train")/mtf-launch" -n 2 "$mtf_train" a/config.yaml run.mode=infer "${input[@]}" "${both[@]}" \
    infer.method=$method mesh=x:2 layout=batch:x infer.output=processes
  "$python" strip.py < processes > split
  expect_same_file split $method.texts "$method: other texts with two processes"
done

# ---- Members of other sizes, with weights ----
mkdir deep
cp a/vocabulary.model deep
expect_exit 0 "$mtf_train" translate.yaml run.model_dir=deep train.steps=250 model.d_model=48 model.decoder.num_layers=2 \
  model.vocab_divisor=64 model.layer_defaults.DenseReluDense.hidden_size=96
unlike=("infer.checkpoint=[300, deep]" infer.ensemble=true "infer.ensemble_weights=[1, 3]")
decode infer "${input[@]}" "${unlike[@]}" infer.method=greedy > unlike
! cmp -s unlike one || fail "unlike members decode what one of them decodes"
"$python" -c 'import json; [print(json.loads(line)["text"]) for line in open("unlike")]' > unlike.txt
per_token=(score.inputs=test.in score.targets=unlike.txt score.per_token=true)
decode score "${per_token[@]}" score.checkpoint=300 > member_0
"$mtf_train" deep/config.yaml run.mode=score "${per_token[@]}" > member_1
for mean in mean_prob mean_logit mean_log_prob; do
  decode score "${per_token[@]}" "score.checkpoint=[300, deep]" score.ensemble=true "score.ensemble_weights=[1, 3]" \
    score.ensemble_reduce=$mean > $mean
done
"$python" - << 'END'
import json, math
def load(name): return [json.loads(line)["log_probs"] for line in open(name)]
for prob, logit, log_prob, a, b, decoded in zip(load("mean_prob"), load("mean_logit"), load("mean_log_prob"),
                                       load("member_0"), load("member_1"), load("unlike"), strict=True):
    for i, (x, y) in enumerate(zip(a, b, strict=True)):
        assert abs(prob[i] - math.log((math.exp(x) + 3 * math.exp(y)) / 4)) < 1e-5
        assert abs(log_prob[i] - (x + 3 * y) / 4) < 1e-5
        assert logit[i] > log_prob[i] - 1e-5  # the geometric means of probabilities have a sum of at most 1
END
for layout in "x:2 batch:x" "y:2 heads:y;d_ff:y;vocab:y" "x:2;y:2 batch:x;d_model:y" "x:8 batch:x"; do
  read -r mesh rules <<< "$layout"
  for method in greedy beam "{type: sample, samples: 2}"; do
    decode infer "${input[@]}" "${unlike[@]}" "infer.method=$method" | "$python" strip.py > unlike.texts
    decode infer "${input[@]}" "${unlike[@]}" "infer.method=$method" mesh="$mesh" layout="$rules" | "$python" strip.py > split
    expect_same_file split unlike.texts "$method: unlike members write other texts with $layout"
  done
done

# ---- All checkpoints, one output ----
decode infer infer.input=test.in infer.checkpoint=all infer.ensemble=true infer.output="all.{step}"
[ -s all.300 ] || fail "the step of an ensemble is not the newest"

# ---- Refusals ----
expect_exit 2 "$mtf_train" a/config.yaml run.mode=infer infer.input=test.in infer.ensemble=true
expect_text "\`infer.ensemble\` needs several checkpoints, and \`infer.checkpoint\` is one"
expect_exit 2 "$mtf_train" a/config.yaml run.mode=score score.targets=test.in score.ensemble=true "score.checkpoint=[300]"
expect_text "\`score.ensemble\` needs several checkpoints"
expect_exit 2 "$mtf_train" a/config.yaml run.mode=infer infer.input=test.in "infer.checkpoint=[300, a]" "infer.output=x.{step}"
expect_text "are both of step 300 and would write into one output"
expect_exit 2 "$mtf_train" a/config.yaml run.mode=infer infer.input=test.in infer.ensemble=true "infer.checkpoint=[300, 150]"
expect_text "has no checkpoint of step 150"
expect_exit 2 "$mtf_train" a/config.yaml run.mode=infer infer.input=test.in infer.ensemble=true "infer.checkpoint=[300, b]" \
  "infer.ensemble_weights=[1, 2, 3]"
expect_text "\`infer.ensemble_weights\` has 3 weights for 2 checkpoints"
cat > language.yaml << 'YAML'
data:
  train: {type: parallel, inputs: train.in, targets: train.out, as: targets}
  vocabulary: {type: sentencepiece, path: a/vocabulary.model}
  sequence_length: 48
  cache: cache
model: {type: lm, d_model: 16, max_length: 48, num_layers: 1, block: [DenseReluDense: {hidden_size: 16}]}
train: {steps: 1, batch_size: 4}
YAML
expect_exit 0 "$mtf_train" language.yaml run.model_dir=language
expect_exit 2 "$mtf_train" a/config.yaml run.mode=infer infer.input=test.in infer.ensemble=true "infer.checkpoint=[300, language]"
expect_text "its model has no encoder, and that of this configuration has one"
expect_exit 0 "$mtf_train" translate.yaml run.model_dir=other train.steps=1 data.vocabulary.size=290
expect_exit 1 "$mtf_train" a/config.yaml run.mode=infer infer.input=test.in infer.ensemble=true "infer.checkpoint=[300, other]"
expect_text "was trained with another vocabulary"
echo "ok"
