#!/usr/bin/env bash
# Tests that errors of a run are reported before a vocabulary is trained and written, and that a run resumes,
# is evaluated and decodes only with the vocabulary with which it was trained.
source "$2/tests/end_to_end/common.sh"
made_up_pairs 1 300 train
made_up_pairs 2 20 dev
made_up_pairs 3 300 others
cat > run.yaml << 'END'
data:
  train: {type: parallel, inputs: train.en, targets: train.de}
  vocabulary: {type: sentencepiece, size: 300}
  sequence_length: 48
  cache: cache
model:
  type: bitransformer
  d_model: 16
  max_length: 48
  layer_defaults: {SelfAttention: {num_heads: 2, key_value_size: 8}, EncDecAttention: {num_heads: 2, key_value_size: 8}, DenseReluDense: {hidden_size: 32}}
  encoder: {num_layers: 1, block: [SelfAttention, DenseReluDense]}
  decoder: {num_layers: 1, block: [SelfAttention, EncDecAttention, DenseReluDense]}
train: {steps: 6, batch_size: 4, log_every: 1}
evaluate: {every: 0, datasets: {dev: {type: parallel, inputs: dev.en, targets: dev.de, metrics: [loss, bleu]}}}
checkpoint: {every: 2}
END

# No vocabulary is written if there is any error, including errors of the vocabulary.
head -n 10 dev.de > short.de
while IFS='|' read -r code text arguments; do
  expect_exit "$code" "$mtf_train" run.yaml run.model_dir=none/at/all $arguments
  expect_text "$text"
  [ ! -e none ] || fail "something was written with $arguments"
done << 'END'
2|no evaluation measures `dev/blue`|train.patience.metric=dev/blue
2|no evaluation measures `dev/chrf`|checkpoint.keep_best.metric=dev/chrf
2|the model has no metric `blue`|evaluate.datasets.dev.metrics=[blue]
2|`evaluate.batch_size` (5)|evaluate.batch_size=5 mesh=x:2 layout=batch:x
2|argument 4: 4 examples cannot be cut into 3 microbatches|train.batch_size.per_replica=4 train.microbatches=3
2|nothing uses the variable `d_modle`|vars.d_modle=32
2|there is no file nowhere.de|evaluate.datasets.dev.targets=nowhere.de
2|there is no file nowhere.de|evaluate.datasets.dev.references=nowhere.de
1|short.de has 10|evaluate.datasets.dev.targets=short.de
2|at most|data.vocabulary.size=30000
2|at least|data.vocabulary.size=5
END

# The vocabulary that was trained is the one that is used.
expect_exit 0 "$mtf_train" run.yaml run.model_dir=run
cp -r run others
expect_exit 0 "$mtf_train" run.yaml run.model_dir=second data.train.inputs=others.en data.train.targets=others.de

# A start without success leaves its vocabulary to the next one, if that has the same texts and options.
expect_exit 1 "$mtf_train" run.yaml run.model_dir=again data.filter.max_length=1 data.filter.too_long=drop
cmp again/vocabulary.model run/vocabulary.model || fail "the same texts give another vocabulary"
expect_exit 1 "$mtf_train" run.yaml run.model_dir=again data.filter.max_length=1 data.filter.too_long=drop
! grep -q "training a vocabulary" out || fail "the same vocabulary is trained again"
with_others=(data.train.inputs=others.en data.train.targets=others.de)
expect_exit 2 "$mtf_train" run.yaml run.model_dir=again "${with_others[@]}" evaluate.datasets.dev.metrics=[blue]
cmp again/vocabulary.model run/vocabulary.model || fail "a vocabulary was replaced though the configuration has errors"
expect_exit 0 "$mtf_train" run.yaml run.model_dir=again "${with_others[@]}"
expect_text "again/vocabulary.model was trained on other texts or with other options, and the run has no checkpoint"
cmp again/vocabulary.model second/vocabulary.model || fail "the vocabulary of other texts stayed"
expect_exit 0 "$mtf_train" run.yaml run.model_dir=again "${with_others[@]}" train.steps=8
! grep -q "training a vocabulary" out || fail "a vocabulary with checkpoints is trained again"

# Weights of tokens come from a run with the same vocabulary, unless they are left out or the change is allowed.
start=("$mtf_train" run.yaml checkpoint.init.path=second train.steps=1)
with_own=(data.vocabulary.path=run/vocabulary.model)
expect_exit 2 "${start[@]}" run.model_dir=started "${with_own[@]}"
expect_text "was trained with another vocabulary, so its ids mean other tokens"
[ ! -e started ] || fail "something was written with weights of another vocabulary"
exclude=$(sed -n 's/.*`checkpoint.init.exclude: \(\[[^]]*\]\)` leaves.*/\1/p' out)
expect_exit 0 "${start[@]}" run.model_dir=started data.vocabulary.path=second/vocabulary.model
expect_exit 0 "${start[@]}" run.model_dir=apart "${with_own[@]}" "checkpoint.init.exclude=$exclude"
expect_exit 0 "${start[@]}" run.model_dir=allowed "${with_own[@]}" "run.allow_change=[data.vocabulary]"
# A vocabulary that would be another one is not trained in vain; that of the same texts is the same.
expect_exit 2 "${start[@]}" run.model_dir=started_anew
expect_text "has a vocabulary, and this run would train another, whose ids mean other tokens"
expect_text '`data.vocabulary.path` with the file of its run'
[ ! -e started_anew ] || fail "something was written for weights of another vocabulary"
expect_exit 0 "${start[@]}" run.model_dir=alike "${with_others[@]}"
! grep -q "mean the same tokens" out || fail "a warning of the same vocabulary"
# One of two vocabularies, or other extra ids: the ids that are taken may be the same.
expect_exit 0 "${start[@]}" run.model_dir=extended data.vocabulary.path=second/vocabulary.model data.vocabulary.extra_ids=1
expect_text "was trained with vocabularies that are these in part"
[ "$(grep -c "these in part" out)" = 1 ] || fail "a warning occurs twice"
pieces="{type: sentencepiece, path: FROM/vocabulary.model}"
sed "s|^  vocabulary: .*|  vocabulary: {inputs: ${pieces/FROM/second}, targets: ${pieces/FROM/run}}|" run.yaml > two.yaml
expect_exit 0 "$mtf_train" two.yaml model.shared_embedding=false train.steps=1 run.model_dir=two
expect_exit 0 "$mtf_train" two.yaml model.shared_embedding=false data.vocabulary.inputs.path=run/vocabulary.model \
  checkpoint.init.path=two train.steps=1 run.model_dir=from_two
expect_text "was trained with vocabularies that are these in part"

# One embedding serves one vocabulary: the same twice, but not two of one size, nor two that would be trained.
refused="one embedding cannot serve two vocabularies"
expect_exit 2 "$mtf_train" two.yaml run.model_dir=none/at/all
expect_text "$refused, whose ids mean different tokens; one vocabulary for both, or \`model.shared_embedding: false\`"
expect_exit 2 "$mtf_train" run.yaml run.model_dir=none/at/all data.vocabulary=null \
  "data.vocabulary={inputs: {type: sentencepiece, size: 300}, targets: {type: sentencepiece, size: 300, model: bpe}}"
expect_text "$refused"
[ ! -e none ] || fail "something was written with two vocabularies for one embedding"
cp run/vocabulary.model copy.model
expect_exit 0 "$mtf_train" two.yaml run.model_dir=copied data.vocabulary.inputs.path=copy.model train.steps=2
# Weights that were trained with two vocabularies remain usable.
cp second/vocabulary.model copy.model
expect_exit 0 "$mtf_train" copied/config.yaml train.steps=4 "run.allow_change=[data.vocabulary]"
expect_text "the weights have one embedding for two vocabularies"

cp second/vocabulary.model others/vocabulary.model
cp dev.en in.txt
for mode in "train train.steps=8" "evaluate" "infer infer.input=in.txt" "score score.inputs=dev.en score.targets=dev.de"; do
  code=1
  [ "${mode%% *}" != train ] || code=2
  expect_exit $code "$mtf_train" others/config.yaml run.mode=$mode
  expect_text "vocabulary"
  expect_text "other tokens"
done
expect_exit 0 "$mtf_train" others/config.yaml train.steps=8 "run.allow_change=[data.vocabulary]"
expect_text "the vocabulary is not the one of the run so far"
rm run/vocabulary.model
expect_exit 2 "$mtf_train" run/config.yaml train.steps=8
expect_text "run has checkpoints, but not the vocabulary that they were trained with"
[ ! -e run/vocabulary.model ] || fail "another vocabulary was trained"
cp second/vocabulary.model run/
expect_exit 1 "$mtf_train" run/config.yaml run.mode=evaluate

# run.mode=evaluate measures several checkpoints if they are requested.
"$mtf_train" second/config.yaml run.mode=evaluate evaluate.checkpoint=all > all 2> out || { cat out >&2; fail "all checkpoints"; }
[ "$(sed 's/.*"step":\([0-9]*\),.*/\1/' all | tr '\n' ' ')" = "2 4 6 " ] || fail "not all checkpoints: $(cat all)"
"$mtf_train" second/config.yaml run.mode=evaluate "evaluate.checkpoint=[6, 2]" 2> out > some || { cat out >&2; fail "some checkpoints"; }
measured() { sed 's/,"seconds".*//' "$1"; }
cmp <(measured some) <(measured all | sed -n '3p;1p' | sort -r) || fail "not the steps 6 and 2: $(cat some)"
expect_exit 0 "$mtf_train" second/config.yaml run.mode=evaluate "evaluate.checkpoint={average: 2}"
expect_text "the mean of 2 checkpoints up to step 6:  dev  loss "
