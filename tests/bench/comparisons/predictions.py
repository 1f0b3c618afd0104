"""What the cost model of run.mode=explain predicts for a step, and what the step takes: each model on 1, 2, 4 and 8 positions
in a process, and on 2 and 4 processes of one position.

Two times are compared. Seconds of the day are those of the lines of a run's log, each a mean over a step or a twentieth of all
steps: the median of the lines, the least of the rounds. They mean something on a machine that has nothing else to do.
Processor seconds of a step are the difference between a longer and a shorter run, of all processes together, the median of
the rounds: other programs hardly change them. What is predicted of them is the time without waiting, times the cores that the
run uses.

Without --hardware each round measures the machine anew before its runs, as the speed of a machine that is shared with others
changes from minute to minute. Predictions are the least or the median of the rounds, as what they stand beside: others slow
down both, and never speed them up.
"""

import statistics

from comparisons import steps

SUMMARY = "predicted and measured times of a step"
PROGRAMS = ("mtf-train", "mtf-launch")
PEERS = ()
ALONE = True
QUICK = {"hardware": steps.QUICK_HARDWARE, "positions": [2], "processes": [2], "rounds": 1, "steps": [2, 4]}


def add_arguments(parser):
    numbers = lambda text: [int(number) for number in text.split(",")]
    steps.add_arguments(parser)
    parser.add_argument("--layout", default="batch:all")
    parser.add_argument("--positions", type=numbers, default=[1, 2, 4, 8], help="in one process")
    parser.add_argument("--processes", type=numbers, default=[2, 4], help="with a position and a thread each")
    parser.add_argument("--steps", type=numbers, default=[3, 13], help="of the shorter and the longer run")
    parser.set_defaults(threads=[1, 2])


def predict(session, processes, threads, hardware, arguments):
    """Seconds of a step, and of the processors."""
    document = steps.explain(
        session, *arguments, f"run.threads={threads}", hardware, f"cluster.processes={processes}", "explain.tensors=false"
    )
    if document is None:
        raise SystemExit(f"run.mode=explain fails with {' '.join(arguments)} {hardware}")
    prediction = document["prediction"]
    used = min(document["hardware"]["cores"], processes * threads)
    return prediction["seconds"], (prediction["seconds"] - prediction["waiting"]) * used


def measure(session, processes, threads, arguments):
    """Seconds of a step, and of the processors."""
    few, many = session.options.steps
    run_once = lambda count: steps.run_steps(session, count, processes, threads, *arguments)
    (_, short), (times, long) = run_once(few), run_once(many)
    return statistics.median(times[1:]), (long.cpu - short.cpu) / (many - few)


def cases(options):
    """(positions, processes, threads) of each row."""
    for threads in options.threads:
        for positions in options.positions:
            yield positions, 1, threads
    for processes in options.processes:
        yield processes, processes, 1


def run(session):
    options = session.options
    table = session.table(
        f"{options.layout}, {options.rounds} rounds",
        "model",
        "positions",
        "processes",
        "threads",
        "processor, predicted",
        "measured",
        "",
        "step, predicted",
        "measured",
        "",
    )
    for name, file in steps.models(session):
        rows = [
            (case, [file, *options.arguments, *([f"mesh=all:{case[0]}", f"layout={options.layout}"] if case[0] > 1 else [])])
            for case in cases(options)
        ]
        rounds = []
        for _ in range(options.rounds):
            hardware = steps.hardware(session)
            rounds.append(
                [
                    (*predict(session, *case[1:], hardware, arguments), *measure(session, *case[1:], arguments))
                    for case, arguments in rows
                ]
            )
        for (case, _), times in zip(rows, zip(*rounds)):
            predicted, predicted_cpu, seconds, cpu = zip(*times)
            cells = []
            for summary, guesses, truths in ((statistics.median, predicted_cpu, cpu), (min, predicted, seconds)):
                guess, truth = summary(guesses), summary(truths)
                cells += [f"{guess * 1e3:.1f} ms", f"{truth * 1e3:.1f} ms", f"{guess / truth - 1:+.0%}"]
            table.row(name, *case, *cells)
            session.figures[" ".join(map(str, (name, *case)))] = {
                "predicted": predicted,
                "measured": seconds,
                "processor predicted": predicted_cpu,
                "processor measured": cpu,
            }
