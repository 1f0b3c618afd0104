"""Blocks of running text in documentation: HTML, Mallard (GNOME help), man pages, POD, reStructuredText, dictd, fortunes.

Each reader turns a file into pairs (key, text). A key names the kind of block: its tag or macro, and an id where the format has
one. Two translations of a document have nearly the same keys in the same order: alignment.py relies on it.
"""
import gzip
import html.parser
import re
import xml.etree.ElementTree


def read_bytes(path):
    with (gzip.open if str(path).endswith((".gz", ".dz")) else open)(path, "rb") as file:
        return file.read()


def read_text(path):
    return read_bytes(path).decode("utf-8", "replace")


class _Html(html.parser.HTMLParser):
    BLOCKS = {"p", "h1", "h2", "h3", "h4", "h5", "h6", "li", "td", "th", "dt", "dd", "title", "div", "caption",
              "blockquote", "figcaption", "summary", "tr", "table", "ul", "ol", "dl", "body", "section"}
    SKIPPED = {"script", "style", "pre", "nav", "aside", "header", "footer", "button", "form", "textarea", "svg"}
    SKIPPED_CLASSES = {"navheader", "navfooter", "headerlink", "sphinxsidebar", "related", "MAC", "programlisting",
                       "screen", "docnav", "bookmark", "toc", "highlight", "nocode", "glossary-nav", "legalnotice"}
    EMPTY = {"br", "img", "hr", "meta", "link", "input", "col", "wbr", "area", "base", "source"}

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.blocks, self.texts, self.key = [], [], "top"
        self.open_tags, self.skipped_from = [], None

    def end_block(self):
        text = "".join(self.texts)
        self.texts = []
        if text.strip():
            self.blocks.append((self.key, text))

    def handle_starttag(self, tag, attributes):
        if tag in self.EMPTY:
            if tag in ("br", "hr"):
                self.texts.append(" ")
            return
        attributes = dict(attributes)
        self.open_tags.append(tag)
        if self.skipped_from is not None:
            return
        if tag in self.SKIPPED or set((attributes.get("class") or "").split()) & self.SKIPPED_CLASSES:
            self.skipped_from = len(self.open_tags)
        elif tag in self.BLOCKS:
            self.end_block()
            name = attributes.get("id") or ""
            self.key = tag + ("#" + name if name.startswith(("par_", "hd_")) else "")

    def handle_endtag(self, tag):
        if tag in self.EMPTY or tag not in self.open_tags:
            return
        while self.open_tags:
            last = self.open_tags.pop()
            if self.skipped_from is not None and len(self.open_tags) < self.skipped_from:
                self.skipped_from = None
            elif self.skipped_from is None and last in self.BLOCKS:
                self.end_block()
            if last == tag:
                break

    def handle_data(self, data):
        if self.skipped_from is None:
            self.texts.append(data)


def html_blocks(path):
    page = _Html()
    page.feed(read_text(path))
    page.close()
    page.end_block()
    return page.blocks


_MALLARD_SKIPPED = ("credit", "license", "code", "screen", "media", "comment", "revision", "link")


def mallard_blocks(path):
    blocks = []

    def visit(element):
        tag = element.tag.rsplit("}", 1)[-1] if isinstance(element.tag, str) else ""
        if tag in _MALLARD_SKIPPED:
            return
        if tag in ("p", "title", "desc", "cite"):
            text = "".join(element.itertext())
            if text.strip():
                blocks.append((tag + (":" + element.get("type") if element.get("type") else ""), text))
            return
        for child in element:
            visit(child)

    try:
        visit(xml.etree.ElementTree.fromstring(re.sub(rb"&(?!amp;|lt;|gt;|quot;|apos;|#)\w+;", b"", read_bytes(path))))
    except xml.etree.ElementTree.ParseError:
        return []
    return blocks


def paragraphs(text):
    return re.split(r"\n[ \t]*\n", text)


def rst_blocks(path):
    for paragraph in paragraphs(read_text(path)):
        start = paragraph.strip("\n")
        if start.startswith((" ", "\t", "..", ":", "+-", "==", "|", "#")):  # literal blocks, directives, tables
            continue
        lines = [line for line in paragraph.split("\n") if not re.fullmatch(r"\s*([=\-~^\"*+#`.])\1{2,}\s*", line)]
        text = re.sub(r":\w+:`([^`<]*)(<[^>]*>)?`", r"\1", " ".join(lines))
        yield "", re.sub(r"`{1,2}|\*{1,2}|::$", "", text)


def pod_blocks(path):
    for paragraph in paragraphs(read_text(path)):
        if paragraph.startswith((" ", "\t", "=begin", "=for", "=encoding")):
            continue
        text = re.sub(r"^=\w+\s*", "", paragraph)
        for _ in range(3):  # formatting codes stand within each other
            text = re.sub(r"[BICFSXZLE]<<?\s?([^<>]*?)\s?>?>", lambda code: code.group(1).split("|")[0], text)
        yield "", text


def fortune_blocks(path):
    for fortune in read_text(path).split("\n%\n"):
        yield "", re.sub(r"\n\s*(--|—).*$", "", fortune, flags=re.S)


def dictd_blocks(path):
    for paragraph in paragraphs(read_text(path)):
        yield "", re.sub(r"[{}]|<[^>]*>", "", paragraph)
