#!/usr/bin/env bash
# Tests training with a teacher: the losses are the same on every layout, with microbatches, over processes and after
# a restart; checkpoints do not hold the teacher, explain shows it; a classifier and a translation model learn so.
source "$2/tests/end_to_end/common.sh"
use_python

# ---- Translation: sentences backwards ----
backward_sentences
{
  backward_translator 16 4 32
  cat << 'YAML'
  dropout: 0.1
train: {steps: 40, batch_size: 16, log_every: 1}
checkpoint: {every: 20, keep_last: 3}
optimizer: {type: adam, epsilon: 1e-5}
learning_rate: 0.002
YAML
} > student.yaml
cat > teacher.yaml << 'YAML'
include: student.yaml
model:
  d_model: 32
  layer_defaults: {DenseReluDense: {hidden_size: 64}}
  encoder: {num_layers: 2}
YAML
expect_exit 0 "$mtf_train" teacher.yaml run.model_dir=teacher train.steps=100 train.ema_decay=0.9 checkpoint.every=100
cat > distilled.yaml << 'YAML'
include: student.yaml
data: {vocabulary: {type: sentencepiece, path: teacher/vocabulary.model}}
distill: {checkpoint: teacher, weight: 0.6, temperature: 2, start_step: 5}
YAML
expect_exit 0 "$mtf_train" distilled.yaml run.model_dir=one
expect_text "the teacher is teacher/checkpoints/step-00000100"
losses one > one.losses
grep -q '"report/soft_loss"' one/metrics.jsonl || fail "the log does not have the loss against the teacher"
grep -q '"report/hard_loss"' one/metrics.jsonl || fail "the log does not have the loss against the data"
! grep -q '"teacher/' one/checkpoints/step-00000040/manifest.json || fail "the checkpoint holds the teacher"
expect_exit 0 "$mtf_train" student.yaml run.model_dir=alone data.vocabulary.path=teacher/vocabulary.model
losses alone > alone.losses
cmp -s <(head -n 5 one.losses) <(head -n 5 alone.losses) || fail "the teacher counts before start_step"
! cmp -s <(tail -n 5 one.losses) <(tail -n 5 alone.losses) || fail "the teacher does not count"

# The formula, from the parts of the log.
"$python" - << 'END'
import json
lines = [json.loads(line) for line in open("one/metrics.jsonl")]
steps = [line for line in lines if "report/soft_loss" in line]
assert len(steps) == 40, len(steps)
for line in steps:
    weight = 0.6 if line["step"] > 5 else 0
    expected = (1 - weight) * line["report/hard_loss"] + 4 * weight * line["report/soft_loss"]
    assert abs(line["loss"] - expected) < 2e-5 * abs(expected), line
END

declare -A layouts=(
  [data]="mesh=x:2 layout=batch:x"
  [model]="mesh=y:2 layout=heads:y;d_ff:y;vocab:y"
  [square]="mesh=x:2;y:2 layout=batch:x;heads:y;d_ff:y;vocab:y"
  [eight]="mesh=x:8 layout=batch:x parameter_layout=d_model:x"
  [own]="mesh=x:2 layout=batch:x distill.layout=heads:x;d_ff:x;vocab:x"
  [other]="mesh=x:2;y:2 layout=heads:y;d_ff:y;vocab:y distill.layout=batch:y distill.parameter_layout=d_ff:x"
  [parts_own]="mesh=x:2 layout=batch:x distill.layout=heads:x;d_ff:x;vocab:x train.microbatches=2"
  [parts]="train.microbatches=2 train.recompute=block")
expect_losses_of_one distilled.yaml 1e-4 20
expect_exit 0 "$mtf_train" distilled.yaml run.model_dir=moved mesh="x:2;y:2" layout="batch:x;heads:y;d_ff:y;vocab:y"
losses moved > moved.losses
expect_close moved.losses one.losses 1e-4

# The student is a model like any other.
expect_exit 0 "$mtf_train" one/config.yaml run.mode=infer infer.input=test.in
expect_exit 0 "$mtf_train" one/config.yaml run.mode=score score.inputs=test.in score.targets=test.out
expect_exit 0 "$mtf_train" distilled.yaml run.mode=explain mesh=y:2 layout="heads:y;d_ff:y;vocab:y"
expect_text "teacher weights"
expect_text "teacher/encoder/block_001/layer_001/DenseReluDense/wi/kernel"

# Weights from a file, with the configuration beside it.
"$(dirname "$mtf_train")/mtf-convert" teacher teacher.safetensors --all > /dev/null
expect_exit 0 "$mtf_train" distilled.yaml run.model_dir=of_file distill.checkpoint=teacher.safetensors distill.config=teacher.yaml
losses of_file > of_file.losses
cmp -s of_file.losses one.losses || fail "other losses with the teacher's weights in a file"

# Sequence-level distillation: the student learns the teacher's translations of its training texts.
expect_exit 0 "$mtf_train" teacher/config.yaml run.mode=infer infer.input=train.in infer.output=train.teacher
expect_exit 0 "$mtf_train" student.yaml run.model_dir=sequences data.train.targets=train.teacher data.vocabulary.path=teacher/vocabulary.model
[ "$(wc -l < train.teacher)" = 600 ] || fail "the teacher's texts are not as many as the lines"

# ---- A classifier ----
read -ra data <<< "$(mnist_data)"
images=("${data[@]}" train.epochs=null train.steps=30 train.batch_size=40 train.log_every=1 "optimizer=adam" learning_rate=0.001)
expect_exit 0 "$mtf_train" "$source_dir/configs/models/mnist.yaml" "${images[@]}" run.model_dir=wide
student=("$mtf_train" "$source_dir/configs/models/mnist_dropout.yaml" "${images[@]}" vars.hidden=16
  "distill={checkpoint: wide, weight: 0.7, temperature: 3}")
expect_exit 0 "${student[@]}" run.model_dir=narrow
losses narrow > narrow.losses
expect_exit 0 "${student[@]}" run.model_dir=split "mesh=rows:2;cols:2" "layout=batch:rows;hidden:cols"
losses split > split.losses
expect_close split.losses narrow.losses 1e-4

# ---- Refusals ----
refused() {
  expect_exit 2 "$mtf_train" distilled.yaml run.model_dir=refused "${@:2}"
  expect_text "$1"
  [ ! -e refused/checkpoints ] || fail "a refused run has begun"
}
refused "there is no nowhere" distill.checkpoint=nowhere
refused "\`x\` has the stages of a pipeline, and cannot split \`heads\`" mesh=x:2 layout=layers:x train.microbatches=2 distill.layout=heads:x
refused "was trained with another vocabulary, so its ids mean other tokens" data.vocabulary=bytes
refused "the teacher reads feature \`image\`, which the data do not have" distill.checkpoint=wide
refused "unknown key \`distill.weigth\`" distill.weigth=0.5
refused "\`distill.weight\` must be from 0 to 1, not 1.5" distill.weight=1.5
echo "ok"
