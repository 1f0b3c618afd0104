#!/usr/bin/env bash
# Tests help and lists, and that errors of the command line give one clear message and exit code 2 and write
# nothing.
source "$2/tests/end_to_end/common.sh"

expect_exit 0 "$mtf_train" --help
expect_text "usage: mtf-train FILE.yaml... [key=value...]"
[ "$(wc -l < out)" -le 45 ] || fail "--help is longer than a screen"
expect_exit 0 "$mtf_train" --version
expect_text "mtf-train "
# Output that is the result: it ends with its reader, silently; it is missed where it cannot be written.
exec 3> >(true)
wait $!
programs=$(printf %q "$(dirname "$mtf_train")")
for command in "mtf-train --help" "mtf-train --help-config" "mtf-launch --help" "mtf-launch -n 2 -- echo 1" \
  "mtf-convert --help" "mtf-vocab --help" "mtf-train $(printf %q "$source_dir/configs/models/toy.yaml") run.mode=explain"; do
  expect_exit 141 eval "$programs/$command >&3"
  [ ! -s out ] || { cat out >&2; fail "$command says something when nobody reads"; }
  expect_exit 1 eval "$programs/$command >&-"
  expect_text "cannot write standard output: Bad file descriptor"
done
exec 3>&-
expect_exit 0 "$mtf_train" --help-config
for section in run mesh layout precision data model optimizer learning_rate train evaluate explain trace; do
  expect_text "$section:"
done
for section in run train train.batch_size optimizer learning_rate data evaluate model; do
  expect_exit 0 "$mtf_train" --help-config $section
done
for section in optimizer.adamw learning_rate.cosine model.lm data.train.text; do
  expect_exit 0 "$mtf_train" --help-config $section
  grep -q "^type: ${section##*.}\$" out || fail "--help-config $section does not print the type: $(head -3 out)"
done
expect_exit 0 "$mtf_train" --help-config data.train.path
! grep -qE "\b(cifar|jsonl)\b.*\b\1\b" out || fail "--help-config data.train.path repeats the name of a type"
expect_exit 0 "$mtf_train" --help-config=run
expect_text "run:"
expect_exit 0 "$mtf_train" --help-config model.layers.dense
[ "$("$mtf_train" --list-layers dense)" = "$(cat out)" ] || fail "--help-config model.layers.dense prints something else"
expect_exit 2 "$mtf_train" --help-config trian
expect_text "train"
expect_exit 0 "$mtf_train" --list-layers
for layer in dense activation dropout layer_norm repeat residual branches save concat add block; do
  grep -q "^$layer\$" out || fail "--list-layers does not have $layer"
done
expect_exit 0 "$mtf_train" --list-layers dropout
grep -q '^dropout$' out && ! grep -q '^dense$' out || fail "--list-layers dropout shows others"
expect_exit 2 "$mtf_train" --list-layers ffn
expect_text 'did you mean `DenseReluDense`?'
expect_exit 2 "$mtf_train" --list-layers dense dropout
expect_text '`dropout` stands beside `--list-layers dense`'
expect_exit 2 "$mtf_train" ""
expect_text 'word 1 of the command line is empty'
expect_exit 0 "$mtf_train" --help-config model
for type in classifier regression lm delimited_lm aligned bitransformer; do
  [ "$(grep -c "^type: $type\$" out)" -eq 1 ] || fail "--help-config model does not name type $type once"
done
expect_exit 0 "$mtf_train" --help-config data
for type in idx text parallel tsv jsonl tfrecord sentencepiece t2t; do
  [ "$(grep -c "# type: $type\$" out)" -eq 1 ] || fail "--help-config data does not print type $type once"
done

toy=$source_dir/configs/models/toy.yaml
expect_exit 2 "$mtf_train"
expect_exit 2 "$mtf_train" --hlp
expect_text "--help"
expect_exit 2 "$mtf_train" missing.yaml
expect_exit 2 "$mtf_train" "$toy" train.stepz=5
expect_text "argument 2"
expect_text "steps"
expect_exit 2 "$mtf_train" "$toy" "mesh=all:3" "layout=hidden_odd:all"
expect_text "hidden_odd"
expect_exit 2 "$mtf_train" "$toy" "mesh=all:2" "layout=hidden_odd:al"
expect_text "al"
printf 'train: {steps: 5, batch_size: -2}\noptimzer: sgd\n' > bad.yaml
expect_exit 2 "$mtf_train" "$toy" bad.yaml
expect_text "bad.yaml:1:"
expect_text "bad.yaml:2:1:"
expect_text "optimizer"
# A path may have a `=`; what begins with a key is key=value, whatever lies there.
mkdir -p "runs.of/rate=0.1" "mesh=all:2"
cp "$toy" "runs.of/rate=0.1/toy.yaml"
expect_exit 0 "$mtf_train" "runs.of/rate=0.1/toy.yaml" mesh=all:2 layout=batch:all train.steps=1 run.mode=explain
expect_text "mesh"
rm -r runs.of "mesh=all:2"
expect_exit 2 "$mtf_train" "$toy" run.mode=infer
expect_text "there is no directory runs/toy"
[ ! -e runs ] || fail "a run with mistakes has written something"

expect_exit 2 "$mtf_train" "$source_dir/configs/models/mnist.yaml" data.train.images=missing-images
expect_text "missing-images"
[ ! -e runs ] || fail "a run without data has written something"
