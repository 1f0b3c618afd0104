#!/usr/bin/env bash
# Tests a language model on synthetic text: a vocabulary that the run trains, packing, dropout, running means
# of the weights, a cache of tokens. Killed and stopped runs end with the bits of an undisturbed run;
# evaluations measure the running means; a metric of text chooses the best checkpoints and the end; bfloat16
# learns like float32.
source "$2/tests/end_to_end/common.sh"
use_python

"$python" - << 'END'
import random
random.seed(7)
subjects = "the cat|a dog|one bird|my friend|the old man|our teacher|the river|this house".split("|")
verbs = "sees|finds|likes|follows|remembers|paints|carries|hears".split("|")
adjectives = "red|small|quiet|green|bright|heavy|broken|new".split("|")
objects = "stone|garden|window|letter|boat|song|road|lamp".split("|")
ends = ["", " at night", " in the morning", " near the sea", " for a long time", " again and again"]
def sentence():
    pick = random.choice
    return f"{pick(subjects)} {pick(verbs)} the {pick(adjectives)} {pick(objects)}{pick(ends)}.\n"
for name, count in (("train", 500), ("dev", 50)):
    with open(name + ".txt", "w") as file:
        file.writelines(sentence() for _ in range(count))
END
small_language_model train.txt 300 > lm.yaml
cat >> lm.yaml << 'END'
train: {batch_size: 8, ema_decay: 0.95, log_every: 1}
evaluate: {every: 30, datasets: {dev: {type: text, path: dev.txt}}}
checkpoint: {every: 7, keep_last: 2}
END
steps=90
run=("$mtf_train" lm.yaml train.steps=$steps)

# An epoch has more than 60 steps, so the kills below are in its middle and after its end.
expect_exit 0 "${run[@]}" run.model_dir=undisturbed
expect_text "vocabulary trained"
expect_text "tokens/s"
[ -n "$(ls cache)" ] || fail "there is no cache"
grep -q '"step":30,"epoch":0\.[1-9]' undisturbed/metrics.jsonl || fail "step 30 is not within the first epoch"
grep -q '"step":90,"epoch":1\.[1-9]' undisturbed/metrics.jsonl || fail "step 90 is not within the second epoch"

# expect_same DIRECTORY: each step must be logged once, and nothing may differ, including running means and
# counts of tokens.
expect_same() {
  cmp <(seq $steps) <(sed 's/.*"step":\([0-9]*\),.*/\1/' "$1/metrics.jsonl") > /dev/null || fail "$1 does not have each step once"
  expect_exit 0 "$mtf_compare" undisturbed "$1"
  expect_text "same: $steps steps"
  cmp <(tokens undisturbed) <(tokens "$1") || fail "$1 counts other tokens"
  cmp undisturbed/checkpoints/step-000000$steps/averages.safetensors "$1/checkpoints/step-000000$steps/averages.safetensors" ||
    fail "$1 has other running means"
  cmp <(evaluations undisturbed) <(evaluations "$1") || fail "$1 has other evaluations"
}
tokens() {
  sed 's/.*"tokens":\([0-9]*\),.*/\1/' "$1/metrics.jsonl"
}
evaluations() {
  sed 's/"seconds":.*//' "$1/evaluate.jsonl"
}

# Runs are stopped by a signal, killed at fault points of a save, and killed at any moment, with and without
# the cache of tokens.
MTF_FAULT=save.done@4 "${run[@]}" run.model_dir=killed > out 2>&1 && fail "not killed"
expect_exit 0 "${run[@]}" run.model_dir=killed
expect_text "continues after step"
expect_same killed
begin=${EPOCHREALTIME/./}
expect_exit 0 "${run[@]}" run.model_dir=timed
took=$(((${EPOCHREALTIME/./} - begin) / 1000))
for round in 1 2 3 4 5 6; do
  signal=$([ $((round % 2)) = 0 ] && echo KILL || echo TERM)
  for again in 1 2 3; do
    "${run[@]}" run.model_dir=random > out 2>&1 &
    process=$!
    milliseconds=$((RANDOM % took + 20))
    sleep "$((milliseconds / 1000)).$(printf %03d $((milliseconds % 1000)))"
    kill -$signal $process 2> /dev/null || true
    wait $process 2> /dev/null || true
    [ $again != 2 ] || rm -rf cache
  done
  expect_exit 0 "${run[@]}" run.model_dir=random
  expect_same random
  rm -rf random
done

# The logged tokens are the cumulative number of tokens in the rows, without padding.
"$python" - << 'END'
import json
lines = [json.loads(line) for line in open("undisturbed/metrics.jsonl")]
counts = [line["tokens"] for line in lines]
steps = [b - a for a, b in zip([0] + counts, counts)]
assert all(0.8 * 8 * 32 < n <= 8 * 32 for n in steps), steps
for line, n in zip(lines[1:], steps[1:]):
    rate = n / (line["step_ms"] / 1000)
    assert abs(line["tokens_per_second"] - rate) < 1e-6 * rate, line
evaluations = [json.loads(line) for line in open("undisturbed/evaluate.jsonl")]
assert all(line["tokens"] == evaluations[0]["tokens"] > 400 for line in evaluations)
END
"$python" "$source_dir/tests/end_to_end/read_scalars.py" undisturbed > out || { cat out; fail "TensorBoard shows other numbers"; }

# Evaluations measure the running means; run.mode=evaluate measures those of the checkpoint, which differ from
# the weights.
expect_exit 0 "$mtf_train" undisturbed/config.yaml run.mode=evaluate
expect_text "(running means of the weights)"
grep '^{' out | sed 's/"seconds":.*//' | cmp - <(evaluations undisturbed | tail -n 1) || fail "evaluation measures something else"
expect_exit 0 "$mtf_train" undisturbed/config.yaml run.mode=evaluate train.ema_decay=null
grep '^{' out | sed 's/"seconds":.*//' > weights
! cmp -s weights <(evaluations undisturbed | tail -n 1) || fail "the weights are measured as their means"
"$python" - << 'END'
from safetensors.numpy import load_file
directory = "undisturbed/checkpoints/step-00000090/"
means, weights = load_file(directory + "averages.safetensors"), load_file(directory + "weights.safetensors")
assert sorted(means) == sorted(name + "/ema" for name in weights)
assert any((means[name + "/ema"] != weights[name]).any() for name in weights)
END

# The running means are computed again from the checkpoints of every step.
expect_exit 0 "${run[@]}" train.steps=10 run.model_dir=steps checkpoint.every=1 checkpoint.keep_last=100
"$python" - << 'END'
import numpy
from safetensors.numpy import load_file
def load(step, file):
    return load_file(f"steps/checkpoints/step-{step:08d}/{file}.safetensors")
for step in range(2, 11):
    before, after, weights = load(step - 1, "averages"), load(step, "averages"), load(step, "weights")
    t = step - 1
    d = min(0.95, (1 + t) / (10 + t))
    for name, weight in weights.items():
        mean = before[name + "/ema"].astype("float64")
        mean += (1 - d) * (weight - mean)
        assert numpy.abs(mean - after[name + "/ema"]).max() <= 1e-6 * numpy.abs(mean).max(), (step, name)
END

# A resumed run may begin to keep running means, or stop; both are reported.
expect_exit 0 "$mtf_train" lm.yaml train.steps=20 train.ema_decay=null run.model_dir=taken
[ ! -e taken/checkpoints/step-00000020/averages.safetensors ] || fail "running means without train.ema_decay"
expect_exit 0 "$mtf_train" lm.yaml train.steps=21 checkpoint.every=1 run.model_dir=taken
expect_text '`train.ema_decay` was null and is now 0.95'
"$python" - << 'END'
import numpy
from safetensors.numpy import load_file
def load(step, file):
    return load_file(f"taken/checkpoints/step-{step:08d}/{file}.safetensors")
before, weights, means = load(20, "weights"), load(21, "weights"), load(21, "averages")
d = 1 / 10  # the rate counts from where the means began
for name, weight in weights.items():
    mean = before[name] + (1 - d) * (weight - before[name])
    assert numpy.abs(mean - means[name + "/ema"]).max() <= 1e-6 * numpy.abs(mean).max(), name
END
expect_exit 0 "$mtf_train" lm.yaml train.steps=25 train.ema_decay=null run.model_dir=taken
expect_text '`train.ema_decay` was 0.95 and is now null'
[ ! -e taken/checkpoints/step-00000025/averages.safetensors ] || fail "running means without train.ema_decay"

# The mean of checkpoints is that of their weights, or of their running means, but not of both.
expect_exit 0 "$mtf_train" taken/config.yaml run.mode=evaluate "evaluate.checkpoint={average: 2}"
for key in evaluate infer; do
  expect_exit 2 "$mtf_train" taken/config.yaml run.mode=$key train.ema_decay=0.95 "$key.checkpoint={average: 2}" < dev.txt
  expect_text "step-00000021 has running means of the weights, and taken/checkpoints/step-00000025 has none"
done

# Another run starts from the running means, or from the weights, and its own running means start there.
for raw in false true; do
  rm -rf started
  expect_exit 0 "$mtf_train" lm.yaml train.steps=1 run.model_dir=started checkpoint.init.path=undisturbed checkpoint.init.raw=$raw \
    data.vocabulary.path=undisturbed/vocabulary.model
  "$python" - $raw << 'END'
import sys
import numpy
from safetensors.numpy import load_file
def load(run, step, file):
    return load_file(f"{run}/checkpoints/step-{step:08d}/{file}.safetensors")
before = load("undisturbed", 90, "weights")
if sys.argv[1] == "false":
    before = {name.removesuffix("/ema"): mean for name, mean in load("undisturbed", 90, "averages").items()}
weights, means = load("started", 1, "weights"), load("started", 1, "averages")
for name, weight in weights.items():
    mean = before[name] + 0.9 * (weight - before[name])
    assert numpy.abs(mean - means[name + "/ema"]).max() <= 1e-6 * numpy.abs(mean).max(), name
END
done

# Early stopping and the best checkpoints by perplexity.
expect_exit 0 "$mtf_train" lm.yaml train.steps=2000 learning_rate=0.03 evaluate.every=10 run.model_dir=best \
  "train.patience={metric: dev/perplexity, evaluations: 3}" "checkpoint={every: 50, keep_last: 1, keep_best: {metric: dev/perplexity, count: 2}}"
expect_text "finished after train.patience"
expect_exit 0 "$mtf_train" best/config.yaml run.mode=evaluate evaluate.checkpoint=best
grep '^{' out > measured
"$python" - << 'END'
import json, os
lines = [json.loads(line) for line in open("best/evaluate.jsonl")]
values = {line["step"]: line["perplexity"] for line in lines}
order = sorted(values, key=lambda step: values[step])
last = max(values)
assert last - order[0] == 30, (order[0], last)  # three evaluations without a better value
kept = sorted(int(name[5:]) for name in os.listdir("best/checkpoints"))
assert kept == sorted({*order[:2], last}), (kept, order[:3], last)
measured = json.loads(open("measured").read())
assert measured["step"] == order[0] and measured["perplexity"] == values[order[0]], measured
END
# A run can resume from a best checkpoint like from any other.
expect_exit 0 "$mtf_train" best/config.yaml train.patience=null run.allow_change=train.steps train.steps=$(($(tail -n 1 best/metrics.jsonl | sed 's/.*"step":\([0-9]*\),.*/\1/') + 5))
expect_text "finished after train.steps"

# With bfloat16 activations the losses are those of float32 within 1 % over the whole run, on one position and
# on several, and resuming is exact.
expect_exit 0 "${run[@]}" run.model_dir=narrow precision.activation=bfloat16
losses undisturbed > expected_losses
losses narrow > narrow_losses
expect_close narrow_losses expected_losses 1e-2
! cmp -s narrow_losses expected_losses || fail "precision.activation changes nothing"
MTF_FAULT=save.done@5 "${run[@]}" run.model_dir=again precision.activation=bfloat16 > out 2>&1 && fail "not killed"
expect_exit 0 "${run[@]}" run.model_dir=again precision.activation=bfloat16
expect_exit 0 "$mtf_compare" narrow again
for layout in "mesh=x:2 layout=batch:x" "mesh=y:2 layout=heads:y;d_ff:y;vocab:y" "mesh=x:2;y:2 layout=batch:x;heads:y;d_ff:y;vocab:y" \
  "mesh=x:8 layout=batch:x" "mesh=x:2 layout=batch:x parameter_layout=d_model:x" "mesh=x:2 layout=batch:x optimizer_layout=d_model:x" \
  "mesh=x:2 layout=length:x"; do
  rm -rf split
  expect_exit 0 "${run[@]}" $layout run.model_dir=split precision.activation=bfloat16 run.check_replicas=true train.steps=40
  losses split > split_losses
  expect_close split_losses <(head -n 40 expected_losses) 1e-2
  # One position evaluates the running means that several have computed.
  expect_exit 0 "$mtf_train" split/config.yaml mesh=null layout=null parameter_layout=null optimizer_layout=null run.mode=evaluate \
    precision.activation=float32
  expect_text '"step":40'
done
expect_exit 0 "${run[@]}" run.mode=explain precision.activation=bfloat16 mesh=x:2 layout=batch:x
grep -E '^ +einsum .* (bf16) .*length=32 d_model=32' out > /dev/null || fail "explain does not show bfloat16 activations"
! grep -E '^ +all_reduce .* bf16 ' out || fail "gradients of weights are added in bfloat16"

# Weights may be bfloat16 in memory (slice) and in checkpoints (master).
expect_exit 0 "$mtf_train" lm.yaml train.steps=10 run.model_dir=small "precision={activation: bfloat16, slice: bfloat16, master: bfloat16}"
expect_exit 0 "$mtf_train" lm.yaml train.steps=10 run.model_dir=rounded precision.master=bfloat16
"$python" - << 'END'
import json
for run in ("small", "rounded"):
    manifest = json.load(open(f"{run}/checkpoints/step-00000010/manifest.json"))
    for variable in manifest["variables"]:
        state = variable["name"].endswith(("/ema", "_slot_v", "_slot_vr", "_slot_vc"))
        assert variable["dtype"] in (("float32", "F32") if state else ("bfloat16", "BF16")), variable
END
for name in small rounded; do
  expect_exit 0 "$mtf_train" $name/config.yaml train.steps=12
  expect_text "continues after step 10"
done
