#!/usr/bin/env bash
# Tests train.microbatches: auto: its number follows run.memory_limit, is the same in all processes, in explain
# and in config.yaml, stays when the run continues, and changes the losses only up to rounding.
source "$2/tests/end_to_end/common.sh"

cat > network.yaml << 'END'
vars: {width: 256}
data: {train: {type: identity, size: $width, examples: 10000, dimension: io}}
model:
  type: regression
  input: x
  target: y
  layers:
    - dense: {name: l1, output: {hidden: 1024}, activation: relu}
    - dense: {name: l2, output: {io: $width}}
optimizer: adam
learning_rate: 0.0001
run: {threads: 1}
train: {steps: 4, batch_size: 4096, log_every: 1, microbatches: auto}
checkpoint: {every: 2}
END

# need ARGUMENT...: prints the bytes that the run of $network needs in this process.
network=network.yaml
need() {
  "$mtf_train" "$network" "$@" run.mode=explain explain.format=json > explained.json || fail "cannot explain $*"
  python3 -c 'import json; print(json.load(open("explained.json"))["memory"]["process"]["bytes"])'
}
# number: prints the number of microbatches in explained.json.
number() { python3 -c 'import json; print(json.load(open("explained.json"))["microbatches"])'; }
# losses RUN: prints the losses of its steps.
losses() { python3 -c 'import json, sys; [print(json.loads(line)["loss"]) for line in open(sys.argv[1] + "/metrics.jsonl")]' "$1"; }
# expect_number RUN NUMBER: config.yaml of the run must have this number.
expect_number() { grep -q "^  microbatches: $2$" "$1/config.yaml" || fail "$1 has not $2 microbatches: $(grep microbatches "$1/config.yaml")"; }

one=$(need train.microbatches=1)
four=$(need train.microbatches=4)
slack=$((four + 200000))
[ "$slack" -lt "$(need train.microbatches=2)" ] || fail "4 microbatches do not save enough for this test"

need run.memory_limit="$((one + 200000))" > /dev/null
[ "$(number)" = 1 ] || fail "explain: $(number) microbatches where the batch fits"
need run.memory_limit="$slack" > /dev/null
[ "$(number)" = 4 ] || fail "explain: $(number) microbatches, not 4"
"$mtf_train" network.yaml run.mode=explain run.memory_limit="$slack" > explained.txt
grep -q "a training step of 4,096 examples in 4 microbatches" explained.txt || fail "explain does not name the microbatches"
grep -q "train.microbatches: auto is 4: fewer do not fit (the run needs .* and may take .*: run.memory_limit)" explained.txt ||
  fail "explain does not say why"

expect_exit 0 "$mtf_train" network.yaml run.memory_limit="$slack" train.steps=2 run.model_dir=auto
expect_text "train.microbatches: auto is 4: fewer do not fit"
expect_number auto 4
# The run goes on with 4, with more memory and on other layouts too; config.yaml has the number.
expect_exit 0 "$mtf_train" network.yaml train.steps=4 run.model_dir=auto
expect_text "train.microbatches: auto is 4, as in the run so far"
expect_number auto 4
expect_exit 0 "$mtf_train" auto/config.yaml train.steps=5
! grep -q "microbatches" out || { cat out; fail "config.yaml still decides"; }
expect_exit 0 "$mtf_train" network.yaml train.steps=6 run.model_dir=auto mesh=x:2 layout=batch:x
expect_text "train.microbatches: auto is 4, as in the run so far"
# Where the layout no longer divides the microbatches, they are decided again, and the change is reported.
expect_exit 0 "$mtf_train" network.yaml train.steps=7 run.model_dir=auto mesh=x:2048 layout=batch:x run.memory_limit=8GB
expect_text "\`train.microbatches\` was 4 and is now 1"
expect_number auto 1

# Losses are those of one batch up to rounding.
expect_exit 0 "$mtf_train" network.yaml run.memory_limit="$slack" run.model_dir=four
expect_exit 0 "$mtf_train" network.yaml train.microbatches=1 run.model_dir=one
python3 - <(losses four) <(losses one) << 'END' || fail "microbatches change the losses"
import sys
a, b = ([float(line) for line in open(name)] for name in sys.argv[1:])
assert len(a) == len(b) == 4 and all(abs(x - y) <= 1e-5 * abs(y) for x, y in zip(a, b)), (a, b)
END

# All processes take the number of the one with the least memory.
two=(mesh=x:2 layout=batch:x)
half=$(need "${two[@]}" train.microbatches=4 cluster.launcher=none cluster.processes=2 cluster.process=0 cluster.address=localhost:1)
cat > limited.sh << END
#!/bin/sh
[ "\$RANK" = 1 ] && exec "$mtf_train" "\$@" run.memory_limit=$((half + 200000))
exec "$mtf_train" "\$@" run.memory_limit=8GB
END
chmod +x limited.sh
expect_exit 0 "$(dirname "$mtf_train")/mtf-launch" -n 2 ./limited.sh network.yaml run.model_dir=two "${two[@]}"
! grep -q "^  microbatches: 1$" two/config.yaml || { cat out; fail "the process with little memory was not asked"; }
expect_text "another process has less memory"

cat > unlike.sh << END
#!/bin/sh
exec "$mtf_train" "\$@" train.microbatches=\$([ "\$RANK" = 1 ] && echo 2 || echo auto)
END
chmod +x unlike.sh
expect_exit 2 timeout 60 "$(dirname "$mtf_train")/mtf-launch" -n 2 ./unlike.sh network.yaml run.model_dir=unlike "${two[@]}"
expect_text "train.microbatches"

# Where nothing fits the error is that of the memory check.
expect_exit 2 "$mtf_train" network.yaml run.memory_limit=1MB run.model_dir=none
expect_text "the run needs "
[ ! -e none ] || fail "a refused run has written"
expect_exit 2 "$mtf_train" network.yaml train.microbatches=some run.model_dir=none
expect_exit 2 "$mtf_train" network.yaml run.mode=trace trace.input=x trace.output=y
expect_text "\`train.microbatches: auto\` needs a plan of the memory"
expect_exit 2 "$mtf_train" network.yaml train.strategy=parameter_server run.model_dir=none
expect_text "does not go with \`train.strategy: parameter_server\`"

# Batch norm takes statistics of the batch, which microbatches would change: `auto` does not choose them, the check of the
# memory advises with a warning, and a run with microbatches says what its statistics are of.
sed 's/    - dense: {name: l2/    - batch_norm: {name: norm}\n&/' network.yaml > normalized.yaml
slack=$(($(network=normalized.yaml need train.microbatches=4) + 200000))
network=normalized.yaml need run.memory_limit="$slack" > /dev/null
[ "$(number)" = 1 ] || fail "explain: $(number) microbatches for a model with batch norm"
expect_exit 2 "$mtf_train" normalized.yaml run.memory_limit="$slack" run.model_dir=none
expect_text "\`train.microbatches: 4\` (which changes the batch statistics of norm)"
expect_exit 0 "$mtf_train" normalized.yaml run.memory_limit="$slack" train.microbatches=4 run.model_dir=normalized
expect_text "the batch statistics of norm are those of a microbatch: of 1024 examples"
# A run that continues keeps its number, as for other models.
expect_exit 0 "$mtf_train" normalized.yaml run.memory_limit="$slack" train.steps=5 run.model_dir=normalized
expect_text "train.microbatches: auto is 4, as in the run so far"
expect_exit 0 "$mtf_train" normalized.yaml train.microbatches=1 run.model_dir=whole
! grep -q "batch statistics" out || { cat out; fail "the statistics of a whole batch are announced"; }
echo "ok"
