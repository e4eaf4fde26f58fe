"""Every server store, every fault that they share: whole candidates (tenure run, its guard, a
program) on a real server that fails.

The judge is the table of the witnesses: at the end of every World no two terms may have
overlapped, and later epochs must have run later (I1, I2).  docs/reference/stores/faults.md is the list.
"""

import json
import signal
import subprocess

import pytest
from disk import can_mount
from process import until
from tenure import Store
from world import PATIENCE, TENURE, kept, pair

# Long enough for any machine, and renewed so often that nobody waits for it.
KEPT = 60000
OFTEN = ["--renew", "300ms"]


def held(rig, url=None, leader_url=None):
    """A pair whose lease nobody may lose."""
    return pair(url or rig.url(), KEPT, leader_url, OFTEN)


def brief(rig, url=None, leader_url=None):
    """A pair whose lease is meant to end."""
    return pair(url or rig.url(), rig.ttl_ms, leader_url)


def said(candidate, *words):
    """The person on call is told, in one of these words."""
    until(lambda: any(word in candidate.words() for word in words))


# ---- The server ----------------------------------------------------------------------------------

def test_clean_stop_and_crash_pass_it_on(rig):
    world, leader, _ = held(rig)
    with world:
        epoch = world.table.top()
        leader.signal(signal.SIGTERM)
        epoch = world.next_leader(epoch).epoch
        world.forget(leader)
        world.start()
        victim = world.leader()
        victim.signal(signal.SIGKILL)
        world.next_leader(epoch)  # long before a minute: the guard released
        world.forget(victim)


def test_removed_and_used_again(rig):
    """Refused under a leader; a tombstone keeps the epoch, and nothing else is left."""
    world, *crew = held(rig)
    with world:
        command = [TENURE, "remove", "w", "--store", world.url, "--yes"]
        assert subprocess.run(command, timeout=PATIENCE, check=False).returncode == 1
        epoch = world.table.top()
        for candidate in crew:
            candidate.signal(signal.SIGTERM)
        for candidate in crew:
            world.forget(candidate)
        epoch = max(epoch, world.table.top())
        subprocess.run(command, timeout=PATIENCE, check=True)
        with Store(world.url) as store:
            assert all(value.tombstone for _, value in store.list("w/")[0])
            last = json.loads(store.read("w/lease").data)["epoch"]
        assert last > epoch
        world.start()
        assert world.next_leader(epoch).epoch > last


def test_server_killed(rig):
    world, leader, _ = held(rig)
    with world:
        epoch = world.table.top()
        rig.kill()
        rig.renewals(2)
        said(leader, "answers again")
        kept(world, leader, epoch)


def test_server_stopped_for_longer_than_the_lease(rig):
    world, leader, _ = brief(rig)
    with world:
        epoch = world.table.top()
        rig.pause()
        world.dead(epoch)  # by its own clock
        rig.resume()
        world.next_leader(epoch)
        rig.renewals()


def test_server_restarted_empty(rig):
    world, _, _ = brief(rig)
    with world:
        epoch = world.table.top()
        rig.empty()
        rig.prepare()
        world.next_leader(epoch)
        rig.renewals()


def test_server_restored_from_an_older_dump(rig):
    """Of an earlier term, whose holder is gone."""
    world, leader, other = brief(rig)
    with world:
        dump = rig.dump()
        epoch = world.table.top()
        leader.signal(signal.SIGTERM)
        epoch = world.next_leader(epoch).epoch
        world.forget(leader)
        world.start()
        rig.renewals()
        rig.restore(dump)  # where another one leads, who is gone
        world.next_leader(epoch)
        rig.renewals()


def test_record_deleted(rig):
    world, _, _ = brief(rig)
    with world:
        epoch = world.table.top()
        rig.delete()
        world.next_leader(epoch)
        rig.renewals()


# ---- The network ---------------------------------------------------------------------------------

def test_connections_reset(rig, proxy):
    world, leader, _ = held(rig, leader_url=rig.url(port=proxy.port))
    with world:
        epoch = world.table.top()
        for trouble in (proxy.cut, proxy.half_close, lambda: proxy.cut_after("down", 1),
                        lambda: proxy.cut_after("up", 1)):
            trouble()
            rig.renewals(2)
        kept(world, leader, epoch)


def test_connections_slow(rig, proxy):
    world, leader, _ = held(rig, leader_url=rig.url(port=proxy.port))
    with world:
        epoch = world.table.top()
        proxy.delay = 0.1
        rig.renewals(2)
        kept(world, leader, epoch)


@pytest.mark.parametrize("way", ["half-open", "black-holed"])
def test_leader_cut_off(rig, proxy, way):
    world, leader, _ = brief(rig, leader_url=rig.url(port=proxy.port))
    with world:
        epoch = world.table.top()
        if way == "half-open":
            proxy.hold("up", "down")
        else:
            proxy.black_hole = True
            proxy.cut()
        world.next_leader(epoch)
        proxy.release()
        proxy.black_hole = False
        said(leader, "answers again")


# ---- Who may -------------------------------------------------------------------------------------

def test_credentials_rotated(rig, tmp_path):
    with rig.door(tmp_path) as door:
        world, leader, _ = held(rig, door.url)
        with world:
            epoch = world.table.top()
            rig.rotate(door, "two")
            said(leader, "password", "token", "login")
            door.write("two")
            rig.renewals(2)
            kept(world, leader, epoch)


def test_right_to_write_taken(rig, tmp_path):
    with rig.door(tmp_path) as door:
        world, leader, _ = brief(rig, door.url)
        with world:
            epoch = world.table.top()
            rig.forbid()
            world.dead(epoch)
            said(leader, "GRANT", "docs/reference/stores", "role.yaml")
            rig.allow()
            world.next_leader(epoch)


def test_disk_full(rig):
    if rig.full_needs_mount and not can_mount():
        pytest.skip("may not mount a small disk here")
    with rig.full() as (fill, room):
        world, leader, _ = brief(rig)
        with world:
            epoch = world.table.top()
            fill()
            world.dead(epoch)
            said(leader, *rig.full_words)
            room()
            world.next_leader(epoch)
