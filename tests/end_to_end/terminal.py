"""terminal.py WIDTHS COMMAND...: runs the command in a pseudo-terminal, whose width changes every half second (WIDTHS:
"80,20"), and checks what it draws: no drawing is wider than the terminal, each is replaced or erased, and in the end no piece
of a bar is left. Prints what a person sees: each drawing as "bar WIDTH: TEXT", and the other lines as they are."""
import fcntl
import itertools
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

ERASE = "\x1b[K"  # from here to the end of the line


class Terminal:
    def __init__(self):
        self.width = 0
        self.line = ""  # on which the cursor is
        self.text = ""  # read, not yet looked at
        self.resized = False  # since the last drawing

    def feed(self, text):
        self.text += text
        while True:
            match = re.match(r"\r([^\r\n\x1b]*)\x1b\[K|\r\n|[^\r\n\x1b]+(?=[\r\n\x1b])", self.text)
            if not match:
                assert not re.match(r"\n|\r[^\r\n\x1b]*[\r\n]|\r?[^\r\n\x1b]*\x1b[^\[]|\x1b\[[^K]", self.text), repr(self.text[:99])
                return
            self.text = self.text[match.end() :]
            self.show(match)

    def show(self, match):
        if match[0] == "\r\n":
            if self.line:
                print(self.line)
            self.line = ""
        elif match[0].endswith(ERASE):
            self.line = match[1]
            if not self.line:
                print("erased")
                return
            assert self.resized or len(self.line) < self.width, f"{len(self.line)} characters of {self.width}: {self.line}"
            self.resized = False
            print(f"bar {self.width}: {self.line}")
        else:
            assert not self.line, f"{match[0]!r} stands after {self.line!r}"
            self.line = match[0]


def read_for(master, terminal, seconds):
    """False at the end."""
    end = time.monotonic() + seconds
    while True:
        ready, _, _ = select.select([master], [], [], max(0, end - time.monotonic()))
        if not ready:
            return True
        try:
            data = os.read(master, 65536)
        except OSError:  # Linux says so when the other side is closed
            return False
        if not data:
            return False
        terminal.feed(data.decode())


def set_width(descriptor, width):
    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))


def main(widths, command):
    master, slave = pty.openpty()
    set_width(master, widths[0])
    terminal = Terminal()
    process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    try:
        for width in itertools.cycle(widths):
            before, terminal.width = terminal.width, max(terminal.width, width)
            set_width(master, width)
            read_for(master, terminal, 0)
            terminal.width = width
            terminal.resized = before != width  # a drawing may be on its way
            if not read_for(master, terminal, 0.5):
                break
        code = process.wait()
    finally:
        process.kill()
    assert code == 0, f"exit code {code}"
    assert terminal.line == "" and terminal.text == "", f"left: {terminal.line!r} {terminal.text!r}"


main([int(width) for width in sys.argv[1].split(",")], sys.argv[2:])
