"""Steps of training by mtf-train, PyTorch (eager) and JAX (jit), float32, on the CPU.

comparisons/training_models.py says what the models are. mtf-train also reads and shuffles its data; the others have one batch
in memory. All have equal numbers of weights, which is checked, except `dense`: mtf-train with a dense layer of the size that a
token uses in place of experts. Programs take turns. Wall times are those of the steps of a turn; CPU times are those of all
threads; memory is the largest that was resident. A program with one thread has one core. With several, threads of PyTorch
wait as they do by themselves, in a loop, and (passive) asleep. Ratios are times of a program / those of mtf-train, medians of
the rounds' own.
"""

from comparisons import training_models
from harness.commands import median_ratio, passive_threads
from harness.trainers import Trainer, take_turns
from peers.shapes import SHAPES, tokens_per_step

SUMMARY = "steps of training: PyTorch, JAX"
PROGRAMS = ("mtf-train",)
PEERS = ("torch", "jax", "transformers", "dense")
ALONE = True
QUICK = {"models": ["mlp", "lm"], "rounds": 1, "seconds": 0.2}
NETWORKS = ("cnn", "resnet18")
EXPERTS = ("switch", "mixtral")
IN_JAX = ("lm", "encdec", "mlp")


def add_arguments(parser):
    parser.add_argument(
        "--models", type=lambda text: text.split(","), default=["lm", "encdec", "mlp"], help=f"some of {','.join(SHAPES)}"
    )
    parser.add_argument("--optimizer", choices=["adam", "sgd", "adafactor"], default="adam")
    parser.add_argument(
        "--variant",
        metavar="'NAME: ARGUMENT...'",
        action="append",
        default=[],
        help="mtf-train with other arguments, too, e.g. '2 x 4 positions: mesh=b1:2;b2:4 layout=rows:b1;cols:b2'",
    )
    parser.add_argument("--at-least", type=float, default=0, help="the least ratio of CPU times to the fastest peer")
    parser.set_defaults(rounds=4, seconds=1.5)


def start_ours(session, model, threads, name="mtf-train", dense=False, arguments=(), **sizes):
    """A Trainer; `sizes` as in training_models.write()."""
    run = session.fresh(model)
    config = training_models.write(session, model, f"{run}.yaml", session.options.optimizer, dense, **sizes)
    command = [session.options.mtf_train, config, f"run.model_dir={run}", f"run.threads={threads}", *arguments]
    return Trainer(name, command, f"{run}/metrics.jsonl", f"{run}.log", threads)


def start_torch(session, model, threads, name="PyTorch", variant="", passive=False):
    log = session.fresh(model) + ".log"
    command = session.peer("peers", "torch_training.py", model, threads, session.options.optimizer, variant)
    return Trainer(name, command, log, log, threads, passive_threads(threads) if passive else {"OMP_NUM_THREADS": str(threads)})


def start_jax(session, model, threads):
    log = session.fresh(model) + ".log"
    command = session.peer("jax", "jax_training.py", model, threads, session.options.optimizer)
    one = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"} if threads == 1 else {}
    return Trainer("JAX", command, log, log, threads, one)


def starts(session, model, threads):
    """Functions that start the programs, mtf-train first."""
    options = session.options
    ours = lambda *more, **keywords: lambda: start_ours(session, model, threads, *more, **keywords)
    torch = lambda *more, **keywords: lambda: start_torch(session, model, threads, *more, **keywords)
    yield ours()
    for variant in options.variant:
        name, arguments = variant.split(": ", 1)
        yield ours(f"mtf-train, {name}", arguments=arguments.split())
    if model in EXPERTS and "dense" in options.peers:
        yield ours("mtf-train, dense", dense=True)
    if model == "mixtral" and "transformers" in options.peers:  # which has no experts with relu
        yield torch("transformers", "transformers")
    if "torch" in options.peers and model != "conv9":
        yield torch()
        if threads > 1:
            yield torch("PyTorch, passive", passive=True)
        if model in NETWORKS:
            yield torch("PyTorch, channels last", "channels_last")
    if "jax" in options.peers and model in IN_JAX:
        yield lambda: start_jax(session, model, threads)


def run(session):
    options = session.options
    title = f"{options.optimizer}, {options.rounds} rounds of {options.seconds:g} s in turns"
    table = session.table(
        title, "model", "threads", "program", "wall ms", "CPU ms", "wall ratio", "CPU ratio", "tokens or images/s", "peak memory"
    )
    for model in options.models:
        if model not in SHAPES:
            raise SystemExit(f"--models: {model} is not one of {', '.join(SHAPES)}")
        for threads in options.threads:
            figures = take_turns(starts(session, model, threads), options.rounds, options.seconds, ["mtf-train, dense"])
            ours = figures[0]
            fastest = None
            for program in figures:
                ratios = [median_ratio(ours.wall, program.wall), median_ratio(ours.cpu, program.cpu)]
                rate = 1000 * tokens_per_step(model) / program.median("wall")
                table.row(
                    model, threads, program.name, f"{program.median('wall'):.1f}", f"{program.median('cpu'):.1f}",
                    *(f"{ratio:.2f}" if program is not ours else "" for ratio in ratios), f"{rate:,.0f}",
                    f"{program.peak / 1e6:,.0f} MB",
                )  # fmt: skip
                if not program.name.startswith("mtf-train"):
                    fastest = min(fastest or ratios[1], ratios[1])
            session.check(
                fastest is None or fastest >= options.at_least, f"{model}: the fastest peer takes {fastest} of our CPU time"
            )
