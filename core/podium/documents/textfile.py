"""A file's bytes as text: gzip opened, UTF-8 proven, and cut where JSON values and YAML begin.

Everything after this works on one memoryview of the whole text, so that a gigabyte is held once.
"""

import re
import zlib
from collections.abc import Iterator

import msgspec

from podium.documents import jsondoc

_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"
_CHUNK = 1 << 20
# What gzip may hold: four times the dump of 100,000 pods. A piece unpacks to a thousand times itself at most.
MAX_UNPACKED = 4 << 30
_PIECE = 64 << 10
# JSON is told from YAML's flow style by the quote of its first key.
_JSON_START = re.compile(rb'\{[ \t\r\n]*(?:["}]|\Z)|\[')
# Some tools write YAML's separator between JSON values.
_SEPARATOR = re.compile(rb"---[ \t]*(?:\r?\n|\Z)")


class TextError(Exception):
    """Why bytes are not text; `line` is 1-based, or None where lines mean nothing."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line


class Section(msgspec.Struct, gc=False):
    """One JSON value, or all of a YAML stream: where it starts and the 1-based number of its first document.

    Whoever reads a JSON value notes its end here, which spares the search for it.
    """

    start: int
    number: int
    yaml: bool
    end: int | None = None


def expand(data: bytes | bytearray | memoryview) -> memoryview:
    """Give a file's text: gunzipped if it is gzip, no byte order mark, valid UTF-8. Raises TextError."""
    view = memoryview(data)
    if view[:2] == _GZIP:
        view = memoryview(_gunzip(view))
    if view[:3] == _BOM:
        view = view[3:]
    _check_utf8(view)
    return view


def _gunzip(view: memoryview) -> bytearray:
    # Into one growing buffer: gzip.decompress holds the text twice while it joins it.
    text = bytearray()
    while view:
        member = zlib.decompressobj(wbits=31)
        fed = 0
        while not member.eof:
            if fed == len(view):
                raise TextError("the gzip data ends too early: the file is not whole")
            piece = view[fed : fed + _PIECE]
            try:
                text += member.decompress(piece)
            except zlib.error as error:
                raise TextError(f"the gzip data is damaged ({error})") from None
            if len(text) > MAX_UNPACKED:
                raise TextError(
                    f"the gzip data holds more than {MAX_UNPACKED >> 20} MiB: unpack it and cut it"
                )
            fed += len(piece)
        view = view[fed - len(member.unused_data) :]
        while view and view[0] == 0:  # Padding some tools write after the last member.
            view = view[1:]
    return text


def _check_utf8(view: memoryview) -> None:
    start = 0
    while start < len(view):
        chunk = bytes(view[start : start + _CHUNK])
        if not chunk.isascii():
            try:
                chunk.decode()
            except UnicodeDecodeError as error:
                whole = start + len(chunk) == len(view)
                if whole or error.reason != "unexpected end of data":
                    offset = start + error.start
                    raise TextError(f"not UTF-8 (byte {offset})", line_breaks(view, offset) + 1) from None
                # A character cut in two by the chunk's end: the next chunk starts with it.
                chunk = chunk[: error.start]
        start += len(chunk)


def line_breaks(view: memoryview, end: int) -> int:
    """Count the line breaks before an offset."""
    return sum(bytes(view[start : min(start + _CHUNK, end)]).count(b"\n") for start in range(0, end, _CHUNK))


def sections(text: memoryview) -> Iterator[Section]:
    """Cut a text into JSON values, one after the other, and YAML to the end. Raises JsonError."""
    offset, number = jsondoc.skip_space(text, 0), 1
    while offset < len(text):
        separator = _SEPARATOR.match(text, offset)
        start = jsondoc.skip_space(text, separator.end()) if separator is not None else offset
        if _JSON_START.match(text, start) is None:
            # Its separator is YAML's own: without it a comment or a directive may be misread.
            yield Section(offset, number, yaml=True)
            return
        section = Section(start, number, yaml=False)
        yield section
        end = section.end if section.end is not None else jsondoc.end_of_value(text, start)
        offset = jsondoc.skip_space(text, end)
        number += 1
