"""The texts of C++ code, for the checks that read them."""
import re

# A text, with those that follow directly.
TEXTS = re.compile(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*')
SEAM = re.compile(r'"\s*"')


def texts_of(code):
    """(line number, text) of every text outside comments that have a line of their own."""
    code = re.sub(r"(?m)^\s*//.*$", "", code)
    for text in TEXTS.finditer(code):
        yield code.count("\n", 0, text.start()) + 1, SEAM.sub("", text.group(0)[1:-1])
