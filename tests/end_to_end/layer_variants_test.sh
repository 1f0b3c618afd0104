#!/usr/bin/env bash
# Tests runs with layers and options that single families of models use: a run that is resumed, is computed in
# several processes, in microbatches, with recomputed layers or on an emulated GPU gives the losses of one that is not, and
# its weights write texts.
source "$2/tests/end_to_end/common.sh"
source "$2/tests/end_to_end/processes.sh"

made_up_pairs 5 200 words
cat > translate.yaml << 'YAML'
data:
  train: {type: parallel, inputs: words.en, targets: words.de}
  vocabulary: bytes
  sequence_length: 48
  cache: cache
model:
  type: bitransformer
  d_model: 32
  max_length: 64
  logit_soft_cap: 30
  layer_defaults:
    SelfAttention: {num_heads: 4, key_value_size: 8, dropout: 0.1, qk_norm: true, prefix_length: 2, z_loss: 0.001}
    DenseReluDense: {hidden_size: 64, activation: squared_relu}
  encoder: {num_layers: 2, block: [parallel: {layers: [SelfAttention, DenseReluDense], scale: none}]}
  decoder:
    num_layers: 1
    block:
      - SelfAttention: {convolution_width: 3, soft_cap: 20}
      - TransparentEncDecAttention: {num_heads: 4, key_value_size: 8, layers_per_encoder_module: 1, encoder_num_modules: 2,
          layers_per_decoder_module: 5, decoder_num_modules: 1}
      - causal_conv: 3
      - TalkingHeadsSelfAttention: {key_heads: {heads: 4}, softmax_heads: {softmax_heads: 2}, value_heads: {heads: 4},
          key_size: 8, value_size: 8}
      - DenseReluDense
learning_rate: 0.01
train: {batch_size: 16, log_every: 1, steps: 6}
checkpoint: {every: 3}
YAML
run=("$mtf_train" translate.yaml run.threads=1)

expect_exit 0 "${run[@]}" run.model_dir=whole
grep -q loss/attention_z whole/metrics.jsonl || fail "the attention z-loss is not logged"

# The same bits after an interruption, and in two processes.
expect_exit 0 "${run[@]}" run.model_dir=parts train.steps=3
expect_exit 0 "${run[@]}" run.model_dir=parts
expect_exit 0 "$mtf_compare" --tensors whole parts
mesh=("mesh=rows:2;cols:2" "layout=batch:rows;heads:cols;d_ff:cols;vocab:cols")
expect_exit 0 "${run[@]}" "${mesh[@]}" run.model_dir=mesh
expect_exit 0 timeout 120 "$mtf_launch" -n 2 -- "${run[@]}" "${mesh[@]}" run.model_dir=processes
expect_exit 0 "$mtf_compare" --tensors mesh processes

# close_to_whole DIRECTORY TOLERANCE: the losses are those of the run on one position.
close_to_whole() {
  losses whole > a
  losses "$1" > b
  expect_close a b "$2"
}
close_to_whole mesh 1e-3
expect_exit 0 "${run[@]}" run.model_dir=micro train.microbatches=4 train.recompute=block
close_to_whole micro 1e-3

head -n 8 words.en > first.en
expect_exit 0 "${run[@]}" run.mode=infer run.model_dir=whole infer.input=first.en infer.output=written \
  infer.max_length=12
[ -s written ] || fail "nothing was written"

use_emulated_gpu
expect_exit 0 "${run[@]}" run.model_dir=device devices=cuda:0 train.steps=4
head -n 4 <(losses whole) > a
losses device > b
expect_close a b 1e-3
