# Sourced by the tests of runs on a GPU after common.sh. A run on the GPU equals the run on the CPU: the same random numbers,
# losses that agree, checkpoints from which the other resumes, the same texts. Failures are collected for report_failures.
#
# Rounding differs between devices, and models with ReLU and dropout multiply its effect, some tenfold in two steps: the first
# losses are compared one by one, those of the whole run by their mean.
: "${device_steps:=100}"       # steps of each run
: "${close_steps:=5}"          # the first steps, whose losses are compared one by one
: "${close_tolerance:=1e-3}"   # relative, for each of the first losses
: "${mean_tolerance:=2e-2}"    # relative, for the mean of all losses
: "${text_steps:=400}"         # steps on the CPU of the model that generates texts
: "${text_differences:=1}"     # lines of 12 that may differ, where two words are nearly as probable
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
if [ "$device_steps" -lt "$close_steps" ]; then close_steps=$device_steps; fi

# on DEVICES DIRECTORY ARGUMENT...: trains on these devices.
on() {
  local devices=$1 directory=$2
  shift 2
  expect_exit 0 "$mtf_train" "$@" $steps devices="$devices" run.model_dir="$directory"
}

# runs_agree DIRECTORY DIRECTORY [TOLERANCE]: the first losses must agree one by one, and the means of all. TOLERANCE replaces
# that of the first losses; the means may differ by the larger one.
runs_agree() {
  local close=${3:-$close_tolerance} mean
  mean=$(awk -v a="$close" -v b="$mean_tolerance" 'BEGIN { print (a > b ? a : b) }')
  losses "$1" > all.a
  losses "$2" > all.b
  head -n "$close_steps" all.a > a
  head -n "$close_steps" all.b > b
  expect_close a b "$close"
  expect_close_means all.a all.b "$mean"
}

# on_both RUN ARGUMENT...: trains on the CPU and twice on the GPU.
on_both() {
  local run=$1
  shift
  on cpu $run-cpu "$@"
  on cuda:0 $run-cuda "$@"
  on cuda:0 $run-again "$@"
  expect_exit 0 "$mtf_compare" $run-cuda $run-again
  expect_text "same: $device_steps steps"
  runs_agree $run-cuda $run-cpu
}
check on_both mnist "${mnist[@]}"
check on_both lm lm.yaml
check on_both translate translate.yaml

# without_graphs RUN ARGUMENT...: steps that are not recorded have the same bits.
without_graphs() {
  local run=$1
  shift
  MTF_CUDA_GRAPHS=0 on cuda:0 $run-eager "$@"
  expect_exit 0 "$mtf_compare" $run-cuda $run-eager
  expect_text "same: $device_steps steps"
  grep -qF "MTF_CUDA_GRAPHS=0: steps are not recorded" $run-eager/log.txt || fail "$run-eager/log.txt does not name MTF_CUDA_GRAPHS"
}
check without_graphs lm lm.yaml

# agrees RUN TOLERANCE OTHER ARGUMENT...: trains OTHER on $devices; it must agree with RUN on one position of the GPU.
agrees() {
  local run=$1 tolerance=$2 other=$3
  shift 3
  on "$devices" $other "$@"
  runs_agree $other $run-cuda $tolerance
}
# Several positions share the GPU, with collectives of all kinds; the step is recorded and replayed.
devices='cuda:0*4'
for layout in data_parallel_4 model_parallel_4 data_and_model_parallel_4 fsdp_4 zero1_4; do
  check agrees mnist "$close_tolerance" $layout "$source_dir/configs/layouts/$layout.yaml" "${mnist[@]}"
done
check agrees lm "$close_tolerance" microbatches lm.yaml train.microbatches=2 "mesh=rows:2;cols:2" "layout=batch:rows;d_ff:cols" train.ema_decay=0.9
check agrees lm "$close_tolerance" replicas lm.yaml "mesh=rows:2;cols:2" "layout=batch:rows;heads:cols" run.check_replicas=true
devices='cuda:0*8'
check agrees lm "$close_tolerance" eight lm.yaml "mesh=rows:2;cols:2;depth:2" "layout=batch:rows;heads:cols;d_ff:cols;vocab:cols;length:depth"
devices='cuda:0'
check agrees lm 3e-2 bfloat16 lm.yaml precision.activation=bfloat16

# moves DEVICES DEVICES DIRECTORY: a checkpoint that is saved on one device is resumed on the other.
moves() {
  expect_exit 0 "$mtf_train" lm.yaml train.steps=$((device_steps / 2)) devices="$1" run.model_dir="$3"
  on "$2" "$3" lm.yaml
  runs_agree "$3" lm-cpu
}
check moves cuda:0 cpu moved
check moves cpu cuda:0 moved-back

# same_texts [ARGUMENT]: a trained model gives the same texts on both devices.
same_texts() {
  local devices different
  for devices in cpu cuda:0; do
    expect_exit 0 "$mtf_train" texts/config.yaml run.mode=infer infer.input=sources infer.output=texts.$devices devices=$devices "$@"
  done
  [ "$(wc -l < texts.cpu)" -eq 12 ] || fail "not 12 texts"
  different=$(diff texts.cpu texts.cuda:0 | grep -c '^>' || true)
  [ "$different" -le "$text_differences" ] || fail "$different of 12 texts differ on the GPU with '$*'"
}
head -n 12 dev.en > sources
expect_exit 0 "$mtf_train" translate.yaml train.steps="$text_steps" train.log_every=50 devices=cpu run.model_dir=texts
check same_texts
check same_texts infer.beam_size=4
check same_texts infer.beam_size=4 infer.batch_size=5
