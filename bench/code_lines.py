"""Count the lines of code under some folders: without docstrings, comments and blank lines.

``make lines`` counts ``src``. A line counts if it holds a token of code; a docstring is a string
that stands alone as a statement.
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import Counter
from pathlib import Path

_NO_CODE = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


def code_lines(source: str) -> int:
    """Return how many lines of a module hold code."""
    held: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _NO_CODE:
            held.update(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(source)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            held.difference_update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(held)


def main(folders: list[str]) -> None:
    """Print the lines of code of every package under the folders, and of all together."""
    lines: Counter[str] = Counter()
    for folder in map(Path, folders):
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).parts
            lines["/".join(parts[: min(2, len(parts) - 1)])] += code_lines(
                path.read_text(encoding="utf-8")
            )
    for package, count in sorted(lines.items()):
        print(f"{count:7,}  {package}")
    print(f"{sum(lines.values()):7,}  lines of code")


if __name__ == "__main__":
    main(sys.argv[1:] or ["src"])
