"""Letters and replies as QR codes: text that a scanner types, in place of a file.

The text is the file without blanks, compressed, in base 45 (RFC 9285): its characters are those
that QR codes hold most densely. A signature covers what is in a file, however it was carried.
"""

import hashlib
import io
import json
import zlib
from pathlib import Path

from fedbandits.errors import InputError
from fedbandits.federation.state_files import write_whole

PREFIX = "FEDBANDITS:"
"""What the text of every code begins with."""

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ $%*+-./:"


def packed(content: bytes) -> str:
    """Return the text of a code for what is in a file of JSON.

    Examples
    --------
    >>> packed(b'{"format": 1}')
    'FEDBANDITS:NCFWTLMK9*161Y9YEACI6KS06Q3%N0'
    >>> unpacked(packed(b'{"format": 1}').encode(), "a file", most=100)
    b'{"format":1}'
    """
    plain = json.dumps(json.loads(content), separators=(",", ":"), ensure_ascii=False).encode()
    found = []
    small = zlib.compress(plain, 9)
    for start in range(0, len(small), 2):
        pair = small[start : start + 2]
        number = int.from_bytes(pair)
        for _ in range(len(pair) + 1):
            number, digit = divmod(number, 45)
            found.append(_ALPHABET[digit])
    return PREFIX + "".join(found)


def unpacked(content: bytes, where: str, *, most: int) -> bytes:
    """Return what is in a file; if that is the text of a code, what the code was made of.

    Parameters
    ----------
    content : bytes
        Of the file.
    where : str
        What to call it in messages.
    most : int
        How many bytes it may become.

    Raises
    ------
    InputError
        If it begins like the text of a code and goes on like none.
    """
    if not content.startswith(PREFIX.encode()):
        return content
    text = content.decode("latin-1").removeprefix(PREFIX).rstrip("\r\n")
    try:
        found = bytearray()
        for start in range(0, len(text), 3):
            triple = text[start : start + 3]
            number = sum(_ALPHABET.index(digit) * 45**place for place, digit in enumerate(triple))
            found += number.to_bytes(len(triple) - 1)
        opened = zlib.decompressobj()
        plain = opened.decompress(bytes(found), most)
        whole = opened.eof and not opened.unused_data
    except (ValueError, OverflowError, zlib.error):
        whole = False
    if not whole:
        raise InputError(where, "is not the whole text of a code; scan it once more")
    return plain


def write_code(path: Path) -> Path | None:
    """Draw the code of a letter or reply beside its file; None if it is too large for one.

    Raises
    ------
    InputError
        If segno is not installed, or the picture cannot be written.
    """
    try:
        import segno  # noqa: PLC0415 - an extra
    except ModuleNotFoundError:
        raise InputError("segno", 'is not installed; pip install "fedbandits[qr]"') from None
    try:
        code = segno.make_qr(packed(path.read_bytes()), error="m", boost_error=False)
    except segno.DataOverflowError:
        return None
    picture = path.with_suffix(".png")
    drawn = io.BytesIO()
    code.save(drawn, kind="png", scale=6)
    write_whole(picture, drawn.getvalue())
    return picture


def write_scanned(text: str, folder: Path, ending: str) -> Path:
    """Write what a scanner has typed into a file, which can be read like any letter or reply."""
    name = hashlib.sha256(text.encode()).hexdigest()[:12]
    path = folder / f"scanned-{name}{ending}"
    write_whole(path, text)
    return path
