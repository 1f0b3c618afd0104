#!/usr/bin/env bash
# Tests translation from raw text to BLEU: a small encoder-decoder learns to translate word for word.
# Evaluations give BLEU and chrF of its outputs against raw references, the same numbers as mtf-bleu for the
# decoded file, on any layout. BLEU chooses the best checkpoint and the end of the run.
source "$2/tests/end_to_end/common.sh"
mtf_bleu=$(dirname "$mtf_train")/mtf-bleu

made_up_pairs 1 1500 train
made_up_pairs 2 60 dev
sed 's/en\.$/en !/' dev.de > other.de

cat > run.yaml << 'END'
data:
  train: {type: parallel, inputs: train.en, targets: train.de}
  vocabulary: {type: sentencepiece, size: 300}
  sequence_length: 64
  cache: cache
model:
  type: bitransformer
  d_model: 64
  positions: sinusoid
  layer_defaults:
    SelfAttention: {num_heads: 4, key_value_size: 16}
    EncDecAttention: {num_heads: 4, key_value_size: 16}
    DenseReluDense: {hidden_size: 128}
  encoder: {num_layers: 1, block: [SelfAttention, DenseReluDense]}
  decoder: {num_layers: 1, block: [SelfAttention, EncDecAttention, DenseReluDense]}
optimizer: adam
learning_rate: 0.003
train: {steps: 400, batch_size: 8, log_every: 100}
evaluate:
  every: 100
  datasets:
    dev: {type: parallel, inputs: dev.en, targets: dev.de, metrics: [bleu, loss, chrf, ter]}
    two: {type: parallel, inputs: dev.en, targets: dev.de, references: [dev.de, other.de], metrics: [bleu], limit: 20}
checkpoint: {every: 100, keep_last: 1, keep_best: {metric: dev/bleu}}
END

# metric FILE DATASET NAME: prints the metric's values, one per line.
metric() {
  grep "\"dataset\":\"$2\"" "$1" | sed "s/.*\"$3\":\([^,}]*\).*/\1/"
}

expect_exit 0 "$mtf_train" run.yaml run.model_dir=run
expect_text "bleu"
[ "$(metric run/evaluate.jsonl dev bleu | wc -l)" = 4 ] || fail "there are not four evaluations with BLEU"
awk 'NR == 1 { first = $1 } { last = $1 } END { exit !(last > 60 && last > first) }' <(metric run/evaluate.jsonl dev bleu) ||
  fail "BLEU does not rise above 60: $(metric run/evaluate.jsonl dev bleu | tr '\n' ' ')"

# The checkpoint and mtf-bleu on a decoded file give the same numbers.
best=$(metric run/evaluate.jsonl dev bleu | sort -g | tail -1)
"$mtf_train" run/config.yaml run.mode=evaluate evaluate.checkpoint=best > evaluated 2> /dev/null
expect_close <(metric evaluated dev bleu) <(echo "$best") 1e-9
expect_exit 0 "$mtf_train" run/config.yaml run.mode=infer infer.checkpoint=best infer.method=greedy infer.input=dev.en infer.output=out.de
[ "$(wc -l < out.de)" = 60 ] || fail "there are not 60 translations"
expect_close <("$mtf_bleu" dev.de -b -w 6 < out.de) <(echo "$best") 1e-6
expect_close <("$mtf_bleu" dev.de -m chrf -b -w 6 < out.de) <(metric evaluated dev chrf) 1e-6
expect_close <("$mtf_bleu" dev.de -m ter -b -w 6 < out.de) <(metric evaluated dev ter) 1e-6
expect_close <("$mtf_bleu" <(head -20 dev.de) <(head -20 other.de) -b -w 6 < <(head -20 out.de)) <(metric evaluated two bleu) 1e-6

# The same holds on another mesh, and with beam search and the default options of section infer.
"$mtf_train" run/config.yaml "$source_dir/configs/layouts/data_and_model_parallel_4.yaml" run.mode=evaluate evaluate.checkpoint=best \
  > on_mesh 2> /dev/null
cmp <(metric evaluated dev bleu) <(metric on_mesh dev bleu) || fail "BLEU differs on a mesh"
"$mtf_train" run/config.yaml run.mode=evaluate evaluate.checkpoint=best evaluate.infer.method=beam > beam 2> /dev/null
expect_exit 0 "$mtf_train" run/config.yaml run.mode=infer infer.checkpoint=best infer.input=dev.en infer.output=beam.de
expect_close <("$mtf_bleu" dev.de -b -w 6 < beam.de) <(metric beam dev bleu) 1e-6

# BLEU ends the run: once all translations are right nothing improves any more.
expect_exit 0 "$mtf_train" run.yaml run.model_dir=patient train.steps=5000 "train.patience={metric: dev/bleu, evaluations: 2}"
expect_text "dev/bleu"
[ "$(tail -1 patient/metrics.jsonl | sed 's/.*"step":\([0-9]*\),.*/\1/')" -lt 5000 ] || fail "the run was not ended by BLEU"

# Stored and recomputed activations give the same gradients, also for the encoder's output, which several
# layers of the decoder read.
for recompute in none block; do
  expect_exit 0 "$mtf_train" run.yaml model.decoder.num_layers=3 train.recompute=$recompute train.steps=4 train.log_every=1 evaluate=null \
    checkpoint=null run.model_dir=$recompute
done
expect_close <(losses none) <(losses block) 1e-6
