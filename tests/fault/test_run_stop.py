"""Stopping beside a store that does not answer."""

import signal

import pytest
import world as w
from server_redis import MISSING, Redis
from world import World, eventually

pytestmark = pytest.mark.skipif(MISSING is not None, reason=str(MISSING))


def test_asked_again_it_does_not_wait_for_the_store():
    """It exits while the store is silent, and its guard releases what it could not."""
    with Redis() as server, World(ttl_ms=600_000, url=server.url()) as world:
        first = world.start()
        row = world.next_leader(0)
        second = world.start()
        eventually("it stands by", lambda: "leads, epoch" in second.words())
        server.pause()
        try:
            first.signal(signal.SIGTERM)
            asked = w.now()
            eventually("the program's end", lambda: "the program ended" in first.words())
            first.signal(signal.SIGQUIT)  # which is another request at once
            prompt = w.now() - asked < w.NS  # else it may have given the release up by itself
            assert first.wait() == 0
        finally:
            server.resume()
        assert "asked again: not waiting for the store" in first.words() or not prompt
        world.next_leader(row.epoch)  # not after a ttl
