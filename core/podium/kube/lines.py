"""Split the body of a watch into lines, whatever their length, in linear time and bounded memory.

aiohttp's own line reader raises an error at twice the size of its buffer. A watch must survive any object
that an API server stores: client-go skips a frame of more than 16 MiB and reads on, and so does this.
"""

# The longest line that is read whole. kube-apiserver sends an object of at most 2 MiB to etcd, whatever etcd
# would take: it leaves the send limit of its etcd client at the default (etcd clientv3, options.go). JSON of
# Go's encoder has at most six bytes for one of a string (`<` is \u003c): 12 MiB. The rest is for the names of
# fields, which the protobuf in etcd does not have. client-go has the same limit.
LONGEST_LINE = 16 << 20


class LineSplitter:
    """Splits chunks into lines; holds the beginning of one line, at most `longest` bytes."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._begun = bytearray()

    @property
    def unfinished(self) -> bool:
        """Whether a line has begun and has not ended."""
        return bool(self._begun)

    def split(self, chunk: bytes) -> list[bytes]:
        r"""Return the lines that end in this chunk, each with its `\n`.

        Of a line that is longer than `longest` the rest is dropped: it is the only one without `\n`.
        """
        *ended, rest = chunk.split(b"\n")
        lines = []
        for part in ended:
            self._take(part + b"\n")
            lines.append(bytes(self._begun))
            self._begun.clear()
        self._take(rest)
        return lines

    def _take(self, part: bytes) -> None:
        # A slice past the end is the whole of it, without a copy.
        self._begun += part[: max(0, self._longest - len(self._begun))]
