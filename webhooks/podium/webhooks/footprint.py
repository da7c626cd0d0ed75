"""The memory that the webhook takes at most, by its limits: the memory limit of the manifests."""

from podium.service.limits import Limits
from podium.webhooks.handlers import ADMISSION, CONVERSION, CONVERSION_BYTES, PATIENT_BYTES
from podium.webhooks.review import DETAILS_BYTES
from podium.webhooks.room import PLACES

# The process with 10,000 groups in its caches, 117 MiB in bench/RESULTS.md, and what the allocator keeps.
_PROCESS_BYTES = 160 << 20
# Of a connection uvloop's TLS buffer and what a client may send ahead of its answer, 256 KiB each.
_CONNECTION_BYTES = 512 << 10
# JSON like `[],[],` takes this many times its bytes when it is decoded.
_DECODED = 24

MEMORY_BYTES = (
    _PROCESS_BYTES
    + Limits().connections * _CONNECTION_BYTES
    # Bodies, and answers that are being read.
    + ADMISSION.held_bytes
    + CONVERSION.held_bytes
    # One answer is written at a time.
    + CONVERSION_BYTES
    # The parts that are decoded: of the two objects of a review, and of the one that is converted meanwhile.
    + 3 * DETAILS_BYTES
    # What waiting requests are judged by again.
    + PLACES * PATIENT_BYTES * _DECODED
)
_STEP = 64 << 20
# In a container's `limits`, rounded up.
LIMIT_BYTES = -(-MEMORY_BYTES // _STEP) * _STEP
