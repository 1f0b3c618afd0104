"""Which block, and which sentence, is the translation of which: by keys, lengths and literals that both sides have.

Lengths after Gale and Church, A Program for Aligning Sentences in Bilingual Corpora, 1993; a dynamic program over pairs near the
diagonal, in which one side may also have two for one, or nothing.
"""
import math
import re

from texts import sentences

_LITERAL = re.compile(r"[\w./:@-]*[\d_/@][\w./:@-]*|--?\w[\w-]+|\b[A-Z]{2,}\w*")
_BAND = 80  # how far from the diagonal pairs are looked for
_MERGE_COST = 1.5


def _item(key, text):
    return key, len(text), set(literal.strip(".:-") for literal in _LITERAL.findall(text))


def _merged(first, second):
    return first[0], first[1] + second[1], first[2] | second[2]


def _length_cost(a, b):
    return 0.0 if a == 0 and b == 0 else abs(a * 1.08 - b) / math.sqrt(6.8 * (a + b) / 2 + 1)


def _pair_cost(x, y):
    cost = _length_cost(x[1], y[1])
    if x[0] != y[0]:
        cost += 2.5
    if x[2] or y[2]:
        cost += 3.0 * (1 - 2 * len(x[2] & y[2]) / (len(x[2]) + len(y[2])))
    return cost


def _cheapest_path(xs, ys, merges, gap):
    """Ranges (begin of x, end of x, begin of y, end of y) that cover both sides; empty where the band holds no path."""
    n, m = len(xs), len(ys)
    best = [{} for _ in range(n + 1)]  # best[i][j]: (cost, last step) of the best way to align xs[:i] and ys[:j]
    best[0][0] = (0.0, None)

    def reach(i, j, cost, step):
        if cost < best[i].get(j, (math.inf,))[0]:
            best[i][j] = (cost, step)

    for i in range(n + 1):
        middle = i * m // max(n, 1)
        for j in range(max(0, middle - _BAND), min(m, middle + _BAND) + 1):
            if j - 1 in best[i]:
                reach(i, j, best[i][j - 1][0] + gap, (0, 1))
            if j not in best[i] or i == n:
                continue
            cost = best[i][j][0]
            reach(i + 1, j, cost + gap, (1, 0))
            if j < m:
                reach(i + 1, j + 1, cost + _pair_cost(xs[i], ys[j]), (1, 1))
            if merges and j + 1 < m:
                reach(i + 1, j + 2, cost + _MERGE_COST + _pair_cost(xs[i], _merged(ys[j], ys[j + 1])), (1, 2))
            if merges and i + 1 < n and j < m:
                reach(i + 2, j + 1, cost + _MERGE_COST + _pair_cost(_merged(xs[i], xs[i + 1]), ys[j]), (2, 1))
    if m not in best[n]:
        return []
    path, i, j = [], n, m
    while i or j:
        of_x, of_y = best[i][j][1]
        path.append((i - of_x, i, j - of_y, j))
        i, j = i - of_x, j - of_y
    return path[::-1]


def align_blocks(a, b):
    """Pairs of texts of blocks (key, text). The same keys in the same order: one to one."""
    if [key for key, _ in a] == [key for key, _ in b]:
        return [(x, y) for (_, x), (_, y) in zip(a, b)]
    if not a or not b or max(len(a), len(b)) > 3 * min(len(a), len(b)) + 20:
        return []
    path = _cheapest_path([_item(*block) for block in a], [_item(*block) for block in b], merges=False, gap=3.2)
    return [(a[i][1], b[j][1]) for i, i_end, j, j_end in path if i_end > i and j_end > j]


def align_sentences(x, y):
    """Pairs of sentences, or of two with one, of two texts."""
    of_x, of_y = sentences(x), sentences(y)
    if len(of_x) == 1 and len(of_y) == 1:
        return [(x, y)]
    path = _cheapest_path([_item("", s) for s in of_x], [_item("", s) for s in of_y], merges=True, gap=4.0)
    return [(" ".join(of_x[i:i_end]), " ".join(of_y[j:j_end])) for i, i_end, j, j_end in path if i_end > i and j_end > j]
