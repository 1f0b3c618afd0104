#!/usr/bin/env bash
# Tests mtf-convert: T5, Marian, BART, mBART, NLLB, BERT, language models and image networks in Hugging Face format are imported, evaluated and exported again;
# checkpoints are converted to a file and back, also in the middle of a training; errors.
source "$2/tests/end_to_end/common.sh"
use_python
mtf_convert=$(dirname "$mtf_train")/mtf-convert
mtf_vocab=$(dirname "$mtf_train")/mtf-vocab
check="$python $source_dir/tests/end_to_end/check_t5.py"
lengths="data.sequence_length={inputs: 150, targets: 140}"

# Two random models compute the same as in transformers; exported again they are unchanged.
for version in v1_0 v1_1; do
  golden=$source_dir/tests/golden/hf_t5_$version
  expect_exit 0 "$mtf_convert" "$golden" $version
  expect_text "has no spiece.model"
  expect_exit 0 "$mtf_train" $version/config.yaml run.mode=trace "trace.input=$golden/reference.safetensors" \
    trace.output=out.safetensors vars.dropout=0 "$lengths"
  $check logits "$golden/reference.safetensors" out.safetensors 1e-4 || fail "$version: other logits than transformers"
  $check precise "$golden" "$golden/reference.safetensors" out.safetensors || fail "$version: logits farther from the exact ones"
  expect_exit 0 "$mtf_convert" $version hf_$version --to hf-t5
  $check same "$golden/model.safetensors" hf_$version/model.safetensors || fail "$version: exported, the tensors are others"
  $check config "$golden/config.json" hf_$version/config.json || fail "$version: exported, config.json says something else"
  expect_exit 0 "$mtf_train" $version/config.yaml run.mode=explain
done

# A random Marian computes the same as in transformers, and translates the same texts by greedy search. Exported again it is unchanged.
golden=$source_dir/tests/golden/hf_marian
traced=(run.mode=trace "trace.input=$golden/reference.safetensors" trace.output=out.safetensors vars.dropout=0
  "data.sequence_length={inputs: 40, targets: 36}")
expect_exit 0 "$mtf_convert" "$golden" marian
for on in "x:1 batch:x" "x:2 vocab:x;heads:x" "x:2;y:2 batch:x;d_ff:y" "x:4;y:2 length:x;d_model:y"; do
  expect_exit 0 "$mtf_train" marian/config.yaml "${traced[@]}" mesh="${on%% *}" layout="${on#* }"
  $check causal_lm "$golden/reference.safetensors" out.safetensors 2e-5 || fail "Marian: other logits than transformers with ${on#* }"
done
expect_exit 0 "$mtf_train" marian/config.yaml run.mode=infer infer.input="$golden/inputs.txt" infer.output=translations infer.method=greedy \
  infer.no_repeat_ngram_size=2 infer.max_length=13
sed 's/ *⁇ *//g' translations | cmp - "$golden/outputs.txt" || fail "Marian: other texts than transformers"
expect_exit 0 "$mtf_train" marian/config.yaml data.train.inputs="$golden/inputs.txt" data.train.targets="$golden/inputs.txt" \
  data.sequence_length=32 train.steps=2 train.batch_size=4 run.model_dir=marian_trained mesh="x:2;y:2" layout="batch:x;d_ff:y;vocab:y"
expect_exit 0 "$mtf_convert" marian marian.safetensors
expect_exit 0 "$mtf_convert" marian.safetensors marian_again
for from in marian marian_again marian_trained; do
  expect_exit 0 "$mtf_convert" $from hf_$from --to hf-marian
  for file in source.spm target.spm vocab.json tokenizer_config.json; do
    cmp "$golden/$file" hf_$from/$file || fail "Marian: $file is another one"
  done
  $check config "$golden/config.json" hf_$from/config.json || fail "Marian: exported, config.json says something else"
done
$check same "$golden/model.safetensors" hf_marian/model.safetensors || fail "Marian: exported, the tensors are others"
$check same "$golden/model.safetensors" hf_marian_again/model.safetensors || fail "Marian: through a file, the tensors are others"
! $check same hf_marian/model.safetensors hf_marian_trained/model.safetensors > same.log || fail "Marian: training changes nothing"

# A random BART, mBART and NLLB compute the same as in transformers and write the same texts, whose first token the decoder is given.
# Exported again they are unchanged, and the languages of a run may be others when it writes.
for kind in bart mbart nllb; do
  golden=$source_dir/tests/golden/hf_$kind
  expect_exit 0 "$mtf_convert" "$golden" $kind
  for on in "x:1 batch:x" "x:2;y:2 batch:x;heads:y;d_ff:y;vocab:y"; do
    expect_exit 0 "$mtf_train" $kind/config.yaml run.mode=trace "trace.input=$golden/reference.safetensors" trace.output=out.safetensors \
      vars.dropout=0 vars.attention_dropout=0 "data.sequence_length={inputs: 40, targets: 36}" mesh="${on%% *}" layout="${on#* }"
    $check causal_lm "$golden/reference.safetensors" out.safetensors 2e-5 || fail "$kind: other logits than transformers with ${on#* }"
  done
  # A BART and an mBART force the end, at max_length; here it is forced of NLLB, too.
  [ $kind = nllb ] || grep -q '^infer: .*, force_end: true' $kind/config.yaml || fail "$kind: no end is forced"
  expect_exit 0 "$mtf_train" $kind/config.yaml run.mode=infer infer.input="$golden/inputs.txt" infer.output=written infer.method=greedy \
    infer.force_end=true
  sed -E 's/ ?(<s>|<unk>|<mask>|[a-z]{3}_Latn) ?//g' written | cmp - "$golden/outputs.txt" || fail "$kind: other texts than transformers"
  expect_exit 0 "$mtf_convert" $kind hf_$kind --to hf-bart
  $check same "$golden/model.safetensors" hf_$kind/model.safetensors || fail "$kind: exported, the tensors are others"
  $check config "$golden/config.json" hf_$kind/config.json || fail "$kind: exported, config.json says something else"
  cmp "$golden/tokenizer.json" hf_$kind/tokenizer.json || fail "$kind: tokenizer.json is another one"
  expect_exit 2 "$mtf_convert" $kind new --to hf-marian
  expect_text 'the model is no Marian: its positions are others'
done
# What generation_config.json says becomes the section `infer`, and comes back; no token is forced that was not.
cp -r "$source_dir/tests/golden/hf_bart" said
cat > said/generation_config.json << 'END'
{"decoder_start_token_id": 2, "eos_token_id": [2, 8], "forced_eos_token_id": 2, "pad_token_id": 1, "num_beams": 3, "length_penalty": 2.0, "repetition_penalty": 1.5,
 "max_length": 15, "suppress_tokens": [7, 9], "early_stopping": true}
END
expect_exit 0 "$mtf_convert" said said_here
expect_text '`early_stopping: true` is left out'
expect_text 'there is no `forced_bos_token_id`'
grep -q '^infer: {method: beam, beam_size: 3, length_penalty: {alpha: 2, plus: 0}, max_length: 14, force_end: true, repetition_penalty: 1.5, suppress_tokens: \[' \
  said_here/config.yaml || fail "BART: other options of decoding: $(grep ^infer said_here/config.yaml)"
expect_exit 0 "$mtf_train" said_here/config.yaml run.mode=infer infer.input="$source_dir/tests/golden/hf_bart/inputs.txt" infer.output=written
expect_exit 0 "$mtf_convert" said_here said_again --to hf-bart
"$python" - << 'END'
import json
said, again = (json.load(open(name + "/generation_config.json")) for name in ("said", "said_again"))
assert not {key: value for key, value in said.items() if again.get(key) != value and key != "early_stopping"}, again
assert "forced_bos_token_id" not in again and "forced_bos_token_id" not in json.load(open("said_again/config.json"))
END
expect_exit 0 "$mtf_train" nllb/config.yaml data.train.inputs="$golden/inputs.txt" data.train.targets="$golden/inputs.txt" \
  data.sequence_length=32 train.steps=2 train.batch_size=4 run.model_dir=nllb_trained mesh="x:2;y:2" layout="batch:x;d_ff:y;vocab:y"
french=(data.vocabulary.targets.first_token=fra_Latn)
expect_exit 0 "$mtf_train" nllb_trained/config.yaml run.mode=infer infer.input="$golden/inputs.txt" infer.output=written "${french[@]}"
expect_exit 0 "$mtf_convert" nllb_trained hf_nllb_trained --to hf-bart
grep -q '"forced_bos_token_id"' hf_nllb_trained/generation_config.json || fail "NLLB: exported, no language is forced"
expect_exit 2 "$mtf_train" nllb/config.yaml run.mode=infer infer.input="$golden/inputs.txt" data.vocabulary.targets.first_token=deu
expect_text 'the vocabulary has no piece `deu`'

# Random image networks compute the same as in transformers, with the running statistics of batch norms. Exported again they are
# unchanged, also by way of a file.
for kind in vit dinov2 resnet convnext; do
  golden=$source_dir/tests/golden/hf_$kind
  expect_exit 0 "$mtf_convert" "$golden" images_$kind
  sed 's/, drop: [0-9.]*/, drop: 0/' images_$kind/config.yaml > images_$kind/traced.yaml
  for on in "x:1 {}" "x:2;y:2 batch:x;classes:y"; do
    expect_exit 0 "$mtf_train" images_$kind/traced.yaml run.mode=trace "trace.input=$golden/reference.safetensors" trace.steps=0 \
      trace.output=out.safetensors train.trainable='[^logits/]' mesh="${on%% *}" layout="${on#* }"
    $check near "$golden/reference.safetensors" out.safetensors output/logits 2e-5 || fail "$kind: other logits with ${on#* }"
  done
  expect_exit 0 "$mtf_convert" images_$kind $kind.safetensors
  for from in images_$kind $kind.safetensors; do
    expect_exit 0 "$mtf_convert" $from hf_${from%.*} --to hf-$kind
    $check same "$golden/model.safetensors" hf_${from%.*}/model.safetensors || fail "$kind: exported, the tensors are others"
    $check config "$golden/config.json" hf_${from%.*}/config.json || fail "$kind: exported, config.json says something else"
  done
done

# A random BERT computes the same as in transformers: vectors of its last layer, logits of tokens and of pairs. Exported again it is
# unchanged, also with another head.
golden=$source_dir/tests/golden/hf_bert
traced=(run.mode=trace "trace.input=$golden/reference.safetensors" trace.output=out.safetensors vars.dropout=0 vars.attention_dropout=0
  "data.sequence_length={inputs: 40, targets: 39}")
expect_exit 0 "$mtf_convert" "$golden" bert
expect_exit 0 "$mtf_train" bert/config.yaml "${traced[@]}" "trace.tensors=[.*block_002/layer_001/layer_norm/layer_norm, next_sentence/add]"
$check bert "$golden/reference.safetensors" out.safetensors 1e-5 || fail "BERT: other vectors than transformers"
for on in "x:2 batch:x" "x:3 heads:x;vocab:x" "x:2;y:2 batch:y;d_model:x" "x:4;y:2 batch:x;d_ff:y;vocab:y"; do
  layout=${on#* }
  expect_exit 0 "$mtf_train" bert/config.yaml "${traced[@]}" mesh="${on%% *}" layout="$layout" trace.output=split.safetensors
  $check near out.safetensors split.safetensors output/logits 1e-5 || fail "BERT: other logits with $layout"
done
expect_exit 0 "$mtf_convert" bert hf_bert --to hf-bert
$check same "$golden/model.safetensors" hf_bert/model.safetensors || fail "BERT: exported, the tensors are others"
$check config "$golden/config.json" hf_bert/config.json || fail "BERT: exported, config.json says something else"
cmp "$golden/vocab.txt" hf_bert/vocab.txt || fail "BERT: the vocabulary is not there"
for kind in encoder old_names masked_lm classifier tagger answers; do
  $check make_bert $kind "$golden" bert_$kind
  expect_exit 0 "$mtf_convert" bert_$kind model_bert_$kind
  [ $kind != encoder ] || expect_text "has an encoder alone"
done
printf 'the sun is up\nit was 3 to 4\n\nit rains\nit was 2 to 3\n' > texts.txt
expect_exit 0 "$mtf_train" model_bert_encoder/config.yaml data.train.path=texts.txt train.steps=1 train.batch_size=2 \
  data.sequence_length=16 run.model_dir=from_encoder
weights=checkpoints/step-00000000/weights.safetensors
$check same bert/$weights model_bert_old_names/$weights || fail "BERT: gamma and beta are other weights"
for kind in encoder masked_lm classifier tagger answers; do
  expect_exit 0 "$mtf_convert" model_bert_$kind hf_bert_$kind --to hf-bert
  $check same bert_$kind/model.safetensors hf_bert_$kind/model.safetensors || fail "$kind: exported, the tensors are others"
done
expect_exit 0 "$mtf_convert" bert bert.safetensors
printf 'text\tlabel\nthe sun is up\tyes\nit was 3 to 4\tno\n' > labelled.tsv
for start in model_bert_encoder bert.safetensors; do
  expect_exit 0 "$mtf_train" model_bert_classifier/config.yaml data.train.path=labelled.tsv checkpoint.init.path=$start \
    checkpoint.init.exclude='[classifier/.*]' train.steps=2 train.batch_size=2 data.sequence_length=16 run.model_dir=tuned_$start
done

# Random encoders that are built like BERT compute the same as in transformers, also on meshes; exported again they are unchanged, and
# trained a little on a mesh they are as on one position.
printf 'text\tlabel\nthe fox is up\tyes\nit was a dog\tno\nover it\tmaybe\nquick dogs\tyes\n' > fox.tsv
printf 'the quick fox\nit jumps over the dog\nthe dog is lazy\nso is the fox\n' > fox.txt
cat > fox.json << 'END'
{"data": [{"paragraphs": [{"context": "the fox jumps over the dog", "qas": [{"id": "1", "question": "over it?", "answers": [{"text": "the dog", "answer_start": 19}]},
 {"id": "2", "question": "the quick", "answers": [{"text": "fox", "answer_start": 4}]}]}]}]}
END
for kind in roberta xlm_roberta distilbert modernbert; do
  near=2e-5
  [ $kind != modernbert ] || near=5e-5  # transformers itself is 4e-5 from the logits of double precision
  golden=$source_dir/tests/golden/hf_$kind
  traced=(run.mode=trace "trace.input=$golden/reference.safetensors" trace.output=out.safetensors vars.dropout=0 vars.attention_dropout=0
    trace.steps=0 "data.sequence_length={inputs: 40, targets: 39}")
  expect_exit 0 "$mtf_convert" "$golden" $kind
  sed 's/- dropout: 0.25/- dropout: 0/' $kind/config.yaml > without_dropout.yaml
  for on in "x:1 {}" "x:2;y:2 batch:x;d_ff:y"; do
    expect_exit 0 "$mtf_train" without_dropout.yaml "${traced[@]}" mesh="${on%% *}" layout="${on#* }"
    $check encoder "$golden/reference.safetensors" out.safetensors $near || fail "$kind: other logits than transformers with ${on#* }"
  done
  expect_exit 0 "$mtf_convert" $kind hf_$kind --to hf-bert
  $check same "$golden/model.safetensors" hf_$kind/model.safetensors || fail "$kind: exported, the tensors are others"
  $check config "$golden/config.json" hf_$kind/config.json || fail "$kind: exported, config.json says something else"
  [ $kind = distilbert ] || cmp "$golden/tokenizer.json" hf_$kind/tokenizer.json || fail "$kind: the tokeniser is not there"
  case $kind in
    roberta | modernbert) text=fox.txt ;;
    xlm_roberta) text=fox.tsv ;;
    *) text=fox.json ;;
  esac
  for on in "x:1 {}" "x:2;y:2 batch:x;d_ff:y"; do
    mesh=${on%% *}
    expect_exit 0 "$mtf_train" $kind/config.yaml data.train.path=$text data.sequence_length=40 train.steps=2 train.batch_size=2 \
      train.log_every=1 mesh="$mesh" layout="${on#* }" run.model_dir=tuned_$kind$mesh
  done
  $check losses tuned_${kind}x:1/metrics.jsonl "tuned_${kind}x:2;y:2/metrics.jsonl" 1e-5 || fail "$kind: other losses on a mesh"
done

# Random language models compute the same as in transformers and write the same texts; exported again they are unchanged.
for kind in gpt2 opt gpt_neox falcon bloom phi cohere llama smollm3 qwen2 qwen3 olmo3 phi3 glm4 gemma2 qwen2_moe olmoe; do
  source=$source_dir/tests/golden/hf_$kind
  expect_exit 0 "$mtf_convert" "$source" lm_$kind
  traced=(run.mode=trace "trace.input=$source/reference.safetensors" trace.output=out.safetensors vars.dropout=0
    data.sequence_length=40)
  expect_exit 0 "$mtf_train" lm_$kind/config.yaml "${traced[@]}"
  $check causal_lm "$source/reference.safetensors" out.safetensors 5e-5 || fail "$kind: other logits than transformers"
  hidden=d_ff
  case $kind in *moe) hidden=experts ;; esac
  for on in "x:2 heads:x;$hidden:x" "x:2;y:2 batch:y;d_model:x"; do
    expect_exit 0 "$mtf_train" lm_$kind/config.yaml "${traced[@]}" mesh="${on%% *}" layout="${on#* }" trace.output=split.safetensors
    $check near out.safetensors split.safetensors output/logits 5e-5 || fail "$kind: other logits with ${on#* }"
  done
  expect_exit 0 "$mtf_train" lm_$kind/config.yaml run.mode=infer infer.input="$source/prompts.txt" \
    infer.output=continuations.$kind infer.method=greedy infer.max_length=16
  cmp continuations.$kind "$source/continuations.txt" || fail "$kind: greedy search writes other texts than transformers"
  expect_exit 0 "$mtf_convert" lm_$kind hf_lm_$kind --to hf-lm
  $check same "$source/model.safetensors" hf_lm_$kind/model.safetensors || fail "$kind: exported, the tensors are others"
  $check config "$source/config.json" hf_lm_$kind/config.json || fail "$kind: exported, config.json says something else"
  for file in tokenizer.json tokenizer_config.json; do
    cmp "$source/$file" hf_lm_$kind/$file || fail "$kind: exported without its $file"
  done
  expect_exit 0 "$mtf_convert" "$source" lm_$kind.safetensors
  expect_text "its configuration names $source/tokenizer.json"
  expect_exit 0 "$mtf_convert" lm_$kind.safetensors again_$kind --to hf-lm
  $check same "$source/model.safetensors" again_$kind/model.safetensors || fail "$kind: through a file, the tensors are others"
done
# An imported language model is trained further, and exported with what it has learned.
cp "$source_dir/tests/golden/hf_gpt2/prompts.txt" prompts.txt
expect_exit 0 "$mtf_train" lm_gpt2/config.yaml data.train.path=prompts.txt data.train.join=null data.sequence_length=32 \
  train.steps=2 train.batch_size=4 run.model_dir=lm_trained
expect_text "variables start from"
expect_exit 0 "$mtf_convert" lm_trained hf_lm_trained --to hf-lm
expect_text "row 0 of the embedding, with which texts begin, is left out"
! $check same hf_lm_gpt2/model.safetensors hf_lm_trained/model.safetensors > same.log ||
  fail "the export has the weights before the training"
# A model that begins here, with queries that have the scale of attention in them, computes the same when it is exported.
expect_exit 0 "$mtf_train" lm_llama/config.yaml model.layer_defaults.SelfAttention.fold_scaling_into_initializer=true checkpoint.init=null \
  data.train.path=prompts.txt data.train.join=null data.sequence_length=32 train.steps=2 train.batch_size=4 run.model_dir=begun
expect_exit 0 "$mtf_convert" begun hf_begun --to hf-lm
expect_exit 0 "$mtf_convert" hf_begun lm_begun
for run in begun lm_begun; do
  expect_exit 0 "$mtf_train" $run/config.yaml run.mode=trace "trace.input=$source_dir/tests/golden/hf_llama/reference.safetensors" \
    data.sequence_length=40 checkpoint.init.path=$run trace.output=$run.safetensors
done
$check near begun.safetensors lm_begun.safetensors output/logits 1e-5 || fail "exported, a model with scaled queries computes something else"
# Low-rank updates are trained alone, and become part of the kernels that an export has.
cat > lora.yaml << END
include: lm_llama/config.yaml
model:
  block: [SelfAttention: {lora: {alpha: 6}}, DenseReluDense]
  layer_defaults:
    SelfAttention: {lora: {rank: 3, kernels: [q, k, v, o]}}
    DenseReluDense: {lora: {rank: 2}}
optimizer: {rules: [{match: lora_, frozen: false}, {match: "", frozen: true}]}
learning_rate: 0.01
checkpoint: {init: {path: lm_llama, exclude: [lora_]}}
train: {steps: 20, batch_size: 4}
data: {train: {path: prompts.txt, join: null}, sequence_length: 32}
END
expect_exit 0 "$mtf_train" lora.yaml run.model_dir=lora
expect_exit 0 "$mtf_convert" lora hf_lora --to hf-lm
expect_exit 0 "$mtf_convert" hf_lora lora_merged
# A file of the whole state has the weights, too.
expect_exit 0 "$mtf_convert" lora lora_state.safetensors --all
expect_exit 0 "$mtf_convert" lora_state.safetensors hf_lora_state --to hf-lm
cmp hf_lora_state/model.safetensors hf_lora/model.safetensors || fail "a file with --all has other weights"
traced=(run.mode=trace "trace.input=$source_dir/tests/golden/hf_llama/reference.safetensors" data.sequence_length=40)
expect_exit 0 "$mtf_train" lora/config.yaml "${traced[@]}" "checkpoint.init={path: lora, exclude: []}" trace.output=apart.safetensors
expect_exit 0 "$mtf_train" lora_merged/config.yaml "${traced[@]}" trace.output=merged.safetensors
$check near apart.safetensors merged.safetensors output/logits 5e-5 || fail "the merged updates have other logits"
expect_exit 0 "$mtf_train" lm_llama/config.yaml "${traced[@]}" trace.output=before.safetensors
! $check near before.safetensors merged.safetensors output/logits 0.01 > near.log || fail "the updates changed nothing"
expect_exit 1 "$mtf_train" lm_llama/config.yaml run.mode=evaluate evaluate.checkpoint=lora \
  'evaluate.datasets={x: {type: text, path: prompts.txt}}'
expect_text 'has a low-rank update of `transformer/block_000/layer_000/SelfAttention/k`, which this model lacks'
# Other ways to store the same model.
for kind in sharded bfloat16 float16 old_rotary fused; do
  $check make $kind "$source_dir/tests/golden/hf_llama" lm_as_$kind
  expect_exit 0 "$mtf_convert" lm_as_$kind model_lm_as_$kind
  expect_text "has no tokenizer.json, which texts need"
done
for kind in sharded old_rotary fused; do
  $check same lm_llama/$weights model_lm_as_$kind/$weights || fail "$kind: other weights"
done
grep -o 'rotary: true.*' lm_llama/config.yaml > rotary && grep -qF "$(cat rotary)" model_lm_as_old_rotary/config.yaml ||
  fail "rope_scaling: other rotary positions"
for kind in bfloat16 float16; do
  $check close lm_llama/$weights model_lm_as_$kind/$weights 0.0078125 || fail "a language model in $kind: other weights"
done

# Greedy search generates the same 100 texts.
$check words words.model
for version in v1_0 v1_1; do
  cp -r "$source_dir/tests/golden/hf_t5_$version" words_$version && chmod -R u+w words_$version
  cp words.model words_$version/spiece.model
  expect_exit 0 "$mtf_convert" words_$version model_words_$version
  for side in inputs targets; do
    $check texts words_$version/reference.safetensors words.model greedy/$side > words_$version/$side
  done
  expect_exit 0 "$mtf_train" model_words_$version/config.yaml run.mode=infer infer.input=words_$version/inputs \
    infer.output=words_$version/output infer.method=greedy infer.max_length=24
  [ "$(wc -l < words_$version/output)" = 100 ] || fail "$version: not 100 texts"
  cmp words_$version/output words_$version/targets || fail "$version: greedy search writes other texts than transformers"
done

# Other ways to store the same model: several files with an index, bfloat16, other names of the embedding,
# unused tensors.
for kind in sharded bfloat16 aliases tied_without_scale bytes; do
  $check make $kind "$source_dir/tests/golden/hf_t5_v1_1" $kind
  expect_exit 0 "$mtf_convert" $kind model_$kind
done
weights=checkpoints/step-00000000/weights.safetensors
for kind in sharded aliases; do
  $check same v1_1/$weights model_$kind/$weights || fail "$kind: other weights"
done
$check close v1_1/$weights model_bfloat16/$weights 0.0078125 || fail "bfloat16: other weights"
# Logits that are tied to the embedding without a scale stay so in the import and the export.
tied=tied_without_scale reference=$source_dir/tests/golden/hf_t5_v1_1/reference.safetensors
expect_exit 0 "$mtf_train" model_$tied/config.yaml run.mode=trace "trace.input=$reference" trace.output=out.safetensors \
  vars.dropout=0 "$lengths"
$check exact $tied "$reference" out.safetensors 1e-3 || fail "$tied: other logits"
expect_exit 0 "$mtf_convert" model_$tied hf_$tied --to hf-t5
$check same $tied/model.safetensors hf_$tied/model.safetensors || fail "$tied: exported, the tensors are others"
$check config $tied/config.json hf_$tied/config.json || fail "$tied: exported, config.json says something else"
grep -q 'vocabulary: bytes' model_bytes/config.yaml || fail "ByT5: another vocabulary"
expect_exit 0 "$mtf_convert" bytes model_bytes --force
expect_text "bytes numbers <extra_id_0>, <extra_id_1>, ... upwards from 259"
expect_exit 0 "$mtf_convert" model_bytes hf_bytes --to hf-t5
$check same bytes/model.safetensors hf_bytes/model.safetensors || fail "ByT5: exported, the tensors are others"
! grep -q extra_id_ hf_bytes/tokenizer_config.json || fail "ByT5: sentinels that the run lacks"
# The sentinels of a run keep their ids.
sed -i 's/vocabulary: bytes/vocabulary: {type: bytes, extra_ids: 125}/' model_bytes/config.yaml
expect_exit 0 "$mtf_convert" model_bytes hf_bytes --to hf-t5 --force
expect_exit 0 "$mtf_convert" hf_bytes model_bytes --force
grep -q 'vocabulary: {type: bytes, extra_ids: 125}' model_bytes/config.yaml || fail "ByT5: there and back the sentinels are others"

# An imported model with a vocabulary can be trained further.
seq 1 400 | awk '{ print "from " $1 " to " $1 * 7 % 100 }' > inputs.txt
seq 1 400 | awk '{ print "it is " $1 * 3 % 100 }' > targets.txt
cp -r "$source_dir/tests/golden/hf_t5_v1_1" t5 && chmod -R u+w t5
expect_exit 0 "$mtf_vocab" --size 40 --no-byte-fallback --output spiece.model inputs.txt targets.txt
cp spiece.model t5/
expect_exit 0 "$mtf_convert" t5/ models/t5
expect_text "the embedding has no rows for 100 <extra_id_N> behind 40 pieces"
cmp spiece.model models/t5/spiece.model || fail "the vocabulary is not there"
data="data.train.inputs=inputs.txt data.train.targets=targets.txt data.sequence_length=32 train.batch_size=4 run.seed=3"
dev="evaluate.datasets={dev: {type: parallel, inputs: inputs.txt, targets: targets.txt, limit: 40}}"
train() {  # DIRECTORY STEPS ARGUMENT...
  local directory=$1 steps=$2
  shift 2
  expect_exit 0 "$mtf_train" models/t5/config.yaml $data "$dev" "run.model_dir=$directory" train.steps=$steps checkpoint.every=2 "$@"
}
train whole 6
expect_text "variables start from"
train half 2

# One file holds the complete state of a training; the directory that is made from it resumes exactly.
expect_exit 0 "$mtf_convert" half half.safetensors --all
expect_exit 0 "$mtf_convert" half.safetensors again
expect_exit 0 "$mtf_compare" half again --tensors
expect_exit 0 "$mtf_train" again/config.yaml train.steps=6
expect_exit 0 "$mtf_compare" whole again --tensors

# Weights alone give the same evaluation and can start another run, but a training cannot resume without its
# state.
evaluate() { "$mtf_train" "$1"/config.yaml run.mode=evaluate 2> evaluate.log | sed 's/"seconds":[^,}]*//' || { cat evaluate.log; fail "evaluate $1"; }; }
evaluate whole > expected
expect_exit 0 "$mtf_convert" whole whole.safetensors
expect_exit 0 "$mtf_convert" whole.safetensors weights
[ ! -e weights/checkpoints/step-00000006/optimizer.safetensors ] || fail "the optimizer's state is there"
evaluate weights | cmp - expected || fail "weights alone evaluate to something else"
expect_exit 1 "$mtf_train" weights/config.yaml train.steps=8
expect_text "checkpoint.init.path"
expect_exit 0 "$mtf_train" weights/config.yaml train.steps=2 run.model_dir=next checkpoint.init.path=whole.safetensors
$check bare whole.safetensors bare.safetensors
expect_exit 0 "$mtf_convert" bare.safetensors bare --config whole/config.yaml
cmp bare/$weights weights/checkpoints/step-00000006/weights.safetensors || fail "a file without names of dimensions"
expect_exit 0 "$mtf_convert" whole two.safetensors --step 2
$check same half/checkpoints/step-00000002/weights.safetensors two.safetensors || fail "--step chooses another checkpoint"
expect_exit 0 "$mtf_convert" whole/checkpoints/step-00000002 two.safetensors --force
expect_exit 0 "$mtf_convert" whole copy --to model
$check same whole.safetensors copy/checkpoints/step-00000006/weights.safetensors || fail "--to model: other weights"

# What several processes have saved is converted like what one has: weights, their averages, and the state.
on_two=(models/t5/config.yaml $data "$dev" train.steps=2 train.ema_decay=0.5 mesh=x:2 layout=batch:x parameter_layout=d_ff:x)
expect_exit 0 "$mtf_train" "${on_two[@]}" run.model_dir=one_process
expect_exit 0 "$(dirname "$mtf_train")/mtf-launch" -n 2 "$mtf_train" "${on_two[@]}" run.model_dir=processes
for part in "" --raw --all; do
  for run in one_process processes; do expect_exit 0 "$mtf_convert" $run $run$part.safetensors $part; done
  $check same one_process$part.safetensors processes$part.safetensors || fail "of several processes, $part: other tensors"
done
expect_exit 0 "$mtf_convert" processes processes_copy --to model --all
expect_exit 0 "$mtf_compare" --tensors processes processes_copy
[ "$(cd processes_copy/checkpoints/step-00000002 && echo *)" = "averages.safetensors manifest.json optimizer.safetensors weights.safetensors" ] ||
  fail "other files in the copy: $(ls processes_copy/checkpoints/step-00000002)"

# A file of weights can be used in place of a checkpoint; what it lacks is reported.
"$mtf_train" whole/config.yaml run.mode=evaluate evaluate.checkpoint=whole.safetensors 2> evaluate.log | sed 's/"seconds":[^,}]*//' |
  cmp - expected || fail "evaluate.checkpoint=FILE: another evaluation: $(cat evaluate.log)"
head -n 5 inputs.txt > some_inputs && head -n 5 targets.txt > some_targets
for checkpoint in latest whole.safetensors bare.safetensors; do
  expect_exit 0 "$mtf_train" whole/config.yaml run.mode=infer "infer.checkpoint=$checkpoint" infer.input=some_inputs \
    "infer.output=infer.$checkpoint" infer.max_length=12
  expect_exit 0 "$mtf_train" whole/config.yaml run.mode=score "score.checkpoint=$checkpoint" score.inputs=some_inputs \
    score.targets=some_targets "score.output=score.$checkpoint"
  cmp infer.latest "infer.$checkpoint" || fail "infer.checkpoint=$checkpoint: other texts"
  cmp score.latest "score.$checkpoint" || fail "score.checkpoint=$checkpoint: other scores"
done
$check bare whole.safetensors less.safetensors encoder/rms_norm/scale
expect_exit 1 "$mtf_train" whole/config.yaml run.mode=infer infer.checkpoint=less.safetensors infer.input=some_inputs
expect_text "less.safetensors lacks 1 of the model's variables: encoder/rms_norm/scale; it has decoder/"

# Weights that give no numbers end each mode with 3; scores and metrics are complete.
$check nan whole.safetensors nan.safetensors encoder/rms_norm/scale
expect_exit 3 "$mtf_train" whole/config.yaml run.mode=infer infer.checkpoint=nan.safetensors infer.input=some_inputs
expect_exit 3 "$mtf_train" whole/config.yaml run.mode=score score.checkpoint=nan.safetensors score.inputs=some_inputs \
  score.targets=some_targets score.output=scores.nan
expect_text "the probabilities of 5 lines are not numbers (NaN); weights of an earlier checkpoint"
[ "$(grep -c nan scores.nan)" = 5 ] || fail "lines without a score are left out"
expect_exit 3 "$mtf_train" whole/config.yaml run.mode=evaluate evaluate.checkpoint=nan.safetensors
expect_text '"loss":null'
expect_text "nan.safetensors: \`loss\` of dev is not a number (NaN); weights of an earlier checkpoint"

# An evaluation needs its own data sets, but no training data.
for without in data.train.inputs=absent data.train=null; do
  "$mtf_train" whole/config.yaml run.mode=evaluate $without 2> evaluate.log | sed 's/"seconds":[^,}]*//' | cmp - expected ||
    fail "evaluation with $without: $(cat evaluate.log)"
done
expect_exit 0 "$mtf_train" models/t5/config.yaml run.mode=evaluate data.train=null "$dev" data.sequence_length=32 train.batch_size=4

# A configuration without the end of training suffices to describe the model.
sed '/^  steps: 6$/d' whole/config.yaml > no_end.yaml
expect_exit 0 "$mtf_convert" bare.safetensors no_end --config no_end.yaml
expect_exit 0 "$mtf_convert" no_end hf_no_end --to hf-t5
expect_exit 0 "$mtf_convert" no_end no_end.safetensors
expect_exit 0 "$mtf_convert" no_end.safetensors no_end_again
expect_exit 2 "$mtf_train" no_end_again/config.yaml run.model_dir=trained
expect_text "nothing says when training ends"

# Separate dimensions heads and d_kv in attention layers give the same elements, and the same T5.
sed -e 's/^\( *\)num_heads: 3$/&\n\1combine_dims: false/' -e 's/{num_heads: 3,/{combine_dims: false, num_heads: 3,/' \
  whole/config.yaml > apart.yaml
[ "$(grep -c 'combine_dims: false' apart.yaml)" = 2 ] || fail "other attention layers in config.yaml"
expect_exit 0 "$mtf_convert" bare.safetensors apart --config apart.yaml
$check shape apart/$weights decoder/block_000/layer_001/EncDecAttention/q 16 3 6 || fail "combine_dims: false: heads are not apart"
expect_exit 0 "$mtf_convert" whole hf_whole --to hf-t5
expect_exit 0 "$mtf_convert" apart hf_apart --to hf-t5
$check same hf_whole/model.safetensors hf_apart/model.safetensors || fail "combine_dims: false: exported, the tensors are others"
expect_exit 0 "$mtf_train" apart/config.yaml run.mode=infer infer.input=some_inputs infer.output=infer.apart infer.max_length=12
cmp infer.latest infer.apart || fail "combine_dims: false: other texts"
expect_exit 0 "$mtf_train" apart/config.yaml run.model_dir=apart_on checkpoint.init.path=whole train.steps=2 checkpoint.every=2 $data
expect_exit 0 "$mtf_train" whole/config.yaml run.model_dir=together_again checkpoint.init.path=apart_on train.steps=1

# Evaluations measure the running means of the weights, so these are exported.
train mean 4 train.ema_decay=0.9
expect_exit 0 "$mtf_convert" mean mean.safetensors
expect_exit 0 "$mtf_convert" mean raw.safetensors --raw
$check same mean.safetensors raw.safetensors > /dev/null && fail "--raw changes nothing"
evaluate mean > expected
expect_exit 0 "$mtf_convert" mean.safetensors mean_model
evaluate mean_model | cmp - expected || fail "running means evaluate to something else"
# So are those that a fresh run starts from.
train from_mean 1 checkpoint.init.path=mean learning_rate=0
expect_text "of them from their running means"
expect_exit 0 "$mtf_convert" from_mean from_mean.safetensors
$check same mean.safetensors from_mean.safetensors || fail "a fresh run does not start from the running means"
train from_raw 1 checkpoint.init.path=mean checkpoint.init.raw=true learning_rate=0
! grep -q "running means" out || fail "checkpoint.init.raw takes running means"
expect_exit 0 "$mtf_convert" from_raw from_raw.safetensors
$check same raw.safetensors from_raw.safetensors || fail "checkpoint.init.raw changes the weights"

# A model that was trained here is exported in Hugging Face format with its vocabulary, and imported again.
cmp spiece.model hf_whole/spiece.model || fail "the vocabulary is not there"
grep -q '"extra_ids": 0' hf_whole/tokenizer_config.json || fail "the run has no sentinels"
expect_exit 0 "$mtf_convert" hf_whole whole_again
$check same whole.safetensors whole_again/$weights || fail "there and back the weights are others"
# So are the sentinels of its vocabulary, whatever rows the embedding has.
sed 's/size: 40/size: 40, extra_ids: 7/' models/t5/config.yaml > sentinels.yaml
cp -r models/t5 sentinels && mv sentinels.yaml sentinels/config.yaml
expect_exit 0 "$mtf_convert" sentinels hf_sentinels --to hf-t5
grep -q '"extra_ids": 7' hf_sentinels/tokenizer_config.json || fail "exported, the sentinels are others"
expect_exit 0 "$mtf_convert" hf_sentinels sentinels_again
grep -q 'size: 40, extra_ids: 7}' sentinels_again/config.yaml || fail "there and back the sentinels are others"

# Members of an ensemble and teachers that are imports have models of their own, also where all shapes are those of the run.
cp -r t5 t5_relu && sed -i 's/gated-gelu/gated-relu/' t5_relu/config.json
expect_exit 0 "$mtf_convert" t5_relu models/relu
expect_exit 0 "$mtf_convert" t5_relu relu.safetensors
score() { "$mtf_train" models/t5/config.yaml run.mode=score score.inputs=some_inputs score.targets=some_targets "$@" 2> score.log || fail "score: $(cat score.log)"; }
score > of_gelu
"$mtf_train" models/relu/config.yaml run.mode=score score.inputs=some_inputs score.targets=some_targets > of_relu
! cmp -s of_gelu of_relu || fail "both activations give the same scores"
for member in models/relu relu.safetensors; do
  score score.ensemble=true score.ensemble_reduce=mean_log_prob "score.checkpoint=[models/t5, $member]" > of_both
  paste of_gelu of_relu of_both | awk '{ d = ($1 + $2) / 2 - $3; if (d > 1e-3 || d < -1e-3) exit 1 }' ||
    fail "$member: the ensemble's scores are not the means of its members': $(paste of_gelu of_relu of_both)"
  train "student.${member##*/}" 1 "distill.checkpoint=$member"
done
$check bare relu.safetensors unnamed.safetensors
score score.ensemble=true "score.checkpoint=[models/t5, unnamed.safetensors]" > /dev/null
grep -q "unnamed.safetensors does not say which model its weights are of" score.log || fail "an unknown member is not named"

# Existing files are not overwritten, and --force replaces only models.
expect_mistake() {  # CODE TEXT ARGUMENT...
  local code=$1 text=$2
  shift 2
  expect_exit "$code" "$mtf_convert" "$@"
  [ "$(wc -l < out)" = 1 ] || { cat out >&2; fail "the mistake is not said in one line: mtf-convert $*"; }
  expect_text "$text"
}
cp whole.safetensors before
expect_mistake 1 "whole.safetensors is there already; another name, or \`--force\`" half whole.safetensors
expect_mistake 1 "copy is there already" half copy --to model
cmp whole.safetensors before || fail "a file was written over"
expect_exit 0 "$mtf_convert" half copy --to model --force
$check same two.safetensors copy/checkpoints/step-00000002/weights.safetensors || fail "--force: other weights"
[ ! -e copy/checkpoints/step-00000006 ] || fail "--force leaves something of what was there"
mkdir -p letters && touch letters/mine
expect_mistake 1 "letters holds no model, and is not replaced" half letters --to model --force
expect_mistake 1 "cannot write absent/x.safetensors: No such file" half absent/x.safetensors

# Help, and errors of usage and of files.
expect_exit 0 "$mtf_convert" --help
expect_text "usage: mtf-convert FROM TO"
[ "$(wc -l < out)" -le 45 ] || fail "--help is longer than a screen"
expect_mistake 2 "1 paths in place of two" whole
expect_mistake 2 "which format is new to have?" whole new
expect_mistake 2 "did you mean \`hf-t5\`?" whole new --to hf_t5
expect_mistake 2 "--step: \`last\` is not a whole number" whole new.safetensors --step last
expect_mistake 2 "--to safetensors: new does not end in .safetensors" whole new --to safetensors
expect_mistake 2 "--all: t5 is no directory of a run" t5 new --all
expect_mistake 2 "--all: the state of a training has no place in hf-t5" whole new --to hf-t5 --all
expect_mistake 2 "bare.safetensors does not say of which model it is" bare.safetensors new
expect_mistake 2 "is both what is read and what is written" whole ./whole --to model --force
expect_mistake 1 "there is no absent" absent new
expect_mistake 1 "letters holds no weights" letters new
expect_mistake 1 "whole has no checkpoint of step 5; it has 2, 4, 6" whole new.safetensors --step 5
$check without whole.safetensors lost.safetensors encoder/rms_norm/scale
expect_mistake 1 "lost.safetensors names the dimensions of \`encoder/rms_norm/scale\`, and has no such tensor" lost.safetensors new
cp -r whole changed && sed -i 's/hidden_size: 24/hidden_size: 25/' changed/config.yaml
expect_mistake 1 "changed: variable \`encoder/block_000/layer_001/DenseReluDense/wi_0/kernel\` is " changed new --to hf-t5
cp -r whole apart && rm apart/config.yaml
expect_mistake 1 "apart lies in no run, so it is not known which model it is of" apart new --to model
head -c 5000 whole.safetensors > torn.safetensors
expect_exit 1 "$mtf_convert" torn.safetensors new
$check make twice "$source_dir/tests/golden/hf_t5_v1_1" twice
expect_mistake 1 "is in two of its files" twice new
$check escape whole.safetensors escape.safetensors
expect_mistake 1 "\`../../escaped.safetensors\` is no name of a file" escape.safetensors new
cp -r t5 broken
for change in 'model_type=rwkv|`model_type` is rwkv, which cannot be converted; one of t5, mt5, bert, roberta, ' 'feed_forward_proj=gelu|`feed_forward_proj` is gelu' \
  'relative_attention_max_distance=64|only 128 can be converted' 'd_ff=25|and config.json says float32 [25, 16]' \
  'num_layers=4|has no tensor `encoder.block.3.' 'num_layers=2|tensors that a T5 of its config.json lacks' \
  'd_model=0|`d_model` is 0, no size' 'scale_decoder_outputs=true|`lm_head.weight` is another matrix'; do
  $check change t5/config.json "${change%%|*}" broken/config.json
  expect_mistake 1 "${change#*|}" broken new
done
echo '{' > broken/config.json
expect_mistake 1 "it is no valid JSON" broken new
rm broken/model.safetensors && cp t5/config.json broken/
expect_mistake 1 "broken has no model.safetensors" broken new
cp -r whole positions && sed -i 's/positions: none/positions: sinusoid/' positions/config.yaml
expect_exit 2 "$mtf_convert" positions new --to hf-t5
expect_text "the model is no T5: its \`positions\` are added to embeddings; positions: none"
expect_exit 2 "$mtf_convert" whole new --to hf-bert
expect_text "whole: config.yaml:"
expect_text "the model is no BERT: its type is bitransformer"
cp -r bert pre_norm && sed -i 's/sublayers: .*/dropout: 0/' pre_norm/config.yaml
expect_exit 2 "$mtf_convert" pre_norm new --to hf-bert
expect_text "the model is no BERT: it has no norm after each layer"
# expect_refused NAME CHANGE...: the golden model NAME with a KEY=VALUE of config.json cannot be imported, each CHANGE of the form
# KEY=VALUE|MESSAGE.
expect_refused() {
  local golden=$source_dir/tests/golden/$1 change
  shift
  rm -r broken && mkdir broken && cp "$golden"/* broken/
  for change; do
    $check change "$golden/config.json" "${change%%|*}" broken/config.json
    expect_mistake 1 "${change#*|}" broken new
  done
}
expect_refused hf_bert 'hidden_act=mish|`hidden_act` is mish' 'num_attention_heads=5|`hidden_size` 24 cannot be divided among 5 heads' \
  'position_embedding_type=relative_key|only "absolute" can be converted' 'num_hidden_layers=2|tensors that a BERT of its config.json lacks'
expect_refused hf_modernbert 'norm_bias=true|`norm_bias` is true, and only false can be converted' 'classifier_pooling=max|`classifier_pooling` is max' \
  'vocab_size=302|and config.json says float32 [302, 24]' 'num_hidden_layers=4|`layer_types` is no list of 4 types'
golden=$source_dir/tests/golden/hf_qwen2
rm -r broken && mkdir broken && cp "$golden"/*.json "$golden"/model.safetensors broken/
for change in 'hidden_act=mish|`hidden_act` is mish' \
  'vocab_size=120|and config.json says float32 [120, 16]' 'vocab_size=20|`eos_token_id` is 105, no id of a token' \
  'num_hidden_layers=1|`layer_types` is no list of 1 types' 'num_key_value_heads=3|4 heads cannot share 3'; do
  $check change "$golden/config.json" "${change%%|*}" broken/config.json
  expect_mistake 1 "${change#*|}" broken new
done
golden=$source_dir/tests/golden/hf_marian
rm -r broken && mkdir broken && cp "$golden"/* broken/
for change in 'normalize_before=true|`normalize_before` is true, and only false can be converted' 'activation_function=mish|is mish' \
  'd_model=25|`d_model` is 25; an even number' 'decoder_attention_heads=5|`d_model` 24 cannot be divided among 5 heads' \
  'decoder_start_token_id=5|`decoder_start_token_id` is 5, and neither `pad_token_id` 63 nor `eos_token_id` 0' 'vocab_size=65|and config.json says float32 [65, 24]' \
  'vocab_size=60|`pad_token_id` is 63, no id of a token' 'eos_token_id=2|`<pad>` is 63 and `</s>` 0, and config.json says 63 and 2' \
  'decoder_layers=2|tensors that a Marian of its config.json lacks' 'encoder_layers=3|has no tensor `model.encoder.layers.2.'; do
  $check change "$golden/config.json" "${change%%|*}" broken/config.json
  expect_mistake 1 "${change#*|}" broken new
done
cp "$golden/config.json" broken/config.json
echo '{"</s>": 0, "<unk>": 0, "<pad>": 63}' > broken/vocab.json
expect_mistake 1 'broken/vocab.json: id 0 is that of `</s>` and of `<unk>`' broken new
cp -r marian marian_pre_norm && sed -i 's/call_layer, dropout: $dropout, residual, layer_norm/layer_norm, call_layer, residual/' marian_pre_norm/config.yaml
expect_exit 2 "$mtf_convert" marian_pre_norm new --to hf-marian
expect_text 'the model is no Marian: `sublayers.per_layer` is [layer_norm, call_layer, residual]'
expect_exit 2 "$mtf_convert" marian new --to hf-t5
expect_text "the model is no T5"
cp -r lm_llama no_rotary && sed -i 's/rotary: true, .*, *$/rotary: false,/' no_rotary/config.yaml
expect_exit 2 "$mtf_convert" no_rotary new --to hf-lm
expect_text "no language model of Hugging Face has these layers: it has rms_norm as a Llama has, and no rotary positions; rotary: true"
expect_exit 2 "$mtf_convert" whole new --to hf-lm
expect_text "it is no language model; type: lm"
[ ! -e new ] && [ ! -e new.safetensors ] || fail "a mistake leaves something behind"
[ -z "$(find . -name '.*.tmp*' -o -name '*.partial-*')" ] || fail "something unfinished is left"
