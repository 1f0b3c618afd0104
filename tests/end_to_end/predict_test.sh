#!/usr/bin/env bash
# Tests what a trained model says of new examples: run.mode=infer with classifiers, regressions, taggers and models that
# answer questions, whose examples are lines or come from a source without labels; texts of sources that models write or
# score. The predictions are those of evaluations, on every layout and number of processes.
source "$2/tests/end_to_end/common.sh"
source "$source_dir/tests/end_to_end/processes.sh"
source "$source_dir/tests/end_to_end/labelled_tasks.sh"

# The dev sets without what is to be predicted.
python3 - << 'END'
import json
lines = [line.rstrip("\n").split("\t") for line in open("dev.tsv")]
open("bare.tsv", "w").write("".join(f"{i}\t{text}\n" for i, (text, _) in enumerate(lines)).replace("0\ttext", "id\ttext"))
open("classes.txt", "w").write("".join(text + "\n" for text, _ in lines[1:]))
rows = [json.loads(line) for line in open("dev.jsonl")]
open("bare.jsonl", "w").write("".join(json.dumps({"b": row["b"], "a": row["a"]}) + "\n" for row in rows))
open("numbers.txt", "w").write("".join(row["a"] + "\t" + row["b"] + "\n" for row in rows))
sentences = [[line.split()[0] for line in part.splitlines()] for part in open("dev.conll").read().strip().split("\n\n")]
open("bare.conll", "w").write("\n\n".join("\n".join(words) for words in sentences) + "\n")
open("tags.txt", "w").write("".join(" ".join(words) + "\n" for words in sentences))
texts = json.load(open("dev.json"))
asked = []
for paragraph in texts["data"][0]["paragraphs"]:
    for question in paragraph["qas"]:
        asked.append(question["question"] + "\t" + paragraph["context"] + "\n")
        del question["answers"], question["is_impossible"]
json.dump(texts, open("bare.json", "w"))
open("answers.txt", "w").writelines(asked)
END

# infer RUN ARGUMENT...: the predictions go to `predicted`.
infer() {
  local run=$1
  shift
  "$mtf_train" "$run/config.yaml" run.mode=infer "$@" > predicted 2> err || { cat err >&2; fail "infer $run $*"; }
}
# expect_predicted FILE: the predictions must be the lines of the file, numbers up to rounding.
expect_predicted() {
  python3 - "$1" predicted << 'END' || fail "other predictions than those of $1"
import sys
wanted, given = (open(path).read().splitlines() for path in sys.argv[1:])
assert len(wanted) == len(given), (len(wanted), len(given))
for a, b in zip(wanted, given):
    try:
        assert abs(float(a) - float(b)) <= 2e-5 * max(1, abs(float(a))), (a, b)
    except ValueError:
        assert a == b, (a, b)
END
}

declare -A sources=(
  [classes]='{type: labelled_text, path: bare.tsv, text: text}' [numbers]='{type: labelled_text, path: bare.jsonl, text: a, pair: b}'
  [tags]='{type: conll, path: bare.conll}' [answers]='{type: squad, path: bare.json, stride: 8, max_question: 16}')
declare -A files=([classes]=bare.tsv [numbers]=bare.jsonl [tags]=bare.conll [answers]=bare.json)
for task in classes numbers tags answers; do
  expect_exit 0 "$mtf_train" $task.yaml run.model_dir=$task
  expect_exit 0 "$mtf_train" $task/config.yaml run.mode=evaluate evaluate.output=texts-$task \
    'evaluate.datasets.dev.metrics=[{command: "cp {predictions} evaluated; echo 1"}]'
  infer $task "infer.input=${sources[$task]}"
  expect_predicted evaluated
  cp predicted $task.predicted
  infer $task infer.input=${files[$task]} mesh=b1:2 layout=batch:b1
  expect_predicted evaluated
  for layout in "b1:2;b2:2 batch:b1;heads:b2;d_ff:b2" "b1:8 batch:b1"; do
    infer $task "infer.input=${sources[$task]}" "mesh=${layout% *}" "layout=${layout#* }" infer.batch_size=5
    expect_predicted evaluated
  done
  # The same examples as lines, which have no ids.
  sed 's/^[0-9]*-[0-9]*\t//' evaluated > of_lines
  infer $task infer.input=$task.txt infer.batch_size=3
  expect_predicted of_lines
  infer $task infer.format=jsonl < $task.txt
  cp predicted json
  port=$(free_ports 1)
  for rank in 0 1; do
    start_rank $rank 2 "$mtf_train" $task/config.yaml run.mode=infer mesh=b1:2 layout=batch:b1 \
      infer.input=$task.txt infer.format=jsonl infer.output=json-2
  done
  all_end 60 0 0
  python3 - $task of_lines json json-2 << 'END' || fail "$task: JSON"
import json, sys
task, lines = sys.argv[1], open(sys.argv[2]).read().splitlines()
one, two = ([json.loads(line) for line in open(path)] for path in sys.argv[3:])
assert len(one) == len(two) == len(lines)
def close(a, b):
    if isinstance(a, float) and isinstance(b, float): return abs(a - b) <= 2e-5 * max(1, abs(a))
    if isinstance(a, dict): return a.keys() == b.keys() and all(close(a[k], b[k]) for k in a)
    if isinstance(a, list): return len(a) == len(b) and all(map(close, a, b))
    return a == b
for number, (line, a, b) in enumerate(zip(lines, one, two)):
    assert close(a, b), (a, b)
    assert a["line"] == number
    if task == "classes":
        assert a["prediction"] == line and a["probabilities"].keys() == {"none", "person"}
        assert abs(sum(a["probabilities"].values()) - 1) < 1e-4
        assert a["probability"] == max(a["probabilities"].values()) == a["probabilities"][line]
        assert ["none", "person"][a["class"]] == line
    elif task == "numbers":
        assert abs(a["prediction"] - float(line)) < 1e-4
    elif task == "tags":
        assert " ".join(a["tags"]) == line and len(a["words"]) == len(a["tags"]) == len(a["probabilities"])
        assert all(0 < p <= 1 for p in a["probabilities"])
    else:
        assert a["answer"] == line and ("start" in a) == (line != "") and a["score"] and a["null_score"]
END
done

# Standard input is answered as it comes.
coproc "$mtf_train" classes/config.yaml run.mode=infer 2> err
process=$COPROC_PID
for line in 1 2; do
  sed -n ${line}p classes.txt >&"${COPROC[1]}"
  read -r -t 60 answer <&"${COPROC[0]}" || fail "no answer to line $line"
  [ "$answer" = "$(sed -n ${line}p classes.predicted)" ] || fail "another answer to line $line: $answer"
done
eval "exec ${COPROC[1]}>&-"
wait "$process" || { cat err; fail "infer failed"; }

# Several checkpoints, and the mean of some.
expect_exit 0 "$mtf_train" classes.yaml run.model_dir=several train.steps=4 checkpoint.every=2 checkpoint.keep_last=2 evaluate.every=0
expect_exit 0 "$mtf_train" several/config.yaml run.mode=infer infer.input=bare.tsv infer.checkpoint=all 'infer.output=at-{step}'
[ "$(cat at-2 at-4 | wc -l)" = 90 ] || fail "not all predictions of both checkpoints"
infer several infer.input=bare.tsv 'infer.checkpoint={average: 2}'

# Images, and a table whose inputs are words and numbers.
make_idx train 60
make_idx test 30
cat > images.yaml << 'END'
data: {train: {type: idx, images: train-images, labels: train-labels, class_names: [upper, lower]}}
model: {type: classifier, layers: [dense: {over: [rows, cols], output: {classes: 2}}]}
optimizer: adam
learning_rate: 0.01
train: {steps: 20, batch_size: 10}
END
expect_exit 0 "$mtf_train" images.yaml run.model_dir=images
for input in test-images '{type: idx, images: test-images}'; do
  infer images "infer.input=$input"
  python3 -c 'assert open("predicted").read().split() == ["lower" if i % 3 == 0 else "upper" for i in range(30)]' || fail "other classes of images"
done
# The classes of other data have the names of the training data, in evaluations, too.
expect_exit 0 "$mtf_train" images/config.yaml run.mode=evaluate evaluate.output=named \
  'evaluate.datasets={test: {type: idx, images: test-images, labels: test-labels, metrics: [f1]}}'
grep -q '"lower"' named/evaluation/test.json || fail "no names of classes in an evaluation"
expect_exit 2 "$mtf_train" images.yaml run.model_dir=more 'data.train.class_names=[upper, lower, none]'
expect_text "\`class_names\` has 3 names, and the model has 2 classes"
printf 'color,width,kind\nred,1,a\nblue,2,b\nred,3,a\nblue,1,b\n' > table.csv
cat > table.yaml << 'END'
data: {train: {type: table, path: table.csv, categorical: [color], labels: kind, normalize: true}}
model: {type: classifier, input: x, layers: [dense: {output: {classes: 2}}]}
optimizer: adam
learning_rate: 0.1
train: {steps: 60, batch_size: 4}
END
expect_exit 0 "$mtf_train" table.yaml run.model_dir=table
printf 'width,color\n2,red\n3,blue\n' > new.csv
infer table infer.input=new.csv
[ "$(tr '\n' ' ' < predicted)" = "a b " ] || fail "other classes of a table"
infer table 'infer.input={type: table, path: new.csv, categorical: [color], normalize: true}'
[ "$(tr '\n' ' ' < predicted)" = "a b " ] || fail "other classes of a table as a source"

# Classes of pixels: 1 for bright ones, and 255 where nobody labelled, which counts neither in training nor in evaluation.
python3 - << 'END'
import random
random.seed(3)
for name, count in ("train", 32), ("test", 5):
    pixels = [random.randrange(256) for _ in range(count * 24)]
    labels = [255 if random.random() < 0.3 or i < 48 else pixel > 127 for i, pixel in enumerate(pixels)]
    for file, values in ("pixels", pixels), ("masks", labels):
        with open(f"{name}-{file}", "wb") as f:
            f.write(bytes((0, 0, 8, 3)) + b"".join(n.to_bytes(4, "big") for n in (count, 4, 6)) + bytes(values))
END
cat > pixels.yaml << 'END'
data: {train: {type: idx, images: train-pixels, labels: train-masks}}
model:
  type: classifier
  ignore_index: 255
  layers: [conv2d: {output: {filters: 8}, kernel: 1, activation: relu}, dense: {output: {classes: 2}}]
optimizer: adam
learning_rate: 0.1
train: {steps: 60, batch_size: 8}
evaluate:
  batch_size: 4
  datasets: {test: {type: idx, images: test-pixels, labels: test-masks, metrics: [loss, accuracy, f1, confusion_matrix]}}
END
expect_exit 0 "$mtf_train" pixels.yaml run.model_dir=pixels
expect_exit 0 "$mtf_train" pixels.yaml run.model_dir=split train.microbatches=4 "mesh=a:2" "layout=batch:a"
infer pixels infer.input=test-pixels infer.format=jsonl
cp predicted pixels.jsonl
infer pixels infer.input=test-pixels
python3 - << 'END' || fail "classes of pixels"
import json, math
pixels, masks = (open("test-" + name, "rb").read()[16:] for name in ("pixels", "masks"))
lines = [json.loads(line) for line in open("pixels.jsonl")]
classes = [c for line in lines for c in line["class"]]
assert [str(c) for c in classes] == open("predicted").read().split()
shares = [share for line in lines for share in line["probabilities"]]
known = [i for i, label in enumerate(masks) if label < 255]
loss = -sum(math.log(shares[i][masks[i]]) for i in known) / len(known)
right = sum(classes[i] == masks[i] for i in known) / len(known)
assert right > 0.9, right
for run in "pixels", "split":
    last = json.loads(open(run + "/evaluate.jsonl").readlines()[-1])
    assert abs(last["loss"] - loss) < 1e-3 and abs(last["accuracy"] - right) < 1e-6, (run, last, loss, right)
END
expect_exit 1 "$mtf_train" pixels.yaml run.model_dir=wrong model.ignore_index=254
expect_text 'label 255 of example 0, but there are 2 classes'

# Texts that a model writes and scores come from the columns of any source.
backward_sentences
head -n 20 train.in > some.in
head -n 20 train.out > some.out
paste some.out some.in > some.tsv
python3 -c '
import json
for a, b in zip(open("some.in"), open("some.out")): print(json.dumps({"en": a.strip(), "id": 1, "de": b.strip()}))' > some.jsonl
cat > texts.yaml << 'END'
data:
  train: {type: parallel, inputs: train.in, targets: train.out}
  vocabulary: bytes
  sequence_length: 64
  cache: cache
model:
  type: bitransformer
  d_model: 16
  encoder: {num_layers: 1, block: [SelfAttention: {num_heads: 2, key_value_size: 8}, DenseReluDense: {hidden_size: 16}]}
  decoder: {num_layers: 1, block: [SelfAttention: {num_heads: 2, key_value_size: 8}, EncDecAttention: {num_heads: 2, key_value_size: 8}]}
optimizer: adam
learning_rate: 0.01
train: {steps: 10, batch_size: 16}
END
expect_exit 0 "$mtf_train" texts.yaml run.model_dir=texts
infer texts infer.input=some.in infer.max_length=12
cp predicted written
expect_exit 0 "$mtf_train" texts/config.yaml run.mode=score score.inputs=some.in score.targets=some.out score.output=scores
for source in '{type: parallel, inputs: some.in, targets: some.out}' '{type: tsv, path: some.tsv, columns: [targets, inputs]}' \
  '{type: jsonl, path: some.jsonl, columns: {inputs: en, targets: de}}'; do
  infer texts "infer.input=$source" infer.max_length=12
  cmp written predicted || fail "other texts of $source"
  expect_exit 0 "$mtf_train" texts/config.yaml run.mode=score "score.data=$source" score.output=scores-2
  cmp scores scores-2 || fail "other scores of $source"
  expect_exit 0 "$mtf_train" texts/config.yaml run.mode=evaluate "evaluate.datasets={d: $source}"
  grep -o '"loss":[0-9.]*' out >> losses
done
[ "$(sort -u losses | wc -l)" = 1 ] || { cat losses; fail "columns in another order have another loss"; }
port=$(free_ports 1)
for rank in 0 1; do
  start_rank $rank 2 "$mtf_train" texts/config.yaml run.mode=score mesh=b1:2 layout=batch:b1 \
    'score.data={type: jsonl, path: some.jsonl, columns: {inputs: en, targets: de}}' score.output=scores-2
done
all_end 60 0 0
expect_close scores scores-2 1e-5
# A language model goes on from texts of several lines.
expect_exit 0 "$mtf_train" texts.yaml run.model_dir=lm 'data.train={type: text, path: train.in}' \
  'model={type: lm, d_model: 16, num_layers: 1, block: [SelfAttention: {num_heads: 2, key_value_size: 8}]}'
printf 'the cat\nsees\n\na dog\n' > documents.txt
infer lm 'infer.input={type: text, path: documents.txt, join: document}' infer.max_length=4 infer.echo=true
[ "$(wc -l < predicted)" = 2 ] && grep -q "^the cat sees" predicted || fail "no text for each document"

# What does not fit is one message.
expect_exit 2 "$mtf_train" classes/config.yaml run.mode=infer infer.input=bare.tsv mesh=s:2 layout=layers:s parameter_layout=d_model:s
expect_text "stage"
expect_exit 2 "$mtf_train" classes/config.yaml run.mode=score score.targets=classes.txt
expect_text "this model does not write texts; run.mode=infer with \`infer.format: jsonl\`"
expect_exit 2 "$mtf_train" images/config.yaml run.mode=infer < /dev/null
expect_text "the model reads the feature \`image\`, and lines are texts"
expect_exit 2 "$mtf_train" images/config.yaml run.mode=infer 'infer.input={type: table, path: new.csv, inputs: [width]}'
expect_text "the source has no feature \`image\`, which the model reads"
expect_exit 2 "$mtf_train" classes/config.yaml run.mode=infer infer.n_best=2 infer.input=bare.tsv
expect_text "\`infer.n_best\` is for models that write texts, and this one does not"
expect_exit 2 "$mtf_train" tags/config.yaml run.mode=infer "infer.input=${sources[classes]}"
expect_text "the model tags words, and this source has none; a source of type conll"
expect_exit 2 "$mtf_train" answers/config.yaml run.mode=infer "infer.input=${sources[classes]}"
expect_text "has no feature \`answer_mask\`"
expect_exit 1 "$mtf_train" numbers/config.yaml run.mode=infer infer.input=classes.txt
expect_text "classes.txt:1: no tab character; two texts with a tab character between them"
expect_exit 2 "$mtf_train" texts/config.yaml run.mode=infer "infer.input=${sources[tags]}"
expect_text "\`infer.input\` is a source of type conll, and the model reads and writes texts"
expect_exit 2 "$mtf_train" texts/config.yaml run.mode=score 'score.data={type: text, path: some.in}'
expect_text "\`score.data\` has no inputs; a source with the texts that the encoder reads, too"
expect_exit 2 "$mtf_train" texts/config.yaml run.mode=score 'score.data={type: text, path: some.in}' score.targets=some.out
expect_text "\`score.data\` beside \`score.inputs\` and \`score.targets\`"
