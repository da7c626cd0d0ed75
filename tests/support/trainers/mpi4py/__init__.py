"""As much of mpi4py as the example reads, for one rank; it ran with two of MPICH by hand."""

from types import SimpleNamespace

MPI = SimpleNamespace(
    MAX="max", COMM_WORLD=SimpleNamespace(allreduce=lambda value, **_: value, Get_rank=lambda: 0)
)
