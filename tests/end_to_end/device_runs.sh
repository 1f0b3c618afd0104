# Sourced by the tests of runs on a GPU after common.sh; $device_steps is the number of steps that are
# compared. A run on the GPU equals the run on the CPU: the same random numbers, losses that agree,
# checkpoints from which the other resumes, the same texts.
source "$source_dir/tests/end_to_end/device_models.sh"
echo "evaluate: {every: $device_steps, datasets: {dev: {type: text, path: dev.en}}}" >> lm.yaml
mnist+=(evaluate.every=5)
cat > translate.yaml << 'YAML'
data:
  train: {type: parallel, inputs: words.en, targets: words.de}
  vocabulary: bytes
  sequence_length: 64
  cache: cache
model:
  type: bitransformer
  d_model: 32
  max_length: 64
  layer_defaults:
    SelfAttention: {num_heads: 4, key_value_size: 8, dropout: 0.1}
    EncDecAttention: {num_heads: 4, key_value_size: 8, dropout: 0.1}
    DenseReluDense: {hidden_size: 64, dropout: 0.1}
  encoder: {num_layers: 1, block: [SelfAttention, DenseReluDense]}
  decoder: {num_layers: 1, block: [SelfAttention, EncDecAttention, DenseReluDense]}
train: {batch_size: 16, log_every: 1}
YAML
steps=train.steps=$device_steps

# on DEVICES DIRECTORY ARGUMENT...: trains on these devices.
on() {
  local devices=$1 directory=$2
  shift 2
  expect_exit 0 "$mtf_train" "$@" $steps devices="$devices" run.model_dir="$directory"
}

for run in mnist lm translate; do
  if [ $run = mnist ]; then arguments=("${mnist[@]}"); else arguments=($run.yaml); fi
  on cpu $run-cpu "${arguments[@]}"
  on cuda:0 $run-cuda "${arguments[@]}"
  agree $run-cuda $run-cpu 1e-3
  on cuda:0 $run-again "${arguments[@]}"
  expect_exit 0 "$mtf_compare" $run-cuda $run-again
  expect_text "same: $device_steps steps"
done
agree mnist-cuda mnist-cpu 1e-4

# Eight positions share the GPU, with collectives of all kinds; the step is recorded and replayed.
for layout in data_parallel_4 model_parallel_4 data_and_model_parallel_4 fsdp_4 zero1_4; do
  on cuda:0*4 $layout "$source_dir/configs/layouts/$layout.yaml" "${mnist[@]}"
  agree $layout mnist-cuda 1e-4
done
on cuda:0*8 eight lm.yaml "mesh=rows:2;cols:2;depth:2" "layout=batch:rows;heads:cols;d_ff:cols;vocab:cols;length:depth"
agree eight lm-cuda 1e-3
on cuda:0*4 microbatches lm.yaml train.microbatches=2 "mesh=rows:2;cols:2" "layout=batch:rows;d_ff:cols" train.ema_decay=0.9
agree microbatches lm-cuda 1e-3
on cuda:0*4 replicas lm.yaml "mesh=rows:2;cols:2" "layout=batch:rows;heads:cols" run.check_replicas=true
agree replicas lm-cuda 1e-3
on cuda:0 bfloat16 lm.yaml precision.activation=bfloat16
agree bfloat16 lm-cuda 3e-2

# A checkpoint that is saved on one device is resumed on the other.
half=$((device_steps / 2))
expect_exit 0 "$mtf_train" lm.yaml train.steps=$half devices=cuda:0 run.model_dir=moved
on cpu moved lm.yaml
agree moved lm-cpu 1e-3
expect_exit 0 "$mtf_train" lm.yaml train.steps=$half devices=cpu run.model_dir=moved-back
on cuda:0 moved-back lm.yaml
agree moved-back lm-cpu 1e-3

# A trained model gives the same texts, with each decoding method, and the same scores.
head -n 12 dev.en > sources
for arguments in "" "infer.beam_size=4"; do
  for devices in cpu cuda:0; do
    expect_exit 0 "$mtf_train" translate-cuda/config.yaml run.mode=infer infer.input=sources infer.output=texts.$devices devices=$devices $arguments
  done
  cmp texts.cpu texts.cuda:0 || fail "other texts on the GPU with '$arguments'"
done
