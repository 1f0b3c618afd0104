"""Lines of text: tidying, cutting into sentences, and what two lines have in common."""
import hashlib
import re

_SPACE = re.compile(r"\s+")
_UNSEEN = re.compile(r"[\u0000-\u0008\u000b-\u001f\u007f\u00ad\u200b-\u200f\u2060\ufeff\ufffd]")
_NO_BREAK_SPACE = re.compile("[\u00a0\u202f]")


def clean(text):
    """One line: no control or zero-width characters, single spaces, none before a stop."""
    text = _UNSEEN.sub("", _NO_BREAK_SPACE.sub(" ", text))
    text = _SPACE.sub(" ", text).strip()
    return re.sub(r" ([,.;:!?)])(?=\s|$)", r"\1", text)


def clean_french(text):
    return clean(re.sub("[\u00a0\u202f ]([;:!?»])", r" \1", text))


def same_but_for_details(text):
    """A key that lines share when they differ only in case, digits or punctuation."""
    return re.sub(r"[^\w]+", "", re.sub(r"\d+", "0", text.lower()))


def stable_hash(text):
    """The same number on every machine."""
    return int.from_bytes(hashlib.sha256(text.encode("utf-8")).digest()[:8], "big")


_ABBREVIATIONS = set("""e.g i.e etc vs cf dr mr mrs ms prof st no vol fig sec z.b d.h u.a bzw usw ggf ca evtl nr vgl
inkl abs bspw sog u.u o.ä i.d.r s.o s.u z.t p.ex m mme env resp approx incl max min std jr sr inc ltd co dt engl
z d u b h""".split())
_END = re.compile(r"""([.!?…]['"”’»«“)\]]*)\s+(?=['"„“‚»«(\[]?[A-ZÄÖÜÀÂÇÉÈÊÎÔŒ0-9])""")


def sentences(text):
    """The sentences of a paragraph; a stop after a known abbreviation, a lone letter or an ordinal ends none."""
    found, start = [], 0
    for end in _END.finditer(text):
        words = text[start:end.start()].split()
        word = words[-1].lower().strip("(\"'„“»«") if words else ""
        if end.group(1)[0] == ".":
            if word in _ABBREVIATIONS or word.rstrip(".") in _ABBREVIATIONS or (len(word) == 1 and word.isalpha()):
                continue
            if word.isdigit() and len(word) <= 2:  # "am 3. Mai"
                continue
        found.append(text[start:end.end(1)].strip())
        start = end.end()
    rest = text[start:].strip()
    return found + [rest] if rest else found
