"""The translation model of `bench.py translation` and `translation-training` as mtf-train and Marian have it: 2 + 2 layers,
d_model 128, d_ff 512, 4 heads, a vocabulary of 4,000, layer norm after each sum (the form of which Marian's decoder makes
what its trainer learned), tied embeddings, label smoothing 0.1, Adam with clipping; and the weights of one model in the
formats of all decoders."""

import dataclasses
import os
import shutil
import subprocess

from comparisons.translation_corpus import VOCABULARY
from harness import environments
from harness.commands import run

ROW = 128  # tokens of a row of mtf-train
LOG_EVERY = 5  # updates
OURS = """\
include: {bi_base}
vars: {{num_layers: 2, d_model: 128, d_ff: 512, num_heads: 4, d_kv: 32, dropout: 0, max_length: {row}}}
data:
  train: {{type: parallel, inputs: {corpus}/train.en, targets: {corpus}/train.de}}
  vocabulary: {{type: sentencepiece, size: {vocabulary}, path: {corpus}/vocabulary.model}}
  cache: {corpus}/cache
model:
  positions: sinusoid
  label_smoothing: 0.1
  z_loss: 0
  vocab_divisor: 1
  embedding: {{type: vocab, scale_like_classifier: true}}
  sublayers:
    initial: [{{dropout: {{rate: {dropout}, share: [length]}}}}]
    per_layer: [call_layer, {{dropout: {{rate: {dropout}, share: [length]}}}}, residual, layer_norm]
    final: []
optimizer: {{type: adam, beta2: 0.98, epsilon: 1.0e-9, clip_norm: 1}}
learning_rate:
  - 0.04
  - {{type: truncated_rsqrt, warmup_steps: 400}}
  - {{type: linear_warmup, steps_or_fraction: 400}}
train: {{steps: 1000000, batch_size: {rows}, log_every: {log_every}}}
evaluate: null
checkpoint: {{every: 0}}
"""
MARIAN = {
    "type": "transformer", "enc-depth": 2, "dec-depth": 2, "dim-emb": 128, "transformer-heads": 4,
    "transformer-dim-ffn": 512, "transformer-ffn-activation": "relu", "tied-embeddings-all": "true",
    "transformer-preprocess": '""', "transformer-postprocess": "dan", "transformer-postprocess-top": '""',
    "transformer-dropout": 0.1, "label-smoothing": 0.1, "disp-label-counts": "true", "optimizer": "adam",
    "optimizer-params": "[0.9, 0.98, 1e-9]", "learn-rate": 0.002, "lr-warmup": 400, "lr-decay-inv-sqrt": 400,
    "clip-norm": 1, "max-length": 200, "overwrite": "true", "seed": 1,
}  # fmt: skip
ONE_THREAD_LIBRARIES = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}  # Marian's threads are its own


def write_our_config(session, corpus, name, tokens, dropout=0.1):
    """`tokens` are the target tokens of a batch."""
    values = {"bi_base": session.config("models/bi_base.yaml"), "corpus": corpus.directory, "vocabulary": VOCABULARY, "row": ROW}
    values.update(rows=tokens // ROW, dropout=dropout, log_every=LOG_EVERY)
    return session.write(name, OURS.format(**values))


def write_marian_config(session, corpus, vocabulary, name, model, tokens):
    """mini-batch-words counts the source's tokens, so that the targets' mean is `tokens`."""
    options = {
        **MARIAN, "model": model, "train-sets": f"[{corpus.path('train.en')}, {corpus.path('train.de')}]",
        "vocabs": f"[{vocabulary.marian_path}, {vocabulary.marian_path}]", "tempdir": corpus.directory,
        "mini-batch-words": round(tokens * corpus.source_tokens / corpus.target_tokens),
    }  # fmt: skip
    return session.write(name, "".join(f"{key}: {value}\n" for key, value in options.items()))


def marian():
    """The path of the program."""
    return environments.program("peers", "pymarian")


@dataclasses.dataclass(frozen=True)
class Forms:
    """One model as a directory of mtf-train, a file of Marian and a directory of CTranslate2."""

    ours: str
    marian: str
    ctranslate2: str


def train(session, corpus, seconds):
    """As in `translation-training`, but with smaller batches and no dropout: little time gets farther."""
    print(f"training the model that is decoded with, {seconds} s\n", flush=True)
    config, directory = write_our_config(session, corpus, "model.yaml", tokens=1024, dropout=0), session.path("model_run")
    shutil.rmtree(directory, ignore_errors=True)
    threads = len(os.sched_getaffinity(0))
    session.mtf_train(config, f"run.model_dir={directory}", f"train.time={seconds}s", threads=threads)
    return directory


def convert(session, *arguments):
    run([session.program("mtf-convert"), *arguments, "--force"], 1)


def write_template(session, corpus, vocabulary):
    """One update by Marian makes a file with its names, shapes and options."""
    template = session.path("template.npz")
    if os.path.exists(template):
        os.remove(template)
    config = write_marian_config(session, corpus, vocabulary, "template.yaml", template, tokens=256)
    command = [marian(), "train", "-c", config, "--cpu-threads", "1", "--after", "1u", "--quiet", "--no-reload"]
    run(command, 1, environment=ONE_THREAD_LIBRARIES)
    return template


def make(session, corpus, vocabulary, seconds):
    """The forms of a model that is trained so long, if the session's directory does not have them. Without peers, ours alone."""
    forms = Forms(*(session.path(name) for name in ("decode_ours", "decode_marian.npz", "decode_ctranslate2")))
    needed = dataclasses.astuple(forms) if session.options.peers else [forms.ours]
    if all(map(os.path.exists, needed)):
        return forms
    directory, trained, evened = (
        train(session, corpus, seconds),
        session.path("trained.safetensors"),
        session.path("model.safetensors"),
    )
    convert(session, directory, trained)
    if session.options.peers:
        template = write_template(session, corpus, vocabulary)
        pieces = vocabulary.path.removesuffix(".model") + ".vocab"
        run(session.peer("peers", "translation_forms.py", trained, template, pieces, evened, forms.marian, forms.ctranslate2), 1)
        trained = evened
    convert(session, trained, forms.ours, "--to", "model")
    return forms


def bleu(session, reference, output):
    with open(output, encoding="utf-8") as file:
        done = subprocess.run(
            [session.program("mtf-bleu"), reference, "-b"], stdin=file, check=True, capture_output=True, text=True
        )
    return float(done.stdout)
