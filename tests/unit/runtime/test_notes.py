"""The note in a Lease: the leader's activity when it lost the lease, for the next leader."""

from tests.support.lease.world import NAME, World

from podium.runtime.leaserecord import NOTE


def _leading(world: World) -> None:
    world["a"].start()
    world.run(until=world["a"].works)


def _stored(world: World) -> str | None:
    assert world.server.lease is not None
    annotations = world.server.lease["metadata"].get("annotations") or {}
    found: str | None = annotations.get(NOTE)
    return found


def test_a_note_is_written_at_once_and_goes_with_a_renewal() -> None:
    """The note is about the present: a leader that continues leaves none."""
    with World() as world:
        _leading(world)
        world["a"].elector.set_note("pod/team/slow")
        # The loop wakes up as by a timer of its own.
        world["a"].loop.call_soon(lambda: None)
        world.run(0.5)
        assert _stored(world) == "pod/team/slow"
        world["a"].elector.set_note("")
        world.run(5.0)
        assert _stored(world) is None


def test_the_next_leader_finds_the_note_of_one_that_was_lost() -> None:
    """The next leader removes the note, which is about the former one."""
    with World("ab") as world:
        _leading(world)
        world["a"].elector.set_note("pod/team/slow")
        world["a"].loop.call_soon(lambda: None)
        world.run(0.5)
        world["a"].alive = False
        world["b"].start()
        world.run(until=world["b"].works)
        assert world["b"].elector.found == "pod/team/slow"
        assert _stored(world) is None


def test_a_leader_that_ended_in_order_leaves_no_note() -> None:
    """The entry that it decided did not cause the loss of the lease."""
    with World("ab") as world:
        _leading(world)
        world["a"].elector.set_note("pod/team/slow")
        world["a"].stop()
        world["b"].start()
        world.run(until=world["b"].works)
        assert world["b"].elector.found == ""
        assert _stored(world) is None


def test_other_annotations_stay() -> None:
    """Other clients may keep annotations on the object."""
    with World() as world:
        world.server.put({}, name=NAME, annotations={"other": "kept"})
        _leading(world)
        world["a"].elector.set_note("pod/team/slow")
        world.run(5.0)
        world["a"].elector.set_note("")
        world.run(5.0)
        assert world.server.lease is not None
        assert world.server.lease["metadata"]["annotations"] == {"other": "kept"}
        assert world.server.lease["metadata"]["name"] == NAME
