"""Tables as Parquet files, which other programs read.

A table becomes one row group with one page per column, plain values compressed by gzip. That is the
simplest file of the format, and takes a page of code; what else could write it takes 180 MB.

References
----------
The format: https://github.com/apache/parquet-format. Its header and footer are structures of Apache
Thrift in the compact protocol; fields go by number here, and the comments name them.
"""

from __future__ import annotations

import gzip
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fedbandits.simulation.tables import Table

_MAGIC = b"PAR1"
_BOOLEAN, _INT64, _DOUBLE, _BYTES = 0, 2, 5, 6
_PLAIN, _RLE = 0, 3  # encodings
_GZIP = 2
_REQUIRED, _OPTIONAL = 0, 1
_UTF8 = 0


def write_parquet(table: Table, path: Path) -> None:
    """Write a table whose columns hold truth values, integers, floats or text, and None.

    A column of integers and floats is one of floats. Columns without a value are taken for floats.

    Parameters
    ----------
    table : Table
        Columns of one length; lists or arrays.
    path : Path
        The file, which is replaced.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_parquet({"slot": [1, 2], "mean": [0.5, None]}, Path(folder) / "table.parquet")
    """
    rows = len(next(iter(table.values()), ()))
    content = bytearray(_MAGIC)
    schema: list[Any] = [{4: "schema", 5: len(table)}]  # name, number of children
    chunks: list[Any] = []
    for name, column in table.items():
        kind, values, present = _plain(column)
        some_are_missing = not present.all()
        plain = (_levels(present) if some_are_missing else b"") + values
        packed = gzip.compress(plain, compresslevel=4, mtime=0)
        page = {5: {1: rows, 2: _PLAIN, 3: _RLE, 4: _RLE}}
        header = _struct({1: 0, 2: len(plain), 3: len(packed), **page})  # sizes of a data page
        element = {1: kind, 3: _OPTIONAL if some_are_missing else _REQUIRED, 4: name}
        schema.append(element | ({6: _UTF8} if kind == _BYTES else {}))
        described = {
            1: kind,
            2: [_PLAIN, _RLE],
            3: [name],
            4: _GZIP,
            5: np.int64(rows),
            6: np.int64(len(header) + len(plain)),
            7: np.int64(len(header) + len(packed)),
            9: np.int64(len(content)),  # where the page begins
        }
        chunks.append({2: np.int64(len(content)), 3: described})
        content += header + packed
    group = {1: chunks, 2: np.int64(len(content)), 3: np.int64(rows)}
    footer = _struct({1: 1, 2: schema, 3: np.int64(rows), 4: [group], 6: "fedbandits"})
    content += footer + len(footer).to_bytes(4, "little") + _MAGIC
    path.write_bytes(content)


def _plain(column: Sequence[Any]) -> tuple[int, bytes, np.ndarray]:
    """Return the type of a column, its values one after the other, and where there is one."""
    present = np.array([value is not None for value in column], dtype=bool)
    found = [value for value in column if value is not None]
    if any(isinstance(value, str) for value in found):
        texts = [value.encode() for value in found]
        return _BYTES, b"".join(len(text).to_bytes(4, "little") + text for text in texts), present
    array = np.array(found)
    if array.dtype == np.bool_:
        return _BOOLEAN, np.packbits(array, bitorder="little").tobytes(), present
    if np.issubdtype(array.dtype, np.integer):
        return _INT64, array.astype("<i8").tobytes(), present
    return _DOUBLE, array.astype("<f8").tobytes(), present


def _levels(present: np.ndarray) -> bytes:
    """Return which rows have a value: one run of bits, after its length."""
    bits = np.packbits(present, bitorder="little").tobytes()
    run = _number(len(bits) << 1 | 1) + bits
    return len(run).to_bytes(4, "little") + run


def _struct(fields: dict[int, Any]) -> bytes:
    """Return a structure: every field after the distance to its number, and its type."""
    content, last = bytearray(), 0
    for number, value in fields.items():
        kind, encoded = _encoded(value)
        content += bytes([(number - last) << 4 | kind]) + encoded
        last = number
    return bytes(content) + b"\0"


def _encoded(value: Any) -> tuple[int, bytes]:
    """Return the type of a value, and the value; integers of NumPy are those of 64 bits."""
    if isinstance(value, dict):
        return 12, _struct(value)
    if isinstance(value, list):
        kind = _encoded(value[0])[0] if value else 12
        n = len(value)
        size = bytes([n << 4 | kind]) if n < 15 else bytes([0xF0 | kind]) + _number(n)
        return 9, size + b"".join(_encoded(each)[1] for each in value)
    if isinstance(value, str):
        return 8, _number(len(value.encode())) + value.encode()
    return (6 if isinstance(value, np.int64) else 5), _number(2 * int(value))


def _number(number: int) -> bytes:
    """Return a number of at least 0: seven bits a byte, the lowest first."""
    content = bytearray()
    while number > 0x7F:
        content.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes(content) + bytes([number])
