"""The maximum memory of the webhook, computed from its limits: the memory limit of the manifests.

A change of any limit then changes the manifests too.
"""

from podium.runtime.messages import Limits
from podium.webhooks.bindings import BINDINGS, POD_BYTES, READS
from podium.webhooks.handlers import ADMISSION, CONVERSION, CONVERSION_BYTES, PATIENT_BYTES, PLACES
from podium.webhooks.review import DETAILS_BYTES

# The process with 10,000 groups in its caches, 117 MiB in bench/RESULTS.md, and the allocator's reserve.
_PROCESS_BYTES = 160 << 20
# uvloop's TLS buffer and the pipelined data of a connection, 256 KiB each.
_CONNECTION_BYTES = 512 << 10
# The factor of memory for decoded JSON like `[],[],`.
_DECODED = 24

MEMORY_BYTES = (
    _PROCESS_BYTES
    + Limits().connections * _CONNECTION_BYTES
    # Bodies, and answers that clients have not read yet.
    + ADMISSION.held_bytes
    + CONVERSION.held_bytes
    + BINDINGS.held_bytes
    + READS * POD_BYTES
    # One answer is written at a time.
    + CONVERSION_BYTES
    # The decoded parts of both objects of a review, and of an object converted at the same time.
    + 3 * DETAILS_BYTES
    # The decoded objects of waiting requests.
    + PLACES * PATIENT_BYTES * _DECODED
)
_STEP = 64 << 20
# In a container's `limits`, rounded up.
LIMIT_BYTES = -(-MEMORY_BYTES // _STEP) * _STEP
