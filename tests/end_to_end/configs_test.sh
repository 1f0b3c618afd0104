#!/usr/bin/env bash
# Each configuration that ships runs for a few steps, alone and with each layout, and is explained.
source "$2/tests/end_to_end/common.sh"
read -ra data <<< "$(mnist_data)"
short=(train.steps=4 train.epochs=null train.batch_size=48 evaluate.every=0)

run_config() {  # NAME FILE... : trains and explains
  local name=$1 written
  shift
  local arguments=("${short[@]}")
  case "$1" in *toy*) ;; *) arguments+=("${data[@]}") ;; esac
  expect_exit 0 "$mtf_train" "$@" "${arguments[@]}" "run.model_dir=$name"
  for written in config.yaml metrics.jsonl log.txt; do
    [ -s "$name/$written" ] || fail "$name/$written is missing"
  done
  losses "$name" > "$name.losses"
  expect_exit 0 "$mtf_train" "$@" "${arguments[@]}" run.mode=explain
  expect_text "a position alone on its device"
}

for file in "$source_dir"/configs/models/*.yaml "$source_dir"/configs/runs/*.yaml; do
  name=$(basename "$file" .yaml)
  run_config "$name" "$file"
  for layout in "$source_dir"/configs/layouts/*.yaml; do
    with=$name-$(basename "$layout" .yaml)
    run_config "$with" "$file" "$layout"
    expect_close "$with.losses" "$name.losses" 1e-5
  done
  echo "$name: as $(find "$source_dir"/configs/layouts -name '*.yaml' | wc -l) layouts"
done
