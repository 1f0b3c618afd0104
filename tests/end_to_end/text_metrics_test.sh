#!/usr/bin/env bash
# Tests metrics of texts: the metrics of tokens are consistent with each other; counts of the data are the
# same on any mesh; a run whose best checkpoints and whose end depend on a metric is not affected by being
# killed.
source "$2/tests/end_to_end/common.sh"
use_python

made_up_pairs 1 800 train
made_up_pairs 2 30 dev
cat > run.yaml << 'END'
data:
  train: {type: parallel, inputs: train.en, targets: train.de}
  vocabulary: {type: sentencepiece, size: 300}
  sequence_length: 64
  cache: cache
model:
  type: bitransformer
  d_model: 32
  positions: sinusoid
  layer_defaults:
    SelfAttention: {num_heads: 2, key_value_size: 16, dropout: 0.1}
    EncDecAttention: {num_heads: 2, key_value_size: 16, dropout: 0.1}
    DenseReluDense: {hidden_size: 64, dropout: 0.1}
  encoder: {num_layers: 1, block: [SelfAttention, DenseReluDense]}
  decoder: {num_layers: 1, block: [SelfAttention, EncDecAttention, DenseReluDense]}
optimizer: adam
learning_rate: 0.01
train: {steps: 4000, batch_size: 8, log_every: 100, patience: {metric: dev/bleu, evaluations: 2}}
evaluate:
  every: 20
  infer: {method: greedy, max_length: 40}
  datasets:
    dev:
      type: parallel
      inputs: dev.en
      targets: dev.de
      metrics: [bleu, loss, perplexity, neg_log_perplexity, token_accuracy, mean_label, num_eval_tokens, max_targets_length]
checkpoint: {every: 1000, keep_last: 1, keep_best: {metric: dev/bleu, count: 2}}
END

# evaluations DIRECTORY: prints evaluations without their times. kept DIRECTORY: prints the names of the
# checkpoints.
evaluations() { sed 's/,"seconds".*//' "$1/evaluate.jsonl"; }
kept() { (cd "$1/checkpoints" && ls); }

expect_exit 0 "$mtf_train" run.yaml run.model_dir=undisturbed
expect_text "finished after train.patience: 2 evaluations in a row without a better dev/bleu than "
expect_text "  num_eval_tokens "
"$python" - << 'END'
import json, math
lines = [json.loads(line) for line in open("undisturbed/evaluate.jsonl")]
assert len(lines) >= 5, lines
for line in lines:
    assert abs(line["perplexity"] - math.exp(-line["neg_log_perplexity"])) < 1e-6 * line["perplexity"], line
    assert line["num_eval_tokens"] == line["tokens"] and 3 < line["max_targets_length"] <= 64, line
    assert line["mean_label"] == lines[0]["mean_label"] > 1, line
bleu = [line["bleu"] for line in lines]
assert all(b <= max(bleu[:-2]) for b in bleu[-2:]) and max(bleu) > 1, bleu
END
best=$("$python" -c '
import json
lines = [json.loads(line) for line in open("undisturbed/evaluate.jsonl")]
steps = sorted(lines, key=lambda line: -line["bleu"])[:2] + [lines[-1]]
print("\n".join(sorted({"step-%08d" % line["step"] for line in steps})))')
[ "$(kept undisturbed)" = "$best" ] || fail "these are not the best and the last: $(kept undisturbed)"

# Metrics that depend only on the data are the same on any mesh; they are measured only if they are requested.
data_of() { sed 's/.*\("mean_label":[^,]*,"num_eval_tokens":[^,]*,"max_targets_length":[^,]*\),.*/\1/'; }
for layout in "mesh=x:2 layout=batch:x" "mesh=x:2;y:2 layout=batch:x;vocab:y;heads:y"; do
  "$mtf_train" undisturbed/config.yaml run.mode=evaluate $layout 2> out > other.jsonl || { cat out >&2; fail "$layout"; }
  [ "$(data_of < other.jsonl)" = "$(tail -n 1 undisturbed/evaluate.jsonl | data_of)" ] || fail "other data: $(cat other.jsonl)"
done
"$mtf_train" undisturbed/config.yaml run.mode=evaluate evaluate.datasets.dev.metrics=null 2> out > default.jsonl || { cat out >&2; fail "no metrics"; }
grep -q '"loss":.*"perplexity":.*"token_accuracy":.*"sequence_accuracy":' default.jsonl || fail "not the default metrics: $(cat default.jsonl)"
! grep -q "mean_label\|neg_log" default.jsonl || fail "more than the default metrics: $(cat default.jsonl)"
expect_exit 2 "$mtf_train" undisturbed/config.yaml run.mode=evaluate "evaluate.datasets.dev.metrics=[mean_labels]"
expect_text 'did you mean `mean_label`?'

# The run is killed within the save of an evaluation, and at any moment, until it has ended.
expect_same() {
  cmp <(evaluations undisturbed) <(evaluations "$1") || fail "$1 has other evaluations"
  [ "$(kept undisturbed)" = "$(kept "$1")" ] || fail "$1 keeps other checkpoints: $(kept "$1")"
  expect_exit 0 "$mtf_compare" undisturbed "$1"
}
for save in 2 4; do
  { MTF_FAULT=save.done@$save "$mtf_train" run.yaml run.model_dir=killed > out 2>&1 && fail "not killed at save $save"; } 2> /dev/null
done
expect_exit 0 "$mtf_train" run.yaml run.model_dir=killed
expect_text "finished after train.patience"
expect_same killed
begin=${EPOCHREALTIME/./}
expect_exit 0 "$mtf_train" run.yaml run.model_dir=timed
took=$(((${EPOCHREALTIME/./} - begin) / 1000))
for ((round = 1; round <= 4; round++)); do
  "$mtf_train" run.yaml run.model_dir=often checkpoint.every=13 > out 2>&1 &
  process=$!
  sleep "$(awk -v ms="$took" -v round="$round" 'BEGIN { print ms * (0.2 + 0.07 * round) / 1000 }')"
  kill -KILL $process 2> /dev/null || true
  { wait $process || true; } 2> /dev/null
done
expect_exit 0 "$mtf_train" run.yaml run.model_dir=often checkpoint.every=13
cmp <(evaluations undisturbed) <(evaluations often) || fail "a run that was killed often has other evaluations"
expect_exit 0 "$mtf_train" often/config.yaml
expect_text "nothing is left to do after train.patience"
