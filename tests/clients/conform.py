"""The conformance script in Python; tests/fault/test_clients.py says what it must print."""

import os
import signal
import sys

import tenure


def say(*words):
    print(*words, flush=True)


def main():
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what is to be noticed is pushed
    with tenure.leadership() as term:
        say("epoch", term.epoch)
        say("leads", str(term.left() > 0).lower())
        if sys.argv[1] == "state":
            state = term.state
            say("missing", str(state.get("conform/a b") is None).lower())
            state.put("conform/a b", "one")
            say("got", state.get("conform/a b").decode())
            say("list", ",".join(state.list("conform")))
            say("deleted", str(state.delete("conform/a b")).lower(), str(state.delete("conform/a b")).lower())
            try:
                tenure.State(os.environ["TENURE_SOCKET"], term.epoch + 1).put("conform/x", "")
            except tenure.Fenced:
                say("fenced")
            try:
                state.put("/x", "")
            except tenure.Error as error:
                say("refused", error.status)
        if sys.argv[1] == "close":
            sys.stdin.read()
            return
        say("waiting")
        term.lost.wait()
        say("lost")
        if sys.argv[1] == "state":
            term.state.put("conform/last", "x")
            say("last", str(term.left() > 0).lower())
        else:
            say("leads", str(term.left() > 0).lower())


main()
