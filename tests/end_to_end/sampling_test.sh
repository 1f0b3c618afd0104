#!/usr/bin/env bash
# Tests texts whose tokens are drawn anew in each epoch: meshes, processes and restarts in the middle and at the end of an
# epoch, also with an empty cache, change nothing; epochs differ; and what does not go with it is said.
source "$2/tests/end_to_end/common.sh"
source "$2/tests/end_to_end/processes.sh"

cat > run.yaml <<'YAML'
data:
  train: {type: parallel, inputs: train.en, targets: train.de, as: targets, sampling: {alpha: 0.2}}
  sequence_length: 96
  vocabulary: {type: sentencepiece, size: 36, byte_fallback: false}
  cache: cache
model: {type: lm, d_model: 8, num_layers: 1, block: [SelfAttention, DenseReluDense]}
learning_rate: 0.03
optimizer: sgd
train: {steps: 20, batch_size: 4, log_every: 1}
run: {threads: 1}
YAML
for ((i = 0; i < 60; i++)); do echo "line $((i * 37 % 101)) of a house $((i * 7 % 13))"; done > train.en
for ((i = 0; i < 60; i++)); do echo "Zeile $((i * 37 % 101)) im Haus"; done > train.de
train() {  # NAME ARGUMENT...: a run in its own directory, with the vocabulary of the first one
  local name=$1
  shift
  expect_exit 0 "$mtf_train" run.yaml run.model_dir="$name" "$@"
}

train one
rows=$(sed -n 's/.*60 examples in \([0-9]*\) rows.*/\1/p' out)
expect_text "60 examples in $rows rows"
cp one/vocabulary.model .
sed -i 's/{type: sentencepiece.*/{type: sentencepiece, path: vocabulary.model}/' run.yaml
[ "$(losses one | wc -l)" -eq 20 ] || fail "no 20 steps"
train usual data.train.sampling=null
! cmp -s <(losses one) <(losses usual) || fail "drawn tokens are those of Vocabulary::encode()"

# Stopped in an epoch or at its end, with another cache: the same bits.
for stop in 3 $((rows / 4)) $((rows / 2)); do
  train "stopped$stop" train.steps="$stop" data.cache="other$stop"
  rm -rf "other$stop"
  train "stopped$stop" data.cache="other$stop"
  cmp <(losses one) <(losses "stopped$stop") || fail "another run after a stop at step $stop"
done

# Nothing is drawn behind the last epoch that the run needs.
train epochs train.steps=null train.epochs=2 data.cache=counted
[ "$(ls counted/tokens-*.safetensors | wc -l)" -eq 2 ] || fail "two epochs have drawn others: $(ls counted)"

# Positions and processes.
train two mesh=rows:2 layout=batch:rows
train four mesh=rows:4 layout=batch:rows
for name in two four; do
  paste <(losses one) <(losses $name) | awk '{d = $1 - $2; if (d * d > 1e-6) exit 1}' || fail "$name: other batches"
done
port=$(free_ports 1)
for rank in 0 1; do
  start_rank $rank 2 "$mtf_train" run.yaml run.model_dir=processes mesh=rows:2 layout=batch:rows data.cache=shared
done
all_end 60 0 0
cmp <(losses two) <(losses processes) || fail "two processes have another run than one"

# What does not go with it.
expect_exit 2 "$mtf_train" run.yaml run.model_dir=wrong data.vocabulary=bytes
expect_text "no segmentations can be drawn from the vocabulary of"
expect_exit 2 "$mtf_train" run.yaml run.model_dir=wrong data.train.sampling.alpha=null data.train.sampling.dropout=0.1
expect_text '`dropout` is for byte pairs'
expect_exit 2 "$mtf_train" run.yaml run.model_dir=wrong \
  evaluate.datasets.dev="{type: parallel, inputs: train.en, targets: train.de, as: targets, sampling: {alpha: 0.2}}"
expect_text '`sampling` draws the tokens of training texts'
[ ! -e wrong ] || fail "a run that is refused leaves a directory"
