"""The programs of mtf-train as commands. A command becomes its program, so that signals and exit codes are the program's."""

import os
import sys

PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")


def _become(name):
    # mtf-launch looks on PATH for the programs that it starts; the environment of the wheel need not be active.
    os.environ["PATH"] = os.pathsep.join([PROGRAMS, os.environ.get("PATH", os.defpath)])
    os.execv(os.path.join(PROGRAMS, name), [name] + sys.argv[1:])


def bleu():
    _become("mtf-bleu")


def compare():
    _become("mtf-compare")


def convert():
    _become("mtf-convert")


def launch():
    _become("mtf-launch")


def train():
    _become("mtf-train")


def vocab():
    _become("mtf-vocab")
