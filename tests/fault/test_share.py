"""A share that is unmounted under a leader: what lies under the mount point is not its store."""

import pytest

import world as w
from share import Share, missing

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))

URLS = {"file": "file:{}", "sqlite": "sqlite:{}/ha.db"}


def has_run(world, candidate, since, ttls):
    """Wait until that one's programs have lived for so long, by their own signs of life."""

    def look():
        last = max((r.last for r in world.table.programs() if r.id == candidate.name), default=0)
        return last - since > ttls * world.ttl_ms * 1_000_000

    w.eventually(f"{candidate.name} has led for {ttls} ttls", look)


@pytest.mark.parametrize("scheme", URLS)
def test_unmounted_under_a_leader(scheme):
    """It leads no more and makes nothing; when the share is back, so is it (I1, I11)."""
    with Share() as share, w.World(url=URLS[scheme].format(share.mount("here")), ttl_ms=2000) as world:
        leader = world.start()
        world.next_leader(0)
        world.url = URLS[scheme].format(share.mount("there"))
        other = w.stand_by(world)
        before = world.table.top()
        under = share.unmount("here")
        # Long enough for every thread to have opened it again.
        has_run(world, other, world.next_leader(before).started, 2)
        assert list(under.iterdir()) == [] and leader.proc.poll() is None
        assert {r.id for r in world.table.programs() if r.epoch > before} == {other.name}
        share.mount("here")
        other.end()
        w.eventually("it leads again", lambda: any(
            r.id == leader.name and r.epoch > before for r in world.table.programs()))


@pytest.mark.parametrize("scheme", URLS)
def test_unmounted_under_a_standby(scheme):
    """Its state is there: it makes no other one when its turn comes, and leads when the share is back."""
    with Share() as share, w.World(ttl_ms=5000) as world:
        leader = world.start()
        before = world.next_leader(0).epoch
        state = URLS[scheme].format(share.mount("here"))
        other = world.start(options=["--state", state])
        w.eventually("it has met its state", lambda: list((share.dir / "here").iterdir()))
        w.eventually("it stands by", lambda: f"{leader.name} leads" in other.words())
        under = share.unmount("here")
        leader.end()
        world.forget(leader)
        w.eventually("it cannot seal", lambda: "seal" in other.words())
        assert list(under.iterdir()) == [] and world.table.top() == before
        share.mount("here")
        world.next_leader(before)


def test_another_store_under_the_share():
    """Somebody made one there by mistake: who uses the share does not go over to it."""
    with Share() as share, w.World(url=f"file:{share.dir}/here", ttl_ms=2000) as world:
        made = world.start()
        world.next_leader(0)
        made.end()
        world.forget(made)
        share.mount("here")
        before = world.table.top()
        leader = world.start()
        world.next_leader(before)
        share.unmount("here")
        w.eventually("it is told", lambda: "holds another store than before" in leader.words())
        w.eventually("it leads no more", lambda: not world.processes())
        before = world.table.top()
        share.mount("here")
        assert world.next_leader(before).id == leader.name
