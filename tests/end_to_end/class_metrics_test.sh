#!/usr/bin/env bash
# Tests metrics of classes and the images that a classifier is wrong about: evaluation/, samples/ and the report are the
# same on every layout and number of processes.
source "$2/tests/end_to_end/common.sh"
source "$source_dir/tests/end_to_end/processes.sh"

# Images of 8 x 12 pixels of 7 classes, the first two alike, and labels as an evaluation reads them.
python3 - << 'END'
import random
random.seed(1)
def write(name, count):
    labels = [random.randrange(7) for _ in range(count)]
    with open(name + "-labels", "wb") as f:
        f.write(bytes((0, 0, 8, 1)) + count.to_bytes(4, "big") + bytes(labels))
    with open(name + "-images", "wb") as f:
        f.write(bytes((0, 0, 8, 3)) + b"".join(n.to_bytes(4, "big") for n in (count, 8, 12)))
        for label in labels:
            f.write(bytes(random.randrange(100) + 120 * (i // 12 == max(label, 1)) for i in range(96)))
write("train", 210)
write("test", 83)  # the last batch has 3 rows that count
END
cat > run.yaml << 'END'
data:
  train: {type: idx, images: train-images, labels: train-labels}
  augment: [normalize: {mean: 0.3, deviation: 0.2}]
model: {type: classifier, layers: [{dense: {output: {hidden: 16}, activation: relu}}, {dense: {output: {classes: 8}}}]}
optimizer: adam
learning_rate: 0.01
train: {steps: 20, batch_size: 30}
evaluate:
  every: 10
  batch_size: 20
  datasets:
    test: {type: idx, images: test-images, labels: test-labels, metrics: [loss, accuracy, top_5_accuracy, precision, recall, f1, mean_iou, confusion_matrix]}
checkpoint: {every: 10, keep_best: {metric: test/f1}}
END
expect_exit 0 "$mtf_train" run.yaml run.model_dir=single
expect_exit 0 "$mtf_train" single/config.yaml run.mode=report
python3 - << 'END'
import json, re, zlib, base64
import xml.etree.ElementTree as xml
lines = [json.loads(line) for line in open("single/evaluate.jsonl")]
assert [line["step"] for line in lines] == [10, 20]
last = lines[-1]
found = json.load(open("single/evaluation/test.json"))
assert found["step"] == 20 and found["examples"] == last["examples"] == 83
labels = open("test-labels", "rb").read()[8:]
matrix = found["confusion_matrix"]
assert [sum(row) for row in matrix] == [labels.count(i) for i in range(8)] == [c["support"] for c in found["classes"]]
assert [sum(column) for column in zip(*matrix)] == [c["predicted"] for c in found["classes"]]
right = sum(matrix[i][i] for i in range(8))
assert right / 83 == found["accuracy"] and abs(last["accuracy"] - right / 83) < 1e-6
occur = [c for c in found["classes"] if c["support"] + c["predicted"] > 0]
for name in ("precision", "recall", "f1"):
    mean = sum(c[name] for c in occur) / len(occur)
    assert abs(mean - last[name]) < 1e-12 and last[name] == found[name], name
iou = [matrix[i][i] / (sum(matrix[i]) + sum(row[i] for row in matrix) - matrix[i][i]) for i in range(8) if sum(matrix[i]) + sum(row[i] for row in matrix)]
assert abs(sum(iou) / len(iou) - last["mean_iou"]) < 1e-12 and last["mean_iou"] == found["mean_iou"]
assert last["accuracy"] < last["top_5_accuracy"] <= 1
assert json.load(open("single/checkpoints/step-00000020/manifest.json"))["metrics"].keys() >= {"test/f1", "test/top_5_accuracy"}
svg = xml.parse("single/evaluation/test.svg").getroot()
numbers = [int(e.text) for e in svg.iter("{http://www.w3.org/2000/svg}text") if "middle" in e.get("class", "") and e.text.isdigit()]
assert sorted(numbers) == sorted(n for row in matrix for n in row if n)
samples = [json.loads(line) for line in open("single/samples/misclassified-test.jsonl")]
assert len(samples) == min(32, 83 - right) > 5, (len(samples), right)
assert sorted(samples, key=lambda s: (-s["probability"], s["example"])) == samples
pixels = open("test-images", "rb").read()[16:]
page = open("single/report.html").read()
for sample in samples:
    assert sample["label"] == labels[sample["example"]] != sample["prediction"] and sample["step"] == 20
    png = base64.b64decode(sample["image"].split(",")[1])
    data = zlib.decompress(b"".join(png[m.start() + 4:m.start() + 4 + int.from_bytes(png[m.start() - 4:m.start()], "big")] for m in re.finditer(b"IDAT", png)))
    assert len(data) == 8 * 13, "grey, without the normalisation"
    if not any(data[row * 13] for row in range(8)):  # rows without a filter
        read = b"".join(data[row * 13 + 1:row * 13 + 13] for row in range(8))
        assert all(abs(a - b) <= 1 for a, b in zip(read, pixels[sample["example"] * 96:][:96]))
    assert sample["image"] in page
END

# same DIRECTORY: the files of an evaluation are those of the run `single`.
same() {
  for file in evaluation/test.json evaluation/test.svg samples/misclassified-test.jsonl; do
    cmp "single/$file" "$1/$file" || fail "$1/$file differs"
  done
}
layouts=("b1:2 batch:b1" "b1:2 classes:b1" "b1:2 hidden:b1" "b1:2;b2:2 rows:b1;cols:b2" "b1:2;b2:2 batch:b1;classes:b2")
for layout in "${layouts[@]}"; do
  expect_exit 0 "$mtf_train" single/config.yaml run.mode=evaluate "evaluate.output=out{step}" "mesh=${layout% *}" "layout=${layout#* }"
  same out20
  rm -r out20
done
port=$(free_ports 1)
for layout in "${layouts[0]}" "${layouts[3]}"; do
  for rank in 0 1; do
    start_rank $rank 2 "$mtf_train" single/config.yaml run.mode=evaluate evaluate.output=files "mesh=${layout% *}" "layout=${layout#* }"
  done
  all_end 60 0 0
  same files
  rm -r files
done

# A run that goes back to step 10 loses the files of step 20, and writes the same ones again.
rm -r single/checkpoints/step-00000020
cp -r single again
expect_exit 137 env MTF_FAULT=metrics.line "$mtf_train" again/config.yaml
[ ! -e again/evaluation/test.json ] && [ ! -s again/samples/misclassified-test.jsonl ] || fail "files of step 20 are left"
expect_exit 0 "$mtf_train" again/config.yaml
same again

# Without metrics of classes or images that are asked for there are no files; errors name what does not fit.
expect_exit 0 "$mtf_train" run.yaml run.model_dir=plain "evaluate.datasets.test.metrics=[loss]" evaluate.misclassified=0 checkpoint.keep_best=null
[ ! -e plain/evaluation ] && [ ! -e plain/samples ] || fail "there are files that nobody asked for"
expect_exit 2 "$mtf_train" run.yaml run.model_dir=wrong "checkpoint.keep_best.metric=test/confusion_matrix"
expect_text 'no evaluation measures `test/confusion_matrix`'
expect_exit 2 "$mtf_train" run.yaml run.model_dir=wrong model.layers.1.dense.output.classes=5
expect_text '`top_5_accuracy` is 1 for any model of 5 classes; it tells something of models with more than 5 classes'
expect_exit 2 "$mtf_train" "$source_dir/configs/models/toy.yaml" run.model_dir=wrong \
  "evaluate.datasets.dev={type: identity, size: 4, metrics: [confusion_matrix]}"
expect_text 'the model has no metric `confusion_matrix`'

# Labels are compared with the classes in training and evaluation, whatever their feature is called.
printf 'text\tlabel\nada\t0\nbob\t1\neve\t2\n' > good.tsv
printf 'text\tlabel\nada\t0\nbob\t9\neve\t2\n' > bad.tsv
cat > words.yaml << 'END'
data: {train: {type: labelled_text, path: good.tsv, text: text, labels: label}, vocabulary: bytes, sequence_length: 8, cache: cache}
model: {type: classifier, input: inputs, layers: [embedding: {output: {d: 4}}, pooler, dense: {output: {classes: 3}}]}
optimizer: sgd
learning_rate: 0.1
train: {steps: 2, batch_size: 3}
evaluate: {datasets: {dev: {type: labelled_text, path: good.tsv, text: text, labels: label, metrics: [loss]}}}
END
expect_exit 0 "$mtf_train" words.yaml run.model_dir=words
expect_exit 1 "$mtf_train" words/config.yaml run.mode=evaluate evaluate.datasets.dev.path=bad.tsv
expect_text "bad.tsv:3: column \`label\`: label 9, but there are 3 classes"
