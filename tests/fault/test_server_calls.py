"""One handle on a real server that fails: what each call answers, on every server store alike.

A change whose answer is lost is unknown, and its nonce tells; a read that fails is never absence; calls end at
their deadline; a wait misses nothing.  What only one server can do wrong is in test_SERVER_specific.py; whole
candidates are in test_servers.py.
"""

import contextlib
import os
import threading
import time

import pytest
from process import free_port, until
from store_checks import refused
from tenure import Store, StoreError, settled

pytestmark = pytest.mark.parametrize("running", ["postgres", "redis", "etcd", "consul", "kube", "zookeeper", "nats", "s3"],
                                     indirect=True, scope="session")

KEY = "w/lease"  # which rig.delete() deletes


@pytest.fixture
def store(rig, proxy):
    """A handle behind the proxy that has been used: servers prepare the first of each kind of request."""
    with Store(rig.url(port=proxy.port)) as handle:
        token = handle.swap("warm").token
        assert handle.swap("warm", token).status == "ok"
        assert handle.swap_many([("warm/1", None, b"")])[0] == "ok"
        yield handle


@pytest.fixture
def other(rig):
    """A handle that goes past the proxy."""
    with Store(rig.url()) as handle:
        yield handle


def waited(store, watch):
    with contextlib.suppress(StoreError):
        return store.wait([watch], timeout=5)
    return False


def listen(rig, proxy, store, key, token):
    """Until a wait sends nothing any more: the handle listens.  Who polls has asked once."""
    def quiet():
        passed = proxy.passed["up"]
        assert not store.wait([(key, token)], timeout=0.2)
        return rig.polls or proxy.passed["up"] == passed

    until(quiet)


def in_thread(call):
    box = []

    def run():
        try:
            box.append(call())
        except StoreError as error:
            box.append(error.status)

    thread = threading.Thread(target=run)
    thread.start()
    return thread, box


def only_looked(rig, answer, other, key, base):
    """A store that looks first has not sent its change yet, and says so."""
    if rig.looks:
        assert answer.status in ("unavailable", "timeout") and other.read(key).token == base
    return rig.looks


# ---- Lost answers, lost requests -------------------------------------------------------------------

@pytest.mark.parametrize("key", [KEY, "w/other"])
def test_answer_lost_is_unknown_and_the_nonce_tells(rig, proxy, store, other, key):
    base = store.swap(key, None, rig.value(1)).token
    for number, cut in enumerate((0, 1, rig.partial), 2):
        proxy.cut_after("down", cut)
        lost = store.swap(key, base, rig.value(number))
        if only_looked(rig, lost, other, key, base):
            continue
        assert lost.status == "unknown" and ("not known" in lost.text or "broke" in lost.text)
        found = other.read(key)
        assert (found.token.nonce, found.prev) == (lost.nonce, base.nonce)
        assert found.data == rig.value(number)
        assert store.read(key).token == found.token  # the handle itself recovers, and sees the same
        assert store.swap(key, base, rig.value(number)).status == "conflict"
        base = found.token


def test_answer_held_back_is_unknown_and_resolved_by_a_read(rig, proxy, store, other):
    base = store.swap(KEY, None, rig.value(1))
    proxy.hold("down")
    lost = store.swap(KEY, base.token, rig.value(2), timeout=1)
    if only_looked(rig, lost, other, KEY, base.token):
        return
    assert lost.status == "unknown"
    proxy.cut()
    proxy.release()
    value = store.read(KEY)
    assert (value.token.nonce, value.prev, value.data) == (lost.nonce, base.nonce, rig.value(2))
    assert store.swap(KEY, value.token, rig.value(3)).status == "ok"


def test_change_is_never_sent_twice(rig, proxy, store, other):
    """Client libraries repeat a request that broke on a kept connection; a swap must not be."""
    token = store.swap(KEY, None, rig.value(1)).token
    for number in range(20):
        proxy.cut_after("down", 0)
        lost = store.swap(KEY, token, rig.value(number))
        if only_looked(rig, lost, other, KEY, token):
            continue
        assert lost.status == "unknown"
        token = other.read(KEY).token
        assert token.nonce == lost.nonce
        assert store.read(KEY).token == token  # on a connection that is ready again


@pytest.mark.parametrize("sent", [0, 1, 40])
def test_request_cut_on_its_way_is_unknown_but_not_applied(rig, proxy, store, other, sent):
    base = store.swap(KEY, None, rig.value(1)).token
    proxy.cut_after("up", sent)
    lost = store.swap(KEY, base, rig.value(2))
    assert only_looked(rig, lost, other, KEY, base) or lost.status == "unknown"
    assert other.read(KEY).token == base
    assert store.swap(KEY, base, rig.value(3)).status == "ok"


def test_request_held_back_is_unknown_and_may_land_late(rig, proxy, store, other):
    base = store.swap(KEY, None, rig.value(1)).token
    proxy.hold("up")
    late = store.swap(KEY, base, rig.value(2), timeout=0.5)
    if only_looked(rig, late, other, KEY, base):
        return
    assert late.status == "unknown"
    assert other.read(KEY).token == base  # which proves nothing
    assert refused(store.read, KEY, timeout=0.5).status == "timeout"
    proxy.release()
    if rig.lands_late:
        until(lambda: other.read(KEY).token.nonce == late.nonce)
    assert settled(lambda: store.read(KEY)).token.nonce in (base.nonce, late.nonce)


def test_request_that_is_late_does_not_land_over_another(rig, proxy, store, other):
    base = store.swap(KEY, None, rig.value(1)).token
    proxy.hold("up")
    late = store.swap(KEY, base, rig.value(2), timeout=0.5)
    assert only_looked(rig, late, other, KEY, base) or late.status == "unknown"
    won = other.swap(KEY, base, rig.value(3))
    assert won.status == "ok"
    passed = proxy.passed["up"]
    proxy.release()
    until(lambda: proxy.passed["up"] > passed)
    assert settled(lambda: store.swap(KEY, base, rig.value(4))).status == "conflict"
    assert other.read(KEY).token == won.token


def test_batch_with_a_lost_answer(proxy, store, other):
    proxy.cut_after("down", 1)
    _, answers, _ = store.swap_many([(f"b/{i}", None, b"x") for i in range(50)])
    assert any(answer.status != "ok" for answer in answers.values())
    found = {key: value.token.nonce for key, value in other.list("b/")[0]}
    for key, answer in answers.items():
        applied = found.get(key) == answer.nonce
        assert answer.status == "unknown" or applied == (answer.status == "ok"), (key, answer)


def test_reads_are_repeated_over_a_broken_connection(rig, proxy, store):
    base = store.swap(KEY, None, rig.value(1)).token
    proxy.cut_after("down", 5)
    assert store.read(KEY).token == base


def test_held_read_is_a_timeout_never_absence(rig, proxy, store):
    base = store.swap(KEY, None, rig.value(1)).token
    proxy.hold("down")
    assert refused(store.read, KEY, timeout=0.3).status == "timeout"
    proxy.release()
    assert store.read(KEY).token == base


def test_idle_connection_that_died_costs_nothing(rig, proxy, store):
    base = store.swap(KEY, None, rig.value(1)).token
    proxy.cut()
    again = store.swap(KEY, base, rig.value(2))
    assert again.status == "ok"
    proxy.half_close()
    assert store.swap(KEY, again.token, rig.value(3)).status == "ok"


def test_slow_network_works(rig, proxy, store):
    proxy.delay = 0.02
    base = store.swap(KEY, None, rig.value(1)).token
    assert store.swap(KEY, base, rig.value(2)).status == "ok"
    assert store.wait([(KEY, base)])


# ---- The server ------------------------------------------------------------------------------------

def test_connections_refused_and_black_holed(rig, proxy, store):
    token = store.swap(KEY, None, rig.value(1)).token
    proxy.refusing = True
    proxy.cut()
    assert refused(store.read, KEY, timeout=2).status == "unavailable"
    proxy.refusing = False
    proxy.black_hole = True
    proxy.cut()
    assert refused(store.read, KEY, timeout=0.5).status == "timeout"
    assert refused(Store, rig.url(port=proxy.port), timeout=0.5).status in rig.black_holed_open
    # "timeout": nothing of the request can have left.
    assert store.swap(KEY, token, rig.value(2), timeout=0.5).status == rig.black_holed_swap
    proxy.black_hole = False
    proxy.cut()
    assert store.read(KEY).token


def test_nobody_there(rig):
    port = free_port()
    error = refused(Store, rig.url(port=port))
    assert error.status == "unavailable" and str(port) in error.text


def test_stopped_server(rig, other):
    base = other.swap(KEY, None, rig.value(1)).token
    rig.pause()
    begun = time.monotonic()
    late = other.swap(KEY, base, rig.value(2), timeout=0.5)
    assert late.status in rig.stopped_swap
    assert refused(other.read, KEY, timeout=0.5).status == "timeout"
    assert time.monotonic() - begun < 30
    rig.resume()
    if rig.obeys_late:
        until(lambda: settled(lambda: other.read(KEY)).token.nonce == late.nonce)
    assert settled(lambda: other.read(KEY)).token.nonce in (base.nonce, late.nonce)


def test_server_that_is_down_is_a_definite_answer(rig, other):
    base = other.swap(KEY, None, rig.value(1)).token
    rig.shut_down()
    answer = other.swap(KEY, base, rig.value(2), timeout=2)
    assert answer.status == "unavailable"
    assert str(rig.port) in answer.text and "is the server up" in answer.text
    assert refused(other.read, KEY, timeout=2).status == "unavailable"
    rig.server.start()
    rig.settle()
    assert settled(lambda: other.read(KEY)).token.nonce == base.nonce


def test_deleted_by_an_operator(rig, store):
    token = store.swap(KEY, None, rig.value(1)).token
    if rig.tells_deletions:
        thread, box = in_thread(lambda: store.wait([(KEY, token)], timeout=60))
        rig.delete()
        thread.join()
        assert box == [True]
    else:
        rig.delete()
    assert not store.read(KEY).token
    assert store.swap(KEY, token, rig.value(2)).status == "conflict"
    assert store.swap(KEY, None, rig.value(3)).status == "ok"


# ---- Waiting ---------------------------------------------------------------------------------------

def test_idle_standby_asks_once_an_interval(rig, proxy, store, other):
    if rig.polls:
        pytest.skip("it polls: see test_s3_specific.py")
    token = other.swap(KEY, None, rig.value(1)).token
    listen(rig, proxy, store, KEY, token)
    store.read(KEY)
    before = proxy.passed["up"]
    store.read(KEY)
    one = proxy.passed["up"] - before
    before = proxy.passed["up"]
    for number in range(5):
        assert store.read(KEY).token == token
        assert not store.wait([(KEY, token)], timeout=0.01)
        other.swap(f"elsewhere/{number}")  # does not concern it
        assert not store.wait([(KEY, token)], timeout=0.01)
    assert proxy.passed["up"] - before == 5 * one
    other.swap(KEY, token, rig.value(2))
    assert store.wait([(KEY, token)])


def test_prefix_wait_is_not_woken_by_others(store, other):
    other.swap("jobs/1")
    mark = store.list("jobs/")[1]
    assert not store.wait([("jobs/", mark)], timeout=0.05)
    other.swap("members/1")
    assert not store.wait([("jobs/", mark)], timeout=0.05)
    other.swap("jobs/2")
    assert store.wait([("jobs/", mark)])


@pytest.mark.parametrize("trouble", ["cut", "half_close", "refusing", "held"])
def test_change_while_the_connection_was_down_is_not_missed(rig, proxy, store, other, trouble):
    token = store.swap(KEY, None, rig.value(1)).token
    mark = store.list("w/")[1]
    listen(rig, proxy, store, KEY, token)
    for number, watch in enumerate(((KEY, token), ("w/", mark)), 2):
        if trouble == "half_close":
            proxy.half_close()
        elif trouble == "held":
            proxy.hold("down")  # the news will not arrive
        else:
            proxy.refusing = trouble == "refusing"
            proxy.cut()
        other.swap(KEY, other.read(KEY).token, rig.value(number))
        if trouble == "held":
            proxy.cut()
            proxy.release()
        proxy.refusing = False
        until(lambda: waited(store, watch))
        assert store.read(KEY).token == other.read(KEY).token


def test_wait_whose_connection_breaks_does_not_sleep_on(rig, proxy, store, other):
    base = store.swap(KEY, None, rig.value(1)).token
    listen(rig, proxy, store, KEY, base)
    thread, box = in_thread(lambda: store.wait([(KEY, base)], timeout=120))
    proxy.refusing = True
    proxy.cut()
    other.swap(KEY, base, rig.value(2))
    proxy.refusing = False
    thread.join()
    # Either it came back in time and saw the change, or it says that it could not.
    assert box in ([True], ["unavailable"])
    until(lambda: waited(store, (KEY, base)))


def test_stream_is_not_believed_behind_an_address_that_did_not_answer(rig, proxy, store, other):
    """A balancer keeps what is open to a server that hangs, and sends what is new elsewhere."""
    token = other.swap("w/control").token
    listen(rig, proxy, store, "w/control", token)
    proxy.strand()
    assert refused(store.read, "w/control", timeout=0.3).status == "timeout"
    assert store.read("w/control").token == token
    other.swap("w/control", token)
    assert store.wait([("w/control", token)])


@pytest.mark.parametrize("way", ["black hole", "stopped server"])
def test_wait_is_cancelled_while_nobody_answers(rig, proxy, store, way):
    base = store.swap(KEY, None, rig.value(1)).token
    readable, writable = os.pipe()
    if way == "black hole":
        proxy.black_hole = True
        proxy.cut()
    else:
        rig.pause()
    thread, box = in_thread(lambda: store.wait([(KEY, base)], timeout=600, wake_fd=readable))
    os.write(writable, b"x")
    thread.join()
    assert box == ["cancelled"]
    proxy.black_hole = False
    rig.resume()
    assert settled(lambda: store.read(KEY)).token == base
    os.close(readable)
    os.close(writable)
