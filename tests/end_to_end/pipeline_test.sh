#!/usr/bin/env bash
# Tests pipelines from the command line: losses on stages in one and several processes, runs that go on with other stages,
# evaluation and texts, a run that is killed, explain, and messages.
source "$2/tests/end_to_end/common.sh"
source "$2/tests/end_to_end/processes.sh"

cat > network.yaml << 'END'
data: {train: {type: identity, size: 16, examples: 512, dimension: io}}
model:
  type: regression
  input: x
  target: y
  layers:
    - dense: {name: first, output: {width: 24}, activation: relu}
    - repeat:
        times: 4
        layers:
          - residual: {layers: [{dense: {output: {hidden: 32}, activation: relu}}, {dense: {output: {width: 24}}}]}
    - dense: {name: last, output: {io: 16}}
optimizer: adam
learning_rate: 0.01
run: {threads: 1}
train: {steps: 6, batch_size: 64, microbatches: 4, log_every: 1}
evaluate: {every: 3, datasets: {dev: {type: identity, size: 16, examples: 64, dimension: io}}}
checkpoint: {every: 3}
END

# expect_losses RUN [REFERENCE]: the losses of RUN are those of REFERENCE (default: `one`), up to rounding.
expect_losses() {
  python3 - "$1" "${2:-one}" << 'END' || fail "$1 has other losses than one position"
import json, sys
a, b = ([json.loads(line)["loss"] for line in open(f"{run}/metrics.jsonl")] for run in sys.argv[1:])
assert len(a) == len(b) == 6 and all(abs(x - y) <= 1e-5 * abs(y) for x, y in zip(a, b)), (a, b)
END
}

expect_exit 0 "$mtf_train" network.yaml run.model_dir=one
stages=(mesh=stages:2 layout=layers:stages)
expect_exit 0 "$mtf_train" network.yaml run.model_dir=two "${stages[@]}"
expect_losses two
expect_exit 0 "$mtf_train" network.yaml run.model_dir=rounds "${stages[@]}" pipeline.rounds=2 pipeline.schedule=gpipe
expect_losses rounds
expect_exit 0 "$mtf_train" network.yaml run.model_dir=placed "mesh={stages: 3}" \
  "placement={stages: {0: [first, repeat/0], 1: [repeat/1..2], 2: [repeat/3, last]}}"
expect_losses placed
split=(mesh="rows:2;stages:2;cols:2" layout="batch:rows;layers:stages;hidden:cols" parameter_layout=width:rows)
expect_exit 0 "$mtf_train" network.yaml run.model_dir=split "${split[@]}" train.recompute=block
expect_losses split

# A process for each stage: the same bits.
expect_exit 0 "$mtf_launch" -n 2 "$mtf_train" network.yaml run.model_dir=processes "${stages[@]}"
expect_exit 0 "$(dirname "$mtf_train")/mtf-compare" two processes --tolerance 0
expect_exit 0 "$mtf_launch" -n 4 "$mtf_train" network.yaml run.model_dir=four mesh="rows:2;stages:2" layout="batch:rows;layers:stages"
expect_losses four

# Convolutions around which an input is added, and the blocks of a Vision Transformer.
make_small_idx
cat > images.yaml << 'END'
data: {train: {type: idx, images: images, labels: labels}}
optimizer: adam
learning_rate: 0.01
run: {threads: 1}
train: {steps: 6, batch_size: 16, microbatches: 4, log_every: 1}
END
cat > convolutions.yaml << 'END'
include: images.yaml
model:
  type: classifier
  layers:
    - conv2d: {output: {filters: 8}, kernel: 3}
    - repeat:
        times: 4
        layers:
          - residual: {layers: [{conv2d: {output: {filters: 8}, kernel: 3}}, batch_norm]}
          - activation: relu
    - global_average_pool
    - dense: {output: {classes: 6}}
END
cat > patches.yaml << 'END'
include: images.yaml
model:
  type: classifier
  layers:
    - patches: {size: 5}
    - dense: {output: {d_model: 16}}
    - positions: learned
    - transformer:
        num_layers: 4
        block: [{SelfAttention: {num_heads: 2, key_value_size: 8}}, {DenseReluDense: {hidden_size: 32, dropout: 0.1}}]
    - take: {along: length}
    - dense: {output: {classes: 6}}
END
for model in convolutions patches; do
  expect_exit 0 "$mtf_train" $model.yaml run.model_dir=$model.one
  expect_exit 0 "$mtf_train" $model.yaml run.model_dir=$model.two "${stages[@]}"
  expect_losses $model.two $model.one
  expect_exit 0 "$mtf_train" $model.yaml run.model_dir=$model.rows mesh="rows:2;stages:4" layout="batch:rows;layers:stages" train.recompute=block
  expect_losses $model.rows $model.one
  expect_exit 0 "$mtf_launch" -n 2 "$mtf_train" $model.yaml run.model_dir=$model.processes "${stages[@]}"
  expect_exit 0 "$(dirname "$mtf_train")/mtf-compare" $model.two $model.processes --tolerance 0
done

# A run that is killed goes on to the same bits.
setsid "$mtf_launch" -n 2 "$mtf_train" network.yaml run.model_dir=killed "${stages[@]}" train.steps=1000000 > out.killed 2>&1 &
ids=($!)
wait_for has_lines killed/metrics.jsonl 8
kill -9 -- -"${ids[0]}"
wait "${ids[0]}" || true
steps=$(($(wc -l < killed/metrics.jsonl) + 4))
expect_exit 0 "$mtf_launch" -n 2 "$mtf_train" network.yaml run.model_dir=killed "${stages[@]}" train.steps=$steps run.allow_change=train.steps
expect_exit 0 "$mtf_train" network.yaml run.model_dir=whole "${stages[@]}" train.steps=$steps
expect_exit 0 "$(dirname "$mtf_train")/mtf-compare" whole killed --tolerance 0

# A run goes on without stages, and with them again.
expect_exit 0 "$mtf_train" network.yaml run.model_dir=other "${stages[@]}" train.steps=3
expect_exit 0 "$mtf_train" network.yaml run.model_dir=other mesh=null layout=null train.steps=5
expect_exit 0 "$mtf_launch" -n 2 "$mtf_train" network.yaml run.model_dir=other "${stages[@]}"
expect_losses other
expect_exit 0 "$mtf_train" other/config.yaml run.mode=evaluate

expect_exit 0 "$mtf_train" network.yaml run.mode=explain "${stages[@]}"
expect_text "2 along \`stages\`, microbatches: 4, 1f1b: each waits for 20.0 % of the loop at least"
expect_text "stage 1 "
expect_exit 0 "$mtf_train" network.yaml run.mode=explain explain.format=json "${stages[@]}" hardware=cpu_32_cores_10g cluster.processes=2 cluster.launcher=none cluster.process=0 cluster.address=localhost:1

# Texts of several lengths are read by several programs, which have their caches at the same stages.
for ((i = 0; i < 40; i++)); do printf 'abcab\nbcabcabc\n'; done > texts
cat > writes.yaml << 'END'
data: {train: {type: text, path: texts}, vocabulary: bytes, sequence_length: 32, cache: cache}
model:
  type: lm
  d_model: 16
  num_layers: 2
  positions: none
  block: [SelfAttention: {num_heads: 1, key_value_size: 8, rotary: true}, DenseReluDense: {hidden_size: 32}]
run: {threads: 1}
train: {steps: 20, batch_size: 8}
learning_rate: 0.1
END
expect_exit 0 "$mtf_train" writes.yaml run.model_dir=writes
printf 'b\n\nabcabcabcabcabcabcabcabca\nca\n' > asked
answers() {  # ARGUMENT...: decodes one text at a time
  "$mtf_train" writes/config.yaml run.mode=infer infer.input=asked infer.batch_size=1 infer.max_length=8 infer.n_best=2 "$@" 2> said ||
    { cat said >&2; fail "infer $*"; }
}
answers > expected
for arguments in "mesh=y:2 layout=layers:y" "mesh=x:2;y:2 layout=layers:y;batch:x" "mesh=x:2;y:2 layout=layers:y parameter_layout=d_model:x"; do
  # shellcheck disable=SC2086 # two or three arguments
  answers $arguments | diff expected - > differences || { cat differences >&2; fail "other texts: $arguments"; }
done

expect_exit 0 "$mtf_train" network.yaml run.mode=explain "${stages[@]}" train.microbatches=1
expect_text "with one microbatch the 2 stages of the pipeline work one after the other: \`train.microbatches: 4\`, or more"

expect_exit 2 "$mtf_train" network.yaml run.model_dir=none mesh=stages:8 layout=layers:stages
expect_text "4 blocks cannot lie on 8 stages"
expect_exit 2 "$mtf_train" network.yaml run.model_dir=none mesh=stages:2 layout=layers:stage
expect_text "the stages of a pipeline are \`stage\`, which is no dimension of the mesh"
expect_exit 2 "$mtf_train" network.yaml run.model_dir=none mesh=stages:2 layout="layers:stages;batch:stages"
expect_text "\`stages\` has the stages of a pipeline, and cannot split \`batch\`"
expect_exit 2 "$mtf_train" network.yaml run.model_dir=none mesh=stages:2 "placement={stages: {0: [first], one: [last]}}"
expect_text "\`one\` where the number of a stage belongs"
expect_exit 2 "$mtf_train" network.yaml run.model_dir=none mesh=stages:2 layout=auto "placement={stages: {0: [first], 1: [last]}}"
expect_text "\`auto\` does not look for layouts with a \`placement\`"

# The rest of a layout with stages is found, with microbatches, and kept.
found=(mesh="{stages: 2, data: 2}" layout="{layers: stages, auto: true}" train.microbatches=auto)
expect_exit 0 "$mtf_train" network.yaml run.mode=explain "${found[@]}"
expect_text "layers: stages"
expect_exit 0 "$mtf_train" network.yaml run.model_dir=found "${found[@]}" train.steps=2
grep -q "layers: stages" found/config.yaml || fail "config.yaml does not have the stages"
expect_exit 0 "$mtf_train" network.yaml run.model_dir=found "${found[@]}" train.steps=4 run.allow_change=train.steps
expect_text "as the run has it"
[ ! -e none ] || fail "a refused run has written"
echo "ok"
