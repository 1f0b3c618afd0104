#!/usr/bin/env bash
# Tests key `hardware`: run.mode=explain plans for machines that are not there, GPUs without a driver among them; what is
# wrong with a profile is said in a line; run.mode=calibrate writes a profile that explain reads.
source "$2/tests/end_to_end/common.sh"
models=$source_dir/configs/models
lm=("$models/lm_base.yaml" "$models/tiny.yaml" data.vocabulary=bytes vars.num_heads=8 vars.d_kv=16 vars.data=none
  vars.max_length=64 train.batch_size=32 run.mode=explain)

# A machine with 8 GPUs, by name, without `devices`: the GPU's passes, its memory, and its time.
MTF_CUDA_PLUGIN=none expect_exit 0 "$mtf_train" "${lm[@]}" hardware=h100_8x_nvlink_400g mesh=all:8 layout=batch:all
expect_text "the plan is for NVIDIA H100 SXM 80GB"
expect_text '`hardware`: NVIDIA H100 SXM 80GB'
expect_text "predicted on NVIDIA H100 SXM 80GB"
expect_text "tokens/s"
expect_text "of the peak (MFU)"
# The same with `devices`; two machines are slower per step than one with as much work for each GPU.
seconds() {  # ARGUMENT...: prints the predicted seconds of a step
  "$mtf_train" "${lm[@]}" explain.format=json explain.tensors=false "$@" |
    python3 -c 'import json, sys; print(json.load(sys.stdin)["prediction"]["seconds"])'
}
less() { python3 -c "import sys; sys.exit(not float(sys.argv[1]) < float(sys.argv[2]))" "$1" "$2" || fail "$3: $1 is not less than $2"; }
gpus=(devices=cuda hardware=h100_8x_nvlink_400g layout=batch:all)
one=$(seconds "${gpus[@]}" mesh=all:8 train.batch_size=64)
less "$one" "$(seconds "${gpus[@]}" mesh=all:16 train.batch_size=128)" "one machine and two"
less "$(seconds "${gpus[@]}" mesh=all:8 train.batch_size=64 hardware=b200_8x_nvlink_400g vars.d_ff=4096)" \
  "$(seconds "${gpus[@]}" mesh=all:8 train.batch_size=64 hardware=a100_8x_nvlink_200g vars.d_ff=4096)" "B200 and A100"
# Clusters of processors: the network counts.
cluster=(mesh=all:4 layout=batch:all cluster.processes=4)
less "$(seconds "${cluster[@]}" hardware=cpu_32_cores_100g)" "$(seconds "${cluster[@]}" hardware=cpu_32_cores_10g)" "100 and 10 Gbit/s"
expect_exit 0 "$mtf_train" "${lm[@]}" "${cluster[@]}" hardware=cpu_32_cores_10g
expect_text "in 4 processes of 1 position"
expect_text '`hardware`: AMD EPYC 7543, 32 cores'

# A long run there: stragglers, a slow link, failures, and how often to save.
long=(hardware=h100_8x_nvlink_400g mesh=all:16 layout=batch:all train.steps=200000 checkpoint.every=100
  "simulate={mean_time_between_failures: {machine: 10min}, restart: 10s, checkpoint: {copy: 1s}, stragglers: {share: 0.1},
             slow_link: {bandwidth: 0.2}}")
expect_exit 0 "$mtf_train" "${lm[@]}" "${long[@]}"
expect_text "long run of 200,000 steps on 16 processes of 2 machines: means of 200 simulated runs"
expect_text "failures    one in 5 min 00 s"
expect_text "slow link: InfiniBand NDR"
expect_text "best        goodput"
simulated() {  # KEY ARGUMENT...: prints a number of the simulation
  "$mtf_train" "${lm[@]}" "${long[@]}" explain.format=json explain.tensors=false "${@:2}" |
    python3 -c 'import json, sys; print(eval("json.load(sys.stdin)[\"simulation\"]" + sys.argv[1]))' "$1"
}
less "$(simulated '["goodput"]["mean"]')" "$(simulated '["best"]["goodput"]["mean"]')" "as configured and best"
less "$(simulated '["step"]["undisturbed"]')" "$(simulated '["step"]["seconds"]')" "undisturbed and disturbed"
[[ "$(simulated '["seconds"]')" == "$(simulated '["seconds"]')" ]] || fail "simulated runs do not repeat"

# Mistakes.
mistake() {  # LINE ARGUMENT...: explain must end with exit code 2 and this line
  local line=$1
  shift
  expect_exit 2 "$mtf_train" "${lm[@]}" "$@"
  expect_text "$line"
}
mistake '`hardware`: no file that ships is named `h100_8x_nvlink_400`; did you mean `h100_8x_nvlink_400g`?' hardware=h100_8x_nvlink_400
mistake '`hardware`: there is no file `none.yaml`' hardware=none.yaml
mistake '`devices: cpu` is not what `hardware` has, NVIDIA H100 SXM 80GB: GPUs' hardware=h100_8x_nvlink_400g devices=cpu
mistake '`devices: cuda` is not what `hardware` has, AMD EPYC 7543, 32 cores: processors' hardware=cpu_32_cores_10g devices=cuda
printf 'hardware:\n  device: {flops: -1}\n' > wrong.yaml
mistake 'wrong.yaml:2:19: `hardware.device.flops' hardware=wrong.yaml
printf 'hardware:\n  device: {speed: 1}\n' > wrong.yaml
mistake 'wrong.yaml:2:12: ' hardware=wrong.yaml
printf 'device: {flops: 1e12}\n' > wrong.yaml
mistake 'wrong.yaml: has no section `hardware`' hardware=wrong.yaml
printf 'hardware:\n  links: [{bandwidth: 1e9}, {bandwidth: 1e8}]\n' > wrong.yaml
mistake 'a link that joins all processes stands before others' hardware=wrong.yaml
mistake '`hardware` has no link between processes' "${cluster[@]}" "hardware={links: []}"
mistake 'the links of `hardware` join 2 processes, and the run has 4' "${cluster[@]}" "hardware={links: [{processes: 2}]}"
mistake '`simulate` needs `hardware`, on which it simulates the run' "simulate={}"
mistake '`simulate.slow_link`: `hardware` has no link named `NVLink`; did you mean `NVLink 4`?' "${long[@]}" \
  simulate.slow_link.link=NVLink
mistake '`simulate.stragglers.slowdown` must be at least 1' "${long[@]}" simulate.stragglers.slowdown=0.5

# This machine is measured, and explained.
expect_exit 0 "$mtf_train" run.mode=calibrate calibrate.rounds=1 calibrate.output=here.yaml run.threads=1
expect_text "in here.yaml"
grep -q "winograd:" here.yaml || fail "the rates of convolutions are missing: $(cat here.yaml)"
expect_exit 0 "$mtf_train" "$models/mnist_conv.yaml" run.mode=explain hardware=here.yaml
expect_text "predicted on"
expect_exit 0 "$mtf_train" "${lm[@]}" hardware=here.yaml
expect_text "predicted on"
mtf_launch=$(dirname "$mtf_train")/mtf-launch
expect_exit 0 "$mtf_launch" -n 2 -- "$mtf_train" run.mode=calibrate calibrate.rounds=1 calibrate.output=both.yaml
grep -q "inside: true" both.yaml || fail "the link between the processes is missing: $(cat both.yaml)"
expect_exit 0 "$mtf_train" "${lm[@]}" hardware=both.yaml mesh=all:2 layout=batch:all cluster.processes=2
expect_text "the network sends for"
echo "ok"
