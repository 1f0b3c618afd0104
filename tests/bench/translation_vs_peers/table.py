"""Columns of text: names on the left, numbers on the right."""


def print_table(rows):
    """Rows of as many texts each; the first row has the headings."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    for name, *numbers in rows:
        cells = [number.rjust(width) for number, width in zip(numbers, widths[1:])]
        print("  ".join([name.ljust(widths[0]), *cells]), flush=True)
