"""Decoders as programs from a file of text to a file of text, all with the weights of one model."""

import dataclasses
import os
import statistics
import subprocess
import sys
import time

from corpus import read_lines, write_lines
from table import print_table
from training import HERE, one_thread_libraries, peak_megabytes

BEAM, BATCH, LENGTH_PENALTY, LENGTH_FACTOR = 4, 64, 0.6, 2


@dataclasses.dataclass
class Run:
    seconds: float
    cpu_seconds: float
    peak_megabytes: float


class Decoder:
    """`command` makes the command line from the files to read and to write."""

    def __init__(self, name, work, command, environment=None):
        self.name, self.command, self.environment = name, command, environment
        self.output = os.path.join(work, f"test.{name}")
        self.starts, self.runs = [], []

    def run(self, source, output):
        with open(self.output + ".log", "w", encoding="utf-8") as log:
            begin = time.monotonic()
            process = subprocess.Popen(
                self.command(source, output), stdout=log, stderr=log, env=self.environment
            )
            peak, ended = 0, 0
            while not ended:
                time.sleep(0.01)
                peak = peak_megabytes(process.pid) or peak
                ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            seconds = time.monotonic() - begin
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            with open(self.output + ".log", encoding="utf-8", errors="replace") as log:
                sys.stderr.write(log.read()[-3000:])
            raise SystemExit(f"{self.name} has failed")
        return Run(seconds, usage.ru_utime + usage.ru_stime, peak)

    def seconds(self, cpu):
        """Of each run, less those of the fastest run on one line, which are start-up."""
        values = [run.cpu_seconds if cpu else run.seconds for run in self.runs]
        start = min(run.cpu_seconds if cpu else run.seconds for run in self.starts)
        return [value - start for value in values]

    def peak(self):
        return max(run.peak_megabytes for run in self.runs)


def decoders(forms, vocabulary, work, programs, threads):
    ours, marian, ctranslate2 = forms

    def our_command(source, output):
        command = [
            programs.mtf_train,
            os.path.join(ours, "config.yaml"),
            f"run.model_dir={ours}",
            "run.mode=infer",
        ]
        command += [
            f"run.threads={threads}",
            f"infer.input={source}",
            f"infer.output={output}",
            "infer.method=beam",
        ]
        command += [
            f"infer.beam_size={BEAM}",
            f"infer.batch_size={BATCH}",
            f"infer.length_penalty={LENGTH_PENALTY}",
        ]
        return [*command, f"infer.max_length={{times: {LENGTH_FACTOR}, plus: 0}}"]

    def marian_command(source, output):
        vocabularies = ["-v", vocabulary.marian_path, vocabulary.marian_path]
        command = [
            programs.pymarian,
            "decode",
            "-m",
            marian,
            *vocabularies,
            "-i",
            source,
            "-o",
            output,
            "--quiet",
        ]
        command += [f"--cpu-threads={threads}", f"--beam-size={BEAM}", f"--normalize={LENGTH_PENALTY}"]
        command += [f"--mini-batch={BATCH}", "--maxi-batch=1000", "--maxi-batch-sort=src"]
        return [*command, f"--max-length-factor={LENGTH_FACTOR}"]

    def ctranslate2_command(source, output):
        program = os.path.join(HERE, "ctranslate2_decoder.py")
        command = [
            sys.executable,
            program,
            ctranslate2,
            vocabulary.path,
            source,
            output,
            f"--threads={threads}",
        ]
        command += [f"--beam={BEAM}", f"--batch={BATCH}", f"--length-penalty={LENGTH_PENALTY}"]
        return [*command, f"--length-factor={LENGTH_FACTOR}"]

    return [
        Decoder("mtf-train", work, our_command),
        Decoder("Marian", work, marian_command, one_thread_libraries()),
        Decoder("CTranslate2", work, ctranslate2_command, one_thread_libraries()),
    ]


def compare(programs, source, work, rounds):
    """Each round: every decoder on one line, then on all lines, the first one another each time."""
    one = os.path.join(work, "one.en")
    write_lines(one, read_lines(source)[:1])
    for number in range(rounds):
        shift = number % len(programs)
        for decoder in programs[shift:] + programs[:shift]:
            decoder.starts.append(decoder.run(one, os.path.join(work, "one.de")))
            decoder.runs.append(decoder.run(source, decoder.output))


def bleu(mtf_bleu, reference, output):
    with open(output, encoding="utf-8") as file:
        done = subprocess.run(
            [mtf_bleu, reference, "-b"], stdin=file, check=True, capture_output=True, text=True
        )
    return float(done.stdout)


def print_rates(programs, vocabulary, mtf_bleu, reference):
    """Tokens are those of the written texts, encoded anew, each with its end of sequence."""
    texts = read_lines(programs[0].output)
    rows = [
        [
            "",
            "tokens/s",
            "ratio",
            "tokens/CPU s",
            "ratio",
            "lines/s",
            "ratio",
            "peak MB",
            "tokens/line",
            "BLEU",
            "as ours",
        ]
    ]
    counts = [sum(len(ids) + 1 for ids in vocabulary.encode(decoder.output)) for decoder in programs]
    for decoder, tokens in zip(programs, counts):
        row = [decoder.name]
        for cpu, numbers in ((False, counts), (True, counts), (False, [len(texts)] * len(programs))):
            mine, theirs = programs[0].seconds(cpu), decoder.seconds(cpu)
            number = numbers[programs.index(decoder)]
            ratio = statistics.median(numbers[0] / a / (number / b) for a, b in zip(mine, theirs))
            row += [f"{number / statistics.median(theirs):.0f}", f"{ratio:.2f}"]
        same = statistics.mean(a == b for a, b in zip(texts, read_lines(decoder.output)))
        row += [f"{decoder.peak():.0f}", f"{tokens / len(texts):.1f}"]
        rows.append([*row, f"{bleu(mtf_bleu, reference, decoder.output):.1f}", f"{same:.1%}"])
    print_table(rows)
