#!/usr/bin/env bash
# Runs each configuration in configs/: small models for a few steps, alone and with each small layout;
# Transformers of full size are explained, and must have the published numbers of parameters.
source "$2/tests/end_to_end/common.sh"
configs=$source_dir/configs
read -ra data <<< "$(mnist_data)"
read -ra small_layouts <<< "$(cd "$configs/layouts" && echo [a-z]*.yaml)"
touch used

# use FILE...: sets `files` to the full paths of files in configs/, and records that these were run.
use() {
  local file
  for file in "$@"; do
    [ -e "$configs/$file" ] || fail "there is no $file"
    echo "$file" >> used
  done
  files=("${@/#/$configs/}")
}

run_config() {  # NAME FILE... -- ARGUMENT... : trains for a few steps, and explains
  local name=$1 written own=()
  shift
  while [ "$1" != -- ]; do own+=("$1") && shift; done
  shift
  use "${own[@]}"
  expect_exit 0 "$mtf_train" "${files[@]}" "$@" "run.model_dir=$name"
  for written in config.yaml metrics.jsonl log.txt; do
    [ -s "$name/$written" ] || fail "$name/$written is missing"
  done
  losses "$name" > "$name.losses"
  expect_exit 0 "$mtf_train" "${files[@]}" "$@" run.mode=explain "run.model_dir=$name"
  expect_text "a position alone on its device"
}

on_small_layouts() {  # TOLERANCE NAME FILE... -- ARGUMENT... : the same losses with each
  local tolerance=$1 name=$2 layout with own=()
  shift 2
  while [ "$1" != -- ]; do own+=("$1") && shift; done
  run_config "$name" "${own[@]}" "$@"
  for layout in "${small_layouts[@]}"; do
    with=$name-${layout%.yaml}
    run_config "$with" "${own[@]}" "layouts/$layout" "$@"
    expect_close "$with.losses" "$name.losses" "$tolerance"
  done
  echo "$name: as ${#small_layouts[@]} layouts"
}

steps=(train.steps=4 train.epochs=null train.log_every=1 evaluate.every=0)
for model in models/mnist.yaml models/mnist_dropout.yaml runs/quickstart.yaml; do
  on_small_layouts 1e-5 "$(basename "$model" .yaml)" "$model" -- "${steps[@]}" "${data[@]}" train.batch_size=48
done
on_small_layouts 1e-5 toy models/toy.yaml -- "${steps[@]}" train.batch_size=48

# Networks of convolutions, also split in space. Statistics of batch norm over few examples make small differences large.
tools=$source_dir/tools
idx_sources=("data.train={type: idx, images: $work/train-images, labels: $work/train-labels}"
  "evaluate.datasets.test={type: idx, images: $work/test-images, labels: $work/test-labels, metrics: [loss, accuracy]}")
in_space() {  # TOLERANCE NAME FILE LAYOUT... -- ARGUMENT... : the same losses with each layout
  local tolerance=$1 name=$2 file=$3 layout layouts=()
  shift 3
  while [ "$1" != -- ]; do layouts+=("$1") && shift; done
  run_config "$name" "$file" "$@"
  for layout in "${layouts[@]}"; do
    run_config "$name-split" "$file" "$@" mesh="b1:2;b2:2" layout="$layout"
    expect_close "$name-split.losses" "$name.losses" "$tolerance"
    rm -r "$name-split"
  done
  echo "$name: as ${#layouts[@]} layouts"
}
in_space 1e-5 mnist_conv models/mnist_conv.yaml "batch:b1" "rows:b1;cols:b2" "batch:b1;rows:b2" "rows:b1;hidden1:b2" \
  -- "${steps[@]}" "${data[@]}" train.batch_size=16 vars.hidden=32 vars.filters=4
in_space 1e-5 mnist_conv_blocks models/mnist_conv_blocks.yaml "batch:b1" "row_blocks:b1;col_blocks:b2" \
  -- "${steps[@]}" "${data[@]}" train.batch_size=16 vars.hidden=32 vars.filters=4
in_space 1e-4 cifar models/cifar.yaml "batch:b1" "batch:b1;hidden:b2" "filters:b2" \
  -- "${steps[@]}" "${idx_sources[@]}" train.batch_size=16 vars.width_1=4 vars.width_2=4 vars.width_3=8 vars.hidden=16
run_config fashion_mnist_cnn runs/fashion_mnist_cnn.yaml -- "${steps[@]}" "${data[@]}" train.batch_size=16 vars.width_1=4
"$tools/export_png.py" train-images train-labels fashion-mnist-png > exported
[ "$(cat exported)" = "400 images in fashion-mnist-png" ] || fail "export_png.py: $(cat exported)"
run_config png_folder runs/png_folder.yaml -- "${steps[@]}" train.batch_size=16 vars.width_1=4
mkdir -p imagenet && cp -r fashion-mnist-png imagenet/train && cp -r fashion-mnist-png imagenet/validation
while read -r model size arguments; do
  run_config "$model" "models/$model.yaml" -- "${steps[@]}" vars.size="$size" train.batch_size=4 train.steps=2 $arguments
done << 'END'
resnet18 32
convnext_tiny 32 vars.width_1=8 vars.width_2=8 vars.width_3=8 vars.width_4=8
vit_base 32 vars.d_model=32 vars.num_heads=2 vars.d_kv=16 vars.d_ff=64 vars.num_layers=2
conv_transformer 32 vars.d_model=32 vars.num_heads=2 vars.d_kv=16 vars.d_ff=64 vars.num_layers=2
END

# made_up_text SEED LINES: prints sentences of syllables.
made_up_text() {
  awk -v seed="$1" -v lines="$2" 'BEGIN {
    srand(seed); split("ba de ki lo mu na pe ri so tu", syllables, " ")
    for (i = 0; i < lines; i++) {
      line = ""
      for (words = 3 + int(rand() * 6); words > 0; words--) {
        for (parts = 1 + int(rand() * 3); parts > 0; parts--) line = line syllables[1 + int(rand() * 10)]
        line = line (words > 1 ? " " : ".")
      }
      print line
      if (i % 9 == 8 && blank) print ""
    }
  }' blank="${3:-0}"
}
mkdir english ende
made_up_text 1 900 1 > english/train.txt
made_up_text 2 90 1 > english/valid.txt
while read -r side seed; do
  made_up_text "$seed" 900 > "ende/train.en-de.$side"
  made_up_text "1$seed" 90 > "ende/dev.en-de.$side"
done <<< $'en 3\nde 4'

# Transformers are made small. Adafactor's steps are as large for the smallest gradients, which are mostly
# rounding errors, as for others.
text=(data.cache=cache vars.max_length=64 train.batch_size=8)
small=(data.vocabulary=bytes vars.num_heads=8 vars.d_kv=16)
on_small_layouts 1e-4 lm_tiny models/lm_base.yaml models/tiny.yaml -- "${steps[@]}" "${text[@]}" "${small[@]}" vars.data=english
on_small_layouts 1e-4 bi_tiny models/bi_base.yaml models/tiny.yaml -- "${steps[@]}" "${text[@]}" "${small[@]}" vars.data=ende
experts=("${small[@]}" vars.num_experts=8 vars.expert_hidden=64)
on_small_layouts 1e-4 lm_moe_tiny models/lm_moe.yaml models/tiny.yaml -- "${steps[@]}" "${text[@]}" "${experts[@]}" vars.data=english
on_small_layouts 1e-4 bi_moe_tiny models/bi_moe.yaml models/tiny.yaml -- "${steps[@]}" "${text[@]}" "${experts[@]}" vars.data=ende
run_config language_model_small runs/language_model_small.yaml -- "${steps[@]}" "${text[@]}" vars.data=english data.vocabulary.size=320
run_config language_model_small_moe runs/language_model_small_moe.yaml -- "${steps[@]}" "${text[@]}" vars.data=english \
  data.vocabulary.size=320
run_config masked_lm_small models/encoder_small.yaml runs/masked_lm_small.yaml -- "${steps[@]}" "${text[@]}" vars.data=english \
  vars.vocabulary_size=320
python3 "$tools/corpora/build_shuffled.py" english --train 64 --valid 16
for start in masked_lm_small null; do
  run_config shuffled_words_$start runs/shuffled_words.yaml -- "${steps[@]}" "${text[@]}" vars.data=english \
    vars.pretrained=masked_lm_small "checkpoint.init.path=$start"
done
for run in translate_ende_small translate_small_data; do
  run_config $run runs/$run.yaml -- "${steps[@]}" "${text[@]}" vars.data=ende data.vocabulary.size=320
done

explain_config() {  # TEXT FILE... -- ARGUMENT... : the explanation, without any data, holds TEXT
  local text=$1 own=()
  shift
  while [ "$1" != -- ]; do own+=("$1") && shift; done
  shift
  use "${own[@]}"
  expect_exit 0 timeout 60 "$mtf_train" "${files[@]}" "$@" run.mode=explain vars.data=none explain.tensors=false
  expect_text "$text"
}

use models/transformer_defaults.yaml models/resnet_defaults.yaml data/imagenet.yaml  # which others include

# Numbers of parameters with a vocabulary of 32,768 (the ladders of 2018 are published in billions).
while read -r parameters model; do
  explain_config " $parameters elements" "models/$model.yaml" -- data.vocabulary.size=32768
done << 'END'
109,589,504 lm_base
185,086,976 lm_w1
210,272,256 bi_base
940,160,000 lm_moe
1,896,579,072 bi_moe
386,433,024 bi_w1
386,463,744 bi_l12
738,785,280 bi_l12_w1
1,443,428,352 bi_l12_w2
2,852,714,496 bi_l12_w3
61,095,936 aiayn_base
210,272,256 aiayn_large
142,881,792 paper_lm_m1
142,881,792 paper_lm_baseline
218,379,264 paper_lm_0
369,374,208 paper_lm_1
671,364,096 paper_lm_2
1,275,343,872 paper_lm_3
2,483,303,424 paper_lm_4
4,899,222,528 paper_lm_5
155,484,160 paper_tr_m1
243,564,544 paper_tr_0
419,725,312 paper_tr_1
772,046,848 paper_tr_2
1,476,689,920 paper_tr_3
2,885,976,064 paper_tr_4
END
# Models have as many as their published weights.
explain_config " 46,702,792,704 elements" models/mixtral_8x7b.yaml -- data.vocabulary.size=32000
explain_config " 16,375,728,128 elements" models/deepseek_moe_16b.yaml -- data.vocabulary.size=102400
explain_config " 8,030,261,248 elements" models/llama3_8b.yaml -- data.vocabulary.size=128256
explain_config " 70,553,706,496 elements" models/llama3_70b.yaml -- data.vocabulary.size=128256
explain_config " 405,853,388,800 elements" models/llama3_405b.yaml -- data.vocabulary.size=128256
explain_config " 4,653,696 elements" models/lm_base.yaml models/tiny.yaml -- data.vocabulary.size=32768

# Networks of images have as many weights as their papers or torchvision's; running means and variances are not counted.
while read -r parameters model; do
  use "models/$model.yaml"
  expect_exit 0 timeout 60 "$mtf_train" "${files[@]}" run.mode=explain train.batch_size=8 explain.tensors=false
  expect_text " $parameters elements"
done << 'END'
11,689,512 resnet18
25,557,032 resnet50
61,100,840 alexnet
23,834,568 inception_v3
28,589,128 convnext_tiny
86,530,792 vit_base
END

# The layouts of Mesh TensorFlow are used; 8x8_mp has more positions than bi_base has heads.
for layout in "$configs"/layouts/[0-9]*.yaml; do
  model=bi_base
  [ "$(basename "$layout")" != 8x8_mp.yaml ] || model=paper_lm_5
  explain_config "a training step of 512 examples on mesh" "models/$model.yaml" "layouts/$(basename "$layout")" -- train.batch_size=512
done
explain_config ": 128 positions" models/paper_lm_5.yaml layouts/2x2_dp_mp.yaml -- mesh="batch:8;model:16"
explain_config ": 256 positions" models/paper_lm_5.yaml layouts/8x16_m8.yaml --

for schedule in noam constant slanted_triangular cosine wsd; do
  explain_config " 108,803,072 elements" models/lm_base.yaml "schedules/$schedule.yaml" --
done
explain_config " 209,485,824 elements" models/bi_base.yaml data/ende.yaml --
explain_config " 108,803,072 elements" models/lm_base.yaml data/english.yaml --
explain_config " 109,589,504 elements" models/lm_base.yaml data/lm1b.yaml --
explain_config " 109,589,504 elements" models/lm_base.yaml data/lm1b_untok.yaml -- data.vocabulary.size=32768
explain_config " 109,589,504 elements" models/lm_base.yaml data/t2t_lm1b.yaml -- data.vocabulary.size=32768
explain_config " 210,272,256 elements" models/bi_base.yaml data/t2t_ende.yaml -- data.vocabulary.size=32768
explain_config " 210,272,256 elements" models/bi_base.yaml data/t2t_enfr.yaml -- data.vocabulary.size=32768

# Hardware, as a file on the command line; hardware_test.sh names it instead.
for hardware in "$configs"/hardware/*.yaml; do
  explain_config "predicted on" models/paper_lm_5.yaml layouts/2x2_dp_mp.yaml "hardware/$(basename "$hardware")" --
done

(cd "$configs" && find . -name '*.yaml' -printf '%P\n') | sort > all
sort -u used > ran
diff ran all || fail "these files of configs/ are not run by this test"
echo "$(wc -l < all) configurations"
