"""The functions of C++ code and how long they are, for the check of their length."""
import re

# What holds no structure: comments, texts and characters. An apostrophe between digits divides them.
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:[^"\\\n]|\\.)*"|(?<![0-9a-fA-F])\'(?:[^\'\\\n]|\\.)+\'',
                     re.DOTALL)
DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.MULTILINE)
SPACE = re.compile(r"[^\n]")
NAMESPACE = re.compile(r"\bnamespace\b|\bextern\s*_")
TYPE = re.compile(r"(?:template\s*<.*>\s*)?(?:\w+\s+)*(?:class|struct|union|enum)\b", re.DOTALL)
NO_BODY = re.compile(r"[=,(]$|\breturn$")


def opens(head, before):
    """What a brace opens that stands in a namespace or a type: 'scope', 'body' or 'value'.

    head: all since the statement began; before: the character in front of the brace."""
    head = head.strip()
    if NAMESPACE.search(head) or (TYPE.match(head) and not head.endswith(")")):
        return "scope"
    if before.isspace() and "(" in head and not NO_BODY.search(head):
        return "body"
    return "value"


def functions_of(code):
    """(first line, number of lines) of every function with a body, from its name or type on; lambdas count for the
    function in which they stand."""
    code = NO_CODE.sub(lambda m: SPACE.sub(" " if m.group().startswith("/") else "_", m.group()), code)
    code = DIRECTIVE.sub(lambda m: SPACE.sub(" ", m.group()), code)
    open_braces, head, line, head_line = [], "", 1, 1
    for i, c in enumerate(code):
        if c == "\n":
            line += 1
        if c == "{":
            is_inside = any(kind == "body" for kind, _ in open_braces)
            kind = "value" if is_inside else opens(head, code[i - 1:i])
            open_braces.append((kind, head_line))
            head = head + c if kind == "value" else ""
        elif c == "}" and open_braces:
            kind, first = open_braces.pop()
            if kind == "body":
                yield first, line - first + 1
            head = head + c if kind == "value" else ""
        elif c == ";" and all(kind != "value" for kind, _ in open_braces):
            head = ""
        else:
            if not head.strip() and not c.isspace():
                head_line = line
            head += c
