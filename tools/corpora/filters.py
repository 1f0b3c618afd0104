"""Which sentences, and which pairs of sentences, are good enough for a corpus."""
import re

COMMON_WORDS = {
    "en": set("the of and to is in that for be with you this are if not on or from by can will it as when an "
              "your which has have use used was at all".split()),
    "de": set("der die das und ist in den von zu mit für sie wird werden nicht ein eine einen einer dem des auf "
              "oder wenn als auch im aus bei kann können diese dieser dieses sind es um an zum zur nach hat".split()),
    "fr": set("le la les de des du et est un une pour dans que qui vous sur avec par ce cette il au aux en pas ou "
              "si être sont peut d l plus".split()),
}
_WORD = re.compile(r"[^\W\d_]+")
_MARKUP = re.compile(r"</?\w+[^>]*>|&\w+;|\$\{|\{\{|\\n|\|\||\.\.\.\.|____|%[-+#0-9.$*']*(?:hh?|ll?|q|z|j)?[a-zA-Z]|"
                     r"%[A-Z_]+\b|https?://\S{60,}")


def _words(text):
    return [word.lower() for word in _WORD.findall(text)]


def _mostly_letters(text, share):
    return sum(c.isalpha() or c == " " for c in text) >= share * len(text)


def _speaks(text, language, other):
    words = _words(text)
    own = sum(word in COMMON_WORDS[language] for word in words)
    foreign = sum(word in COMMON_WORDS[other] for word in words)
    return own >= foreign if len(words) < 6 else own > foreign


def is_english_sentence(text):
    """A whole sentence of 4 to 100 words, free of markup, with as many common words as English has."""
    if not 4 <= len(text.split()) <= 100 or text[-1] not in ".!?\"'”’):":
        return False
    if not text[0].isupper() and text[0] not in "\"'“‘(":
        return False
    if not _mostly_letters(text, 0.85) or _MARKUP.search(text) or not text.isprintable():
        return False
    words = _words(text)
    return sum(word in COMMON_WORDS["en"] for word in words) * 12 >= len(words)


def is_translation(english, other, language):
    """Of 3 to 80 words and 500 characters at most, free of markup, of like length, with the same numbers, in two languages."""
    if not 3 <= len(english.split()) <= 80 or not 2 <= len(other.split()) <= 80:
        return False
    if len(english) > 500 or len(other) > 500 or not 0.45 < (len(english) + 8) / (len(other) + 8) < 1.9:
        return False
    if any(not _mostly_letters(text, 0.8) or _MARKUP.search(text) for text in (english, other)):
        return False
    words, other_words = _words(english), _words(other)
    if len(words) < 3 or len(other_words) < 2:
        return False
    if len(set(words) & set(other_words)) > 0.6 * min(len(set(words)), len(set(other_words))):  # not translated
        return False
    numbers, other_numbers = set(re.findall(r"\d+", english)), set(re.findall(r"\d+", other))
    if 2 * len(numbers & other_numbers) < len(numbers | other_numbers):
        return False
    return _speaks(english, "en", language) and _speaks(other, language, "en")
