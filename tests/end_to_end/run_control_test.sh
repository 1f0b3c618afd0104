#!/usr/bin/env bash
# Tests how a run ends, resumes and fails: limits and patience, signals, values that are not finite, changed
# configurations, a full disk, directories that cannot be written. The last good checkpoint always remains.
source "$2/tests/end_to_end/common.sh"
read -ra data <<< "$(mnist_data)"
toy=("$mtf_train" "$source_dir/configs/models/toy.yaml" train.log_every=1)
mnist=("$mtf_train" "$source_dir/configs/models/mnist.yaml" "${data[@]}" vars.hidden=64 train.batch_size=40 learning_rate=null)

last_step() { ls "$1/checkpoints" | tail -n 1; }
steps_once() { cmp <(seq "$2") <(sed 's/.*"step":\([0-9]*\),.*/\1/' "$1/metrics.jsonl") > /dev/null || fail "$1 does not have each step once"; }

# --- Limits: the first one that is reached ends the run, and more steps continue it.
expect_exit 0 "${toy[@]}" train.steps=5 run.model_dir=limits
expect_text "finished after train.steps = 5: 5 steps"
expect_exit 0 "${toy[@]}" train.steps=5 run.model_dir=limits
expect_text "nothing is left to do after train.steps = 5"
expect_exit 0 "${toy[@]}" train.steps=9 run.model_dir=limits
expect_text "continues after step 5 of limits"
steps_once limits 9
expect_exit 2 "${toy[@]}" train.steps=7 run.model_dir=limits
expect_text '`train.steps` was 9 in the run that is continued and is now 7'
expect_exit 2 "${toy[@]}" train.steps=12 run.on_existing=fail run.model_dir=limits
expect_text "limits holds a run already"

# A directory of checkpoints may be there before the run, also on another disk; a link must lead somewhere.
mkdir prepared scratch
ln -s "$work/scratch" prepared/checkpoints
expect_exit 0 "${toy[@]}" train.steps=5 run.model_dir=prepared
[ -d scratch/step-00000005 ] || fail "the checkpoint is not where the link leads"
rm prepared/config.yaml
expect_exit 2 "${toy[@]}" train.steps=5 run.model_dir=prepared
expect_text "prepared holds metrics.jsonl but no config.yaml"
ln -s "$work/absent" unmounted
expect_exit 2 "${toy[@]}" train.steps=5 run.model_dir=unmounted
expect_text "unmounted is a link to $work/absent, which is not there"

# Patience: with a learning rate of 0 nothing improves after the first evaluation.
expect_exit 0 "${mnist[@]}" optimizer=sgd learning_rate=0.0 evaluate.every=2 run.model_dir=patience \
  "train.patience={metric: test/loss, evaluations: 3}"
expect_text "finished after train.patience: 3 evaluations in a row without a better test/loss"
[ "$(wc -l < patience/evaluate.jsonl)" = 4 ] || fail "patience did not end after 1 + 3 evaluations"
# Another metric has a best value of its own.
cp -r patience measured
expect_exit 0 "$mtf_train" measured/config.yaml train.patience.metric=test/accuracy
expect_text '`train.patience.metric` was test/loss and is now test/accuracy'
[ "$(wc -l < measured/evaluate.jsonl)" = 8 ] || fail "the best value of another metric counts"
expect_exit 2 "${mnist[@]}" "train.patience={metric: test/los}" run.model_dir=none
expect_text 'did you mean `test/loss`?'

# --- The right checkpoints are kept.
expect_exit 0 "${mnist[@]}" train.epochs=null train.steps=23 checkpoint.every=2 checkpoint.keep_last=2 checkpoint.keep_every=8 run.model_dir=kept
[ "$(ls kept/checkpoints | tr -d '\n')" = step-00000008step-00000016step-00000022step-00000023 ] || fail "kept: $(ls kept/checkpoints)"
expect_exit 0 "${mnist[@]}" train.epochs=null train.steps=30 evaluate.every=5 checkpoint.every=1000 checkpoint.keep_last=1 \
  "checkpoint.keep_best={metric: test/loss, count: 2}" run.model_dir=best
best=$(sed 's/.*"step":\([0-9]*\).*"loss":\([^,]*\),.*/\2 \1/' best/evaluate.jsonl | sort -g | head -n 1 | cut -d' ' -f2)
[ -e "$(printf 'best/checkpoints/step-%08d' "$best")" ] || fail "the best checkpoint, of step $best, was not kept"
"$mtf_train" best/config.yaml run.mode=evaluate evaluate.checkpoint=best > best.json 2> /dev/null
grep -q "\"step\":$best," best.json || fail "evaluate.checkpoint=best took another step"
cmp <(sed 's/,"seconds".*//' best.json) <(grep "\"step\":$best," best/evaluate.jsonl | sed 's/,"seconds".*//') || fail "the checkpoint gives other metrics"
expect_exit 2 "$mtf_train" best/config.yaml run.mode=evaluate evaluate.checkpoint=7
expect_text "has no checkpoint of step 7; it has "

# --- Signals: the step is finished and saved; the run resumes exactly.
expect_exit 0 "${mnist[@]}" train.epochs=null train.steps=4000 train.log_every=1 evaluate.every=1000 run.model_dir=undisturbed
for signal in TERM:143 INT:130; do
  name=${signal%:*}
  # Bash makes background processes ignore SIGINT; env restores the default.
  env --default-signal=INT "${mnist[@]}" train.epochs=null train.steps=4000 train.log_every=1 evaluate.every=1000 run.model_dir="$name" > out 2>&1 &
  process=$!
  for ((i = 0; i < 200; i++)); do [ "$(wc -l 2> /dev/null < "$name/metrics.jsonl" || echo 0)" -ge 20 ] && break || sleep 0.02; done
  kill -"$name" $process
  code=0
  wait $process || code=$?
  [ $code -eq "${signal#*:}" ] || { cat out >&2; fail "exit code $code after SIG$name"; }
  expect_text "stopped by SIG$name"
  step=$(tail -n 1 "$name/metrics.jsonl" | sed 's/.*"step":\([0-9]*\),.*/\1/')
  [ "$(last_step "$name")" = "$(printf 'step-%08d' "$step")" ] || fail "the last step, $step, was not saved"
  expect_exit 0 "$mtf_train" "$name/config.yaml"
  expect_text "continues after step $step"
  steps_once "$name" 4000
  expect_exit 0 "$mtf_compare" undisturbed "$name"
done

# Nobody reads the progress any more, as when Ctrl-C ends `tee`, too.
mkfifo progress
head -n 1 progress > /dev/null &
reader=$!
env --default-signal=INT "${toy[@]}" train.steps=null train.time=60s run.model_dir=unread 2> progress &
process=$!
wait $reader
for ((i = 0; i < 1500; i++)); do [ "$(wc -l 2> /dev/null < unread/metrics.jsonl || echo 0)" -ge 20 ] && break || sleep 0.02; done
[ "$i" -lt 1500 ] || fail "a run without a reader does not come to step 20"
kill -INT $process
code=0
wait $process || code=$?
[ $code -eq 130 ] || fail "exit code $code without a reader"
[ "$(last_step unread)" = "$(printf 'step-%08d' "$(wc -l < unread/metrics.jsonl)")" ] || fail "not saved without a reader"
"${toy[@]}" train.steps=20 run.model_dir=short 2>&1 | true || fail "a run that nobody reads fails"

# --- Values that are not finite: exit code 3, the culprit is named, and the last good checkpoint remains.
expect_exit 0 "${toy[@]}" optimizer=sgd learning_rate=0.001 train.steps=10 checkpoint.every=5 run.model_dir=diverged
expect_exit 3 "${toy[@]}" optimizer=sgd learning_rate=1.0e30 train.steps=40 run.model_dir=diverged
expect_text "the first value that is not finite is"
expect_text "made by the operation"
expect_text " in layer "
expect_text " infinite of "
[ "$(last_step diverged)" = step-00000010 ] || fail "the last good checkpoint is gone"
expect_exit 0 "${toy[@]}" optimizer=sgd learning_rate=0.001 train.steps=40 run.model_dir=diverged
steps_once diverged 40
expect_exit 3 "${toy[@]}" optimizer=sgd learning_rate=1.0e30 train.steps=40 train.on_divergence=skip run.model_dir=skip
expect_text "the step is skipped"
expect_exit 3 "${toy[@]}" optimizer=sgd learning_rate=1.0e30 train.steps=40 train.on_divergence=restore run.model_dir=restore
expect_text "goes back to step 0, with 0.5 times the learning rate"

# --- A changed architecture is an error with both values, unless it is allowed; changes of dropout, data and
# rates are reported.
cp -r patience changes
before=$(find changes -type f -exec md5sum {} + | sort)
expect_exit 2 "$mtf_train" changes/config.yaml train.batch_size=20 run.seed=7 model.layers.layer_1.output.hidden=32
expect_text '`model.layers.0.dense.output.hidden` was 64 and is now 32'
expect_text '`train.batch_size` was 40 and is now 20'
expect_text '`run.seed` was 1 and is now 7'
expect_text "run.allow_change"
[ "$before" = "$(find changes -type f -exec md5sum {} + | sort)" ] || fail "a refused run has written something"
expect_exit 0 "$mtf_train" changes/config.yaml train.batch_size=20 run.allow_change=train.batch_size learning_rate=0.01 train.patience=null train.epochs=2
expect_text '`learning_rate` was [0] and is now [0.01]'
! grep -q "count in the new data too" out || fail "a run whose data is the same is told of new data"
expect_text '`train.batch_size` was 40 and is now 20'
[ -e changes/config.step-8.yaml ] || fail "the old configuration was not kept"
cp train-images other-images
expect_exit 0 "$mtf_train" changes/config.yaml data.train.images=other-images
expect_text 'the examples that the run has seen count in the new data too'

# A batch size that depends on the layout stays what it was.
replicas=("${toy[@]}" mesh=all:2 layout=batch:all run.model_dir=replicas)
expect_exit 0 "${replicas[@]}" train.steps=2 train.batch_size.per_replica=2
expect_exit 0 "${replicas[@]}" train.steps=3 train.batch_size.per_replica=8
expect_text '`train.batch_size` stays 4, with which the run began: what is given now makes 16'

# The same with a change in the run's own config.yaml, which then differs from what the checkpoint was trained
# with.
cp -r limits edited
sed -i '0,/seed: 1$/s//seed: 7/; s/batch_size: 64/batch_size: 32/' edited/config.yaml
before=$(find edited -type f -exec md5sum {} + | sort)
expect_exit 2 "$mtf_train" edited/config.yaml train.steps=12
expect_text '`run.seed` was 1 and is now 7, which a run that continues in edited cannot change'
expect_text '`train.batch_size` was 64 and is now 32'
[ "$before" = "$(find edited -type f -exec md5sum {} + | sort)" ] || fail "a refused run has written something"
expect_exit 0 "$mtf_train" edited/config.yaml train.steps=12 "run.allow_change=[run.seed, train.batch_size]"
cmp edited/config.step-9.yaml limits/config.yaml || fail "the configuration of the first steps was not kept"

# --- What a checkpoint lacks: slots of weights that are trained from now on, running means, slots of another optimizer.
expect_exit 0 "${toy[@]}" optimizer=momentum "train.trainable=[layer_1]" train.steps=5 run.model_dir=thawed
expect_exit 0 "${toy[@]}" optimizer=momentum train.steps=9 run.model_dir=thawed
expect_text "not in the checkpoint, so with initial values: layer_2/"
loss_of_means() { tail -n 1 means/evaluate.jsonl | sed 's/.*"loss":\([0-9.e-]*\).*/\1/'; }
expect_exit 0 "${mnist[@]}" train.epochs=null train.steps=5 optimizer=sgd learning_rate=0.1 run.model_dir=means
before=$(loss_of_means)
expect_exit 0 "${mnist[@]}" train.epochs=null train.steps=6 optimizer=momentum learning_rate=0.0 train.ema_decay=0.99 \
  run.allow_change=optimizer.type run.model_dir=means
[ "$(loss_of_means)" = "$before" ] || fail "running means do not begin at the weights: $before, $(loss_of_means)"
expect_exit 3 "${mnist[@]}" train.epochs=null train.steps=40 optimizer=adam learning_rate=1.0e30 train.ema_decay=0.99 \
  run.allow_change=optimizer.type train.on_divergence=restore run.model_dir=means
expect_text "goes back to step 6, with 0.5 times the learning rate"

# --- A damaged newest checkpoint: the run ends, or resumes from the previous one and loses nothing.
expect_exit 0 "${toy[@]}" train.steps=30 checkpoint.every=10 run.model_dir=undamaged
expect_exit 0 "${toy[@]}" train.steps=20 checkpoint.every=10 run.model_dir=damaged
truncate -s -4 damaged/checkpoints/step-00000020/weights.safetensors
printf 'lost' >> damaged/checkpoints/step-00000020/weights.safetensors
expect_exit 1 "${toy[@]}" train.steps=30 checkpoint.every=10 run.model_dir=damaged
expect_text '`checkpoint.on_damage=previous`, which goes on from step 10'
expect_exit 0 "${toy[@]}" train.steps=30 checkpoint.every=10 run.model_dir=damaged checkpoint.on_damage=previous
expect_text "warning: the checkpoint of step 20 is damaged and set aside as damaged/checkpoints/damaged-step-00000020: "
expect_text "continues after step 10"
steps_once damaged 30
expect_exit 0 "$mtf_compare" --tensors undamaged damaged
truncate -s 9 damaged/checkpoints/step-000000{10,20,30}/manifest.json
expect_exit 1 "${toy[@]}" train.steps=40 run.model_dir=damaged checkpoint.on_damage=previous
expect_text "step-00000010/manifest.json: it does not end with its checksum"

# --- A run starts from the weights of another run, some of which have other names.
expect_exit 0 "${mnist[@]}" train.epochs=null train.steps=1 checkpoint.init.path=kept "checkpoint.init.exclude=[layer_2]" run.model_dir=init
expect_text "2 of 4 variables start from kept/checkpoints/step-00000023"
expect_exit 2 "${mnist[@]}" train.epochs=null train.steps=1 checkpoint.init.path=kept "checkpoint.init.exclude=[layer_7]" run.model_dir=none
expect_text '`checkpoint.init.exclude`: no variable matches `layer_7`'
[ ! -e none/checkpoints ] || fail "a mistake in checkpoint.init.exclude leaves checkpoints"
expect_exit 0 "${mnist[@]}" train.epochs=null train.steps=1 checkpoint.init.path=kept/checkpoints/step-00000008/weights.safetensors \
  model.layers.layer_1.name=first "checkpoint.init.rename={layer_1: first}" run.model_dir=renamed
expect_text "4 of 4 variables start from"
expect_exit 2 "${mnist[@]}" train.epochs=null train.steps=1 checkpoint.init.path=kept "checkpoint.init.rename={layer_: lay_}" run.model_dir=shapes
expect_text "lacks 4 of the model's variables"
expect_exit 2 "${mnist[@]}" train.epochs=null train.steps=1 checkpoint.init.path=kept "checkpoint.init.rename={layre: x}" run.model_dir=shapes
expect_text '`checkpoint.init.rename`: no variable matches `layre`'
expect_exit 1 "${mnist[@]}" train.epochs=null train.steps=1 checkpoint.init.path=kept vars.hidden=32 run.model_dir=shapes
expect_text 'variable `layer_1/bias` is float32 [hidden=64], and the model has float32 [hidden=32]'

# --- Failing disks: one line, exit code 1, the last good checkpoint unchanged, and no partial files.
expect_exit 0 "${mnist[@]}" train.epochs=null train.steps=10 run.model_dir=disk
for fault in checkpoint.write=ENOSPC checkpoint.create=EROFS checkpoint.manifest=EIO; do
  expect_exit 1 env MTF_FAULT=$fault "${mnist[@]}" train.epochs=null train.steps=20 run.model_dir=disk
  [ "$(ls -A disk/checkpoints)" = step-00000010 ] || fail "$fault left $(ls -A disk/checkpoints)"
done
expect_text "Input/output error"
(ulimit -f 100; trap '' XFSZ; expect_exit 1 "${mnist[@]}" train.epochs=null train.steps=20 run.model_dir=disk; expect_text "File too large")
[ "$(ls -A disk/checkpoints)" = step-00000010 ] || fail "a file that was too large left $(ls -A disk/checkpoints)"
expect_exit 0 "${mnist[@]}" train.epochs=null train.steps=20 run.model_dir=disk
expect_exit 1 "${mnist[@]}" run.model_dir=/proc/mtf-train
expect_text "/proc/mtf-train: cannot be created"
mv train-images elsewhere
expect_exit 2 "$mtf_train" disk/config.yaml train.steps=30
expect_text "train-images"
mv elsewhere train-images

# --- A directory that is renamed or removed ends the run at its next log line; nothing is written in its
# place.
running() { "${mnist[@]}" train.epochs=null train.time=1h train.log_every=1 checkpoint.every=5 run.model_dir="$1" > out 2>&1 & process=$!
  for ((i = 0; i < 200; i++)); do [ -d "$1/checkpoints/step-00000005" ] && break || sleep 0.02; done; }
ends_with_1() { code=0; wait $process || code=$?; [ $code -eq 1 ] || { cat out >&2; fail "exit code $code without a directory"; }; }
running lost
mv lost found
ends_with_1
expect_text "lost was renamed to $(realpath found) while the run was writing into it; give it its name back"
grep -q "was renamed to" found/log.txt || fail "the log does not say how the run ended"
[ ! -e lost ] || fail "a directory came back: $(ls -A lost)"
mv found lost
expect_exit 0 "$mtf_train" lost/config.yaml train.time=null train.steps=$(($(tail -n 1 lost/metrics.jsonl | sed 's/.*"step":\([0-9]*\),.*/\1/') + 5))
running gone
kill -STOP $process  # it may be about to write, and its threads do not stop at once
for ((i = 0; i < 50; i++)); do rm -rf gone 2> /dev/null && break || sleep 0.02; done
kill -CONT $process
ends_with_1
expect_text "gone was removed while the run was writing into it"
[ ! -e gone ] || fail "a directory came back: $(ls -A gone)"

# --- Links in place of files that a run modifies are not followed.
cp -r limits linked
echo precious > precious
ln -sf ../precious linked/metrics.jsonl
expect_exit 2 "${toy[@]}" train.steps=12 run.model_dir=linked
expect_text "linked/metrics.jsonl is a symbolic link (to ../precious)"
[ "$(cat precious)" = precious ] || fail "a run has written through a link"

# --- Two processes in one directory.
"${mnist[@]}" train.epochs=null train.time=1h train.log_every=1 run.model_dir=shared > /dev/null 2>&1 &
process=$!
for ((i = 0; i < 200; i++)); do [ -s shared/metrics.jsonl ] && break || sleep 0.02; done
expect_exit 1 "${mnist[@]}" train.epochs=null train.steps=5 run.model_dir=shared
expect_text "another process is training in shared"
kill -TERM $process
wait $process || true
expect_exit 0 env MTF_FAULT=directory.lock=EINVAL "${mnist[@]}" train.epochs=null train.steps=5 run.model_dir=unlocked
expect_text "unlocked: its file system has no locks (Invalid argument)"
grep -q "its file system has no locks" unlocked/log.txt || fail "the log lacks the warning about locks"

# A process that starts while another one ends goes on from the checkpoint with which that one ends.
"${mnist[@]}" train.epochs=null train.time=1h train.log_every=1 run.model_dir=handed > /dev/null 2>&1 &
process=$!
for ((i = 0; i < 200; i++)); do [ -s handed/metrics.jsonl ] && break || sleep 0.02; done
"${mnist[@]}" train.epochs=null train.steps=100000 train.time=1s train.log_every=1 run.model_dir=handed > next.out 2>&1 &
next=$!
sleep 0.3
kill -TERM $process
wait $process || true
saved=$(last_step handed)
wait $next || fail "$(cat next.out)"
grep -q "continues after step $((10#${saved#step-})) of handed" next.out || fail "not from $saved: $(cat next.out)"
