"""Split the body of a watch into lines of any length, in linear time and bounded memory.

aiohttp's line reader raises an error at twice the size of its buffer. A watch must survive every object that
an API server stores. client-go skips a frame of more than 16 MiB and continues, and so does this module.
"""

# The longest line that is read whole. kube-apiserver sends at most 2 MiB to etcd, whatever limit etcd has,
# because it keeps the default send limit of its etcd client (etcd clientv3, options.go). Go's JSON encoder
# writes at most six bytes for one byte of a string (`<` is \u003c): 12 MiB. The rest is for field names,
# which the protobuf in etcd omits. client-go has the same limit.
LONGEST_LINE = 16 << 20


class LineSplitter:
    """Splits chunks into lines; stores the beginning of one line, at most `longest` bytes."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._begun = bytearray()

    @property
    def unfinished(self) -> bool:
        """Return whether a line has begun and not ended."""
        return bool(self._begun)

    def split(self, chunk: bytes) -> list[bytes]:
        r"""Return the lines that end in this chunk, each with its `\n`.

        The part of a line beyond `longest` is dropped, and its `\n` with it. Every other line ends with `\n`.
        """
        *ended, rest = chunk.split(b"\n")
        lines = []
        for part in ended:
            self._append(part + b"\n")
            lines.append(bytes(self._begun))
            self._begun.clear()
        self._append(rest)
        return lines

    def _append(self, part: bytes) -> None:
        self._begun += part[: max(0, self._longest - len(self._begun))]
