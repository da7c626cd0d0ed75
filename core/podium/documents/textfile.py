"""Turn a file's bytes into text: gzip unpacked, UTF-8 checked, split where JSON values and YAML begin.

Later steps work on one memoryview of the whole text, so that a gigabyte is in memory once.
"""

import re
import zlib
from collections.abc import Iterator
from typing import IO

import msgspec

from podium.documents import jsondoc

_GZIP = b"\x1f\x8b"
_TAR, _TAR_OFFSET = b"ustar", 257
_BOM = b"\xef\xbb\xbf"
_CHUNK = 1 << 20
# Maximum size of a file, and of what a gzip file holds: four times the dump of 100,000 pods.
MAX_BYTES = 4 << 30
_PIECE = 64 << 10
# The quote of the first key distinguishes JSON from YAML's flow style.
_JSON_START = re.compile(rb'\{[ \t\r\n]*(?:["}]|\Z)|\[')
# Some tools write YAML's separator between JSON values.
_SEPARATOR = re.compile(rb"---[ \t]*(?:\r?\n|\Z)")


class TextError(Exception):
    """The reason why bytes are not text; `line` is 1-based, or None if the data has no lines."""

    def __init__(self, problem: str, line: int | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.line = line


class Section(msgspec.Struct, gc=False):
    """A JSON value, or a whole YAML stream: its start and the 1-based number of its first document.

    The reader of a JSON value sets its end here, which saves the search for it.
    """

    start: int
    number: int
    yaml: bool
    end: int | None = None


def read(stream: IO[bytes]) -> bytearray:
    """Return all bytes of a file, a pipe or a device. Raises TextError for more than MAX_BYTES, and OSError.

    The size is counted while reading, because a file may grow, and a device may have no end.
    """
    data = bytearray()
    while piece := stream.read(_CHUNK):
        data += piece
        if len(data) > MAX_BYTES:
            raise TextError(f"the file is larger than {MAX_BYTES >> 20} MiB. Split it")
        if b"\0" in piece and data[:2] != _GZIP:
            break  # No text follows a zero byte, and /dev/zero has nothing else.
    return data


def expand(data: bytes | bytearray | memoryview) -> memoryview:
    """Return a file's text: unpacked if gzip, no byte order mark, valid UTF-8. Raises TextError."""
    view = memoryview(data)
    if view[:2] == _GZIP:
        view = memoryview(_gunzip(view))
    if view[_TAR_OFFSET : _TAR_OFFSET + len(_TAR)] == _TAR:
        raise TextError("this is a tar archive. Extract it, and name the folder")
    if view[:3] == _BOM:
        view = view[3:]
    _check_utf8(view)
    return view


def _gunzip(view: memoryview) -> bytearray:
    # One growing buffer is used, because gzip.decompress holds the text twice while it joins it.
    text = bytearray()
    while view:
        member = zlib.decompressobj(wbits=31)
        fed = 0
        while not member.eof:
            if fed == len(view):
                raise TextError("the gzip data is truncated")
            piece = view[fed : fed + _PIECE]
            try:
                text += member.decompress(piece)
            except zlib.error as error:
                raise TextError(f"the gzip data is damaged ({error})") from None
            if len(text) > MAX_BYTES:
                raise TextError(f"the gzip data unpacks to more than {MAX_BYTES >> 20} MiB. Split the file")
            fed += len(piece)
        view = view[fed - len(member.unused_data) :]
        while view and view[0] == 0:  # Some tools write padding after the last member.
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
                # The chunk's end cuts a character in two: the next chunk starts with it.
                chunk = chunk[: error.start]
        start += len(chunk)


def line_breaks(view: memoryview, end: int) -> int:
    """Return the number of line breaks before an offset."""
    return sum(bytes(view[start : min(start + _CHUNK, end)]).count(b"\n") for start in range(0, end, _CHUNK))


def sections(text: memoryview) -> Iterator[Section]:
    """Yield the JSON values of a text in sequence, and YAML to the end. Raises JsonError."""
    offset, number = jsondoc.skip_space(text, 0), 1
    while offset < len(text):
        separator = _SEPARATOR.match(text, offset)
        start = jsondoc.skip_space(text, separator.end()) if separator is not None else offset
        if _JSON_START.match(text, start) is None:
            # The separator belongs to the YAML: without it a comment or a directive may be misread.
            yield Section(offset, number, yaml=True)
            return
        section = Section(start, number, yaml=False)
        yield section
        end = section.end if section.end is not None else jsondoc.end_of_value(text, start)
        offset = jsondoc.skip_space(text, end)
        number += 1
