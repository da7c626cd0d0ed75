"""The devices of a pod: which devices of a node its claims get, as kube-scheduler's allocator decides."""
