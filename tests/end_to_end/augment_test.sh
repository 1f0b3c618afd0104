#!/usr/bin/env bash
# Tests runs on augmented images: the same on several processes, and shown as a picture.
source "$2/tests/end_to_end/common.sh"
cd "$work"

make_small_idx
cat > run.yaml <<'YAML'
data:
  train: {type: idx, images: images, labels: labels}
  augment: [flip, {random_resized_crop: [8, 6]}, {rotate: 20}, {mixup: {alpha: 0.5, probability: 0.5}}, cutmix,
            {normalize: {mean: 0.4, deviation: 0.2}}]
model: {type: classifier, layers: [{dense: {output: {hidden: 16}, activation: tanh}}, {dense: {output: {classes: 6}}}]}
optimizer: adam
learning_rate: 0.01
train: {steps: 15, batch_size: 16, log_every: 1}
YAML

same() {
  "$(dirname "$mtf_train")/mtf-compare" "$@" > out || { cat out; fail "another result: $*"; }
}
launch="$(dirname "$mtf_train")/mtf-launch"
for layout in 'batch:a' 'batch:a;rows:b' 'rows:a;cols:b'; do
  rm -rf one two four
  "$mtf_train" run.yaml mesh='a:2;b:2' layout="$layout" run.model_dir=one > log 2>&1 || { cat log; fail "one process"; }
  "$launch" -n 2 -- "$mtf_train" run.yaml mesh='a:2;b:2' layout="$layout" run.model_dir=two > log 2>&1 ||
    { cat log; fail "two processes"; }
  "$launch" -n 4 -- "$mtf_train" run.yaml mesh='a:2;b:2' layout="$layout" run.model_dir=four > log 2>&1 ||
    { cat log; fail "four processes"; }
  same one two
  same one four
done

"$mtf_train" run.yaml run.mode=show data.show=5 > out || fail "run.mode=show"
[ "$(cat out)" = "show.png, in the working directory: the first 5 training examples, 8 x 6" ] || fail "$(cat out)"
[ "$(head -c 4 show.png | tail -c 3)" = PNG ] || fail "show.png is no PNG file"
[ ! -e runs ] || fail "run.mode=show makes the directory of a run"
echo "augment_test: passed"
