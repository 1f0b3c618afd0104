"""Decoding by mtf-train and by CTranslate2: a translation model of random weights on the CPU.

Both have 3 + 3 layers, d_model 256, d_ff 1024, 8 heads, a vocabulary of 8192, inputs of 32 tokens, and write 64 tokens for
each text: texts of random weights do not end by themselves, and scores that favour long texts keep a beam going. Rates are
tokens of the best hypothesis in a second of the processor; start-up is not counted (mtf-train: the difference between a long
run and a short one). Ratios are mtf-train / CTranslate2, medians of the rounds' own. With one thread, CTranslate2's OpenMP
waits passively. --type is that of weights in products (precision.infer and compute_type).
"""

import statistics

from comparisons.training_models import write_text
from harness.commands import alternate, median_ratio, passive_threads
from harness.workers import Worker

SUMMARY = "tokens a second of greedy and beam search: CTranslate2"
PROGRAMS = ("mtf-train",)
PEERS = ("ctranslate2",)
ALONE = True
QUICK = {"batches": [2], "beams": [1, 2], "rounds": 1, "tokens": 256}
LAYERS, WIDTH, HIDDEN, HEADS, VOCABULARY, INPUT, OUTPUT = 3, 256, 1024, 8, 8192, 32, 64
ATTENTION = f"{{num_heads: {HEADS}, key_value_size: {WIDTH // HEADS}}}"
CONFIG = f"""
data:
  train: {{type: parallel, inputs: in.txt, targets: in.txt}}
  vocabulary: {{type: bytes}}
  sequence_length: {OUTPUT}
  packing: none
model:
  type: bitransformer
  encoder: {{num_layers: {LAYERS}, block: [SelfAttention, DenseReluDense]}}
  decoder: {{num_layers: {LAYERS}, block: [SelfAttention, EncDecAttention, DenseReluDense]}}
  d_model: {WIDTH}
  max_length: {OUTPUT}
  positions: learned
  vocab_divisor: {VOCABULARY}
  layer_defaults:
    SelfAttention: {ATTENTION}
    EncDecAttention: {ATTENTION}
    DenseReluDense: {{hidden_size: {HIDDEN}}}
optimizer: adam
learning_rate: 0.0001
train: {{steps: 1, batch_size: 8}}
"""


def add_arguments(parser):
    numbers = lambda text: [int(number) for number in text.split(",")]
    parser.add_argument("--batches", type=numbers, default=[1, 8, 32], help="texts at a time")
    parser.add_argument("--beams", type=numbers, default=[1, 4], help="1 is greedy search")
    parser.add_argument("--type", choices=["float32", "bfloat16", "int8"], default="float32")
    parser.add_argument("--tokens", type=int, default=32768, help="of all hypotheses in one measurement")


def decode_ours(session, threads, beam, batch, repeats):
    """The Cost of `repeats` batches."""
    method = ["infer.method=greedy"] if beam == 1 else ["infer.method=beam", f"infer.beam_size={beam}"]
    costs = []
    for count in (1 + repeats, 1):
        write_text(session.path("texts.txt"), count * batch, INPUT)
        arguments = ["run/config.yaml", "run.mode=infer", "infer.input=texts.txt", "infer.output=out.txt", *method]
        arguments += [f"precision.infer={'same' if session.options.type == 'float32' else session.options.type}"]
        arguments += ["infer.length_penalty=5", f"infer.batch_size={batch}", f"infer.max_length={OUTPUT}"]
        costs.append(session.mtf_train(*arguments, threads=threads))
    return costs[0] - costs[1]


def start_ctranslate2(session, threads):
    sizes = {"layers": LAYERS, "width": WIDTH, "hidden": HIDDEN, "heads": HEADS, "vocabulary": VOCABULARY}
    arguments = [f"--{name}={value}" for name, value in sizes.items()]
    arguments.append(f"--type={session.options.type}")
    command = session.peer("peers", "ctranslate2_decoding.py", session.path(f"ctranslate2_{threads}"), threads, *arguments)
    return Worker(
        "CTranslate2", command, threads, passive_threads(threads) if threads == 1 else {"OMP_NUM_THREADS": str(threads)}
    )


def compare(session, table, threads, theirs):
    options = session.options
    for beam in options.beams:
        for batch in options.batches:
            repeats = max(4, options.tokens // OUTPUT // batch // beam)
            calls = {"mtf-train": lambda: decode_ours(session, threads, beam, batch, repeats)}
            if theirs:
                request = {"what": "decode", "beam": beam, "batch": batch, "input": INPUT, "output": OUTPUT}
                calls["CTranslate2"] = lambda: theirs.ask(**request, repeats=repeats)[1]
                theirs.ask(**request, repeats=1)
            costs = alternate(calls, options.rounds)
            tokens = repeats * batch * OUTPUT
            rates = [f"{tokens / statistics.median(cost.cpu for cost in rounds):,.0f}" for rounds in costs.values()]
            walls = [f"{tokens / statistics.median(cost.wall for cost in rounds):,.0f}" for rounds in costs.values()]
            if theirs:
                ratio = [
                    f"{median_ratio(*([getattr(c, what) for c in rounds] for rounds in costs.values())):.2f}"
                    for what in ("cpu", "wall")
                ]
                cells = [*rates, ratio[0], *walls, ratio[1]]
            else:
                cells = [*rates, *walls]
            table.row(threads, batch, "greedy" if beam == 1 else f"beam {beam}", *cells)


def run(session):
    session.write("model.yaml", CONFIG)
    write_text(session.path("in.txt"), 64, INPUT)
    session.mtf_train("model.yaml", "run.model_dir=run")
    theirs = "ctranslate2" in session.options.peers
    columns = []
    for what in ("tokens per CPU second", "tokens/s"):
        columns += [f"mtf-train, {what}", "CTranslate2", "ratio"] if theirs else [f"mtf-train, {what}"]
    table = session.table(f"{session.options.rounds} rounds in turns", "threads", "texts at a time", "search", *columns)
    for threads in session.options.threads:
        if theirs:
            with start_ctranslate2(session, threads) as worker:
                compare(session, table, threads, worker)
        else:
            compare(session, table, threads, None)
