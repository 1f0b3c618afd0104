"""Blocks of running text in man(7) pages, as blocks.py has them. Pages in mdoc(7) give none, code displays are left out."""
import re

from blocks import read_text

_ESCAPES = [("\\-", "-"), ("\\&", ""), ("\\|", ""), ("\\^", ""), ("\\/", ""), ("\\,", ""), ("\\:", ""), ("\\%", ""),
            ("\\~", " "), ("\\ ", " "), ("\\(aq", "'"), ("\\(cq", "’"), ("\\(oq", "‘"), ("\\(lq", "“"),
            ("\\(rq", "”"), ("\\(dq", '"'), ("\\(em", "—"), ("\\(en", "–"), ("\\(bu", "•"), ("\\(co", "©"),
            ("\\(ga", "`"), ("\\(ha", "^"), ("\\(ti", "~"), ("\\(rs", "\x01"), ("\\e", "\x01"), ("\\(:a", "ä"),
            ("\\(:o", "ö"), ("\\(:u", "ü"), ("\\(ss", "ß"), ("\\c", ""), ("\\'", "'"), ("\\`", "`"), ("\\0", " ")]


def _plain(text):
    """Without the escapes of roff; \\x01 stands for a backslash that is meant."""
    text = re.sub(r'\\".*$', "", text)
    text = re.sub(r"\\f(\[[^]]*\]|\(..|.)", "", text)
    text = re.sub(r"\\s[-+]?\(?\d{1,2}", "", text)
    text = re.sub(r"\\[mM](\[[^]]*\]|\(..)", "", text)
    text = re.sub(r"\\[hvwN]'[^']*'", "", text)
    text = text.replace("\\*(Aq", "'").replace("\\*(lq", "“").replace("\\*(rq", "”")
    for escape, character in _ESCAPES:
        text = text.replace(escape, character)
    text = re.sub(r"\\\[[^]]*\]|\\\*(\[[^]]*\]|\(..|.)|\\\(..|\\.", "", text)
    return text.replace("\x01", "\\")


def _arguments(text):
    """The arguments of a macro: words, or texts in double quotes, in which \"\" is one quote."""
    found = []
    for match in re.finditer(r'"((?:[^"]|"")*)"?|(\S(?:\\ |\S)*)', text):
        quoted = match.group(0).startswith('"')
        found.append((match.group(1) or "").replace('""', '"') if quoted else match.group(2))
    return found


class _ManPage:
    DISPLAY_STARTS = ("nf", "EX", "TS", "de", "ig", "DS")
    DISPLAY_ENDS = ("fi", "EE", "TE", "DE")
    PARAGRAPHS = ("PP", "P", "LP", "HP", "sp", "RS", "RE", "br", "PD")
    ONE_FONT = ("B", "I", "SM", "SB", "R")
    TWO_FONTS = ("BR", "RB", "IR", "RI", "BI", "IB")

    def __init__(self):
        self.blocks, self.texts, self.key = [], [], "PP"
        self.in_display = False
        self.tag_comes = False  # the next text is the tag of a .TP paragraph

    def end_block(self, next_key):
        text = " ".join(self.texts)
        if text.strip():
            self.blocks.append((self.key, text))
        self.texts, self.key = [], next_key

    def end_tag(self):
        if self.tag_comes:
            self.end_block("TPbody")
            self.tag_comes = False

    def read_line(self, line):
        if line.startswith(("'\\\"", ".\\\"", "'''")) or line.strip() in (".", "'"):
            return
        if line.startswith((".", "'")) and not line.startswith("..."):
            self.read_macro(line)
        elif self.in_display:
            return
        elif not line.strip():
            self.end_block("PP")
        else:
            self.texts.append(_plain(line))
            self.end_tag()

    def read_macro(self, line):
        match = re.match(r"[.']\s*(\w+)\s*(.*)", line)
        if not match:
            return
        macro, rest = match.group(1), re.sub(r'\s*\\".*$', "", match.group(2))
        if macro in self.DISPLAY_STARTS:
            self.end_block("PP")
            self.in_display = True
        elif macro in self.DISPLAY_ENDS:
            self.in_display = False
        elif not self.in_display:
            self.read_text_macro(macro, rest)

    def read_text_macro(self, macro, rest):
        if macro in ("SH", "SS"):
            self.end_block(macro)
            if rest:
                self.texts.append(_plain(" ".join(_arguments(rest))))
                self.end_block("PP")
        elif macro in self.PARAGRAPHS:
            self.end_block("PP")
        elif macro in ("TP", "TQ"):
            self.end_block("TPtag")
            self.tag_comes = True
        elif macro == "IP":
            self.end_block("TPtag")
            arguments = _arguments(rest)
            if arguments:
                self.texts.append(_plain(arguments[0]))
            self.end_block("TPbody")
        elif macro in self.ONE_FONT or macro in self.TWO_FONTS:
            self.texts.append(_plain((" " if macro in self.ONE_FONT else "").join(_arguments(rest))))
            self.end_tag()


def man_blocks(path):
    text = read_text(path)
    if re.search(r"^\.(Dd|so) ", text, re.M):
        return []
    page = _ManPage()
    for line in text.replace("\\\n", "").split("\n"):
        page.read_line(line)
    page.end_block("PP")
    return page.blocks
