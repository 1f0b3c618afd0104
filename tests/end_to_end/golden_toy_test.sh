#!/usr/bin/env bash
# Tests run.mode=trace on unchanged recorded files of Mesh TensorFlow: the output has their keys, and the
# losses are the same on every layout. (tests/trainer/golden_toy_test.cc compares the values.)
source "$2/tests/end_to_end/common.sh"

trace() {  # OUTPUT CASE ARGUMENT...
  local output=$1 case=$2
  shift 2
  expect_exit 0 "$mtf_train" "$source_dir/configs/models/toy.yaml" vars.io_size=6 vars.hidden_size=12 run.mode=trace \
    "trace.input=$source_dir/tests/golden/$case/tensors.safetensors" "trace.output=$output" trace.steps=20 "$@"
  for key in loss output/y output/logits grad/layer_1/kernel grad/layer_2/kernel trajectory/loss \
    final_weight/layer_1/kernel final_weight/layer_2/kernel; do
    grep -aqF "\"$key\"" "$output" || fail "$output lacks $key"
  done
}

trace sgd 02_toy_sgd learning_rate=0.05
trace sgd_again 02_toy_sgd learning_rate=0.05 run.threads=3
cmp sgd sgd_again || fail "the same trace gives other bits"
trace sgd_mesh 02_toy_sgd learning_rate=0.05 "mesh=x:2;y:2" "layout=batch:x;hidden_odd:y"
trace adafactor 02_toy_adafactor optimizer=adafactor learning_rate=null
trace tensors 02_toy_sgd learning_rate=0.05 "trace.tensors=[layer_1]"
grep -aqF '"tensor/layer_1/' tensors || fail "trace.tensors gave nothing"
[ ! -e runs ] || fail "a trace has made a run"

expect_exit 1 "$mtf_train" "$source_dir/configs/models/toy.yaml" run.mode=trace trace.output=wrong \
  "trace.input=$source_dir/tests/golden/02_toy_sgd/tensors.safetensors"
expect_text "input/x"

# The sizes of images are those of the batch, and no file of data.train is read. The logits of black images
# are 0.
cat > images.yaml <<< 'data: {train: {type: idx, images: absent, labels: absent}}
model: {type: classifier, input: image, layers: [{dense: {output: {classes: 10}}}]}
train: {steps: 1, batch_size: 2}'
safetensors '{"input/image":{"dtype":"F32","shape":[2,5,4],"data_offsets":[0,160]},"input/labels":{"dtype":"I32","shape":[2],"data_offsets":[160,168]}}' 168 > black
expect_exit 0 "$mtf_train" images.yaml run.mode=trace trace.input=black trace.output=of_black
grep -aqF '"grad/dense/kernel":{"data_offsets":[40,840],"dtype":"F32","shape":[5,4,10]}' of_black || fail "the trace of images lacks the gradient of its kernel"
