"""libtenure's registers from Python, by ctypes: public API only."""

import collections
import ctypes
import os
import pathlib
import threading

from process import until

_NONCE = ctypes.c_uint8 * 16


class Token(ctypes.Structure):
    _fields_ = [("_version", ctypes.c_char * 64), ("_nonce", _NONCE)]

    version = property(lambda self: self._version.decode())
    nonce = property(lambda self: bytes(self._nonce))

    def __eq__(self, other):
        return (self.version, self.nonce) == (other.version, other.nonce)

    def __repr__(self):
        return f"<{self.version} {self.nonce.hex()[:8]}>"

    def __bool__(self):
        return bool(self.version)


class _Value(ctypes.Structure):
    _fields_ = [("token", Token), ("prev", _NONCE), ("tombstone", ctypes.c_bool),
                ("len", ctypes.c_size_t), ("data", ctypes.POINTER(ctypes.c_char)),
                ("cap", ctypes.c_size_t)]


class _Read(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("value", _Value), ("status", ctypes.c_int)]


class _Swap(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("expect", Token), ("nonce", _NONCE),
                ("data", ctypes.c_char_p), ("len", ctypes.c_size_t), ("tombstone", ctypes.c_bool),
                ("status", ctypes.c_int), ("token", Token)]


class _Watch(ctypes.Structure):
    _fields_ = [("key", ctypes.c_char_p), ("prefix", ctypes.c_bool), ("seen", Token),
                ("mark", ctypes.c_char * 64)]


class _Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int), ("_text", ctypes.c_char * 512)]

    text = property(lambda self: self._text.decode(errors="replace"))


class _Info(ctypes.Structure):
    _fields_ = [("scheme", ctypes.c_char_p), ("promise", ctypes.c_char_p),
                ("notifies", ctypes.c_bool), ("shared", ctypes.c_bool),
                ("atomic_batch", ctypes.c_bool), ("data_max", ctypes.c_uint32),
                ("batch_max", ctypes.c_uint32), ("ttl_min_ms", ctypes.c_uint32),
                ("ttl_step_ms", ctypes.c_uint32), ("batch_bytes", ctypes.c_uint32)]


_VISIT = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(_Value))

_lib = ctypes.CDLL(str(pathlib.Path(os.environ["TENURE_BUILD"]) / "libtenure.so"))
_lib.tenure_now.restype = ctypes.c_int64
_lib.tenure_status_word.restype = ctypes.c_char_p
for _name in ("read", "read_many", "swap", "swap_many", "wait", "list", "open", "close", "info"):
    getattr(_lib, "tenure_store_" + _name).restype = ctypes.c_int
_lib.tenure_store_close.restype = None
_lib.tenure_store_info.restype = ctypes.POINTER(_Info)

Value = collections.namedtuple("Value", "token prev tombstone data")
Answer = collections.namedtuple("Answer", "status token nonce text")


class StoreError(Exception):
    def __init__(self, status, text):
        super().__init__(f"{status}: {text}")
        self.status = status
        self.text = text


def _word(status):
    return _lib.tenure_status_word(status).decode()


def _deadline(seconds):
    return ctypes.c_int64(_lib.tenure_now() + int(seconds * 1e9))


def now():
    """Seconds on the clock of the deadlines."""
    return _lib.tenure_now() / 1e9


def _python(value):
    return Value(Token.from_buffer_copy(value.token), bytes(value.prev), value.tombstone,
                 value.data[:value.len] if value.len else b"")


class Store:
    """One handle.  read, list and wait raise StoreError; swaps return their answer."""

    def __init__(self, url, timeout=20):
        self._handle = ctypes.c_void_p()
        err = _Error()
        status = _lib.tenure_store_open(url.encode(), _deadline(timeout),
                                        ctypes.byref(self._handle), ctypes.byref(err))
        if status:
            raise StoreError(_word(status), err.text)

    def close(self):
        if self._handle:
            _lib.tenure_store_close(self._handle)
            self._handle = ctypes.c_void_p()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def info(self):
        return _lib.tenure_store_info(self._handle).contents

    def read(self, key, timeout=20):
        value, err = _Value(), _Error()
        status = _lib.tenure_store_read(self._handle, key.encode(), ctypes.byref(value),
                                        _deadline(timeout), ctypes.byref(err))
        answer = _python(value)
        _lib.tenure_value_free(ctypes.byref(value))
        if status:
            raise StoreError(_word(status), err.text)
        return answer

    def read_many(self, keys, timeout=20):
        """Returns (status, [(status, Value)], text), in the order of the keys."""
        reads, err = (_Read * max(len(keys), 1))(), _Error()
        for read, key in zip(reads, keys):
            read.key = key.encode()
        status = _lib.tenure_store_read_many(self._handle, reads, ctypes.c_size_t(len(keys)),
                                             _deadline(timeout), ctypes.byref(err))
        answers = [(_word(read.status), _python(read.value)) for read in reads[:len(keys)]]
        for read in reads:
            _lib.tenure_value_free(ctypes.byref(read.value))
        return _word(status), answers, err.text

    @staticmethod
    def _swap(key, expect, data, nonce, tombstone):
        swap = _Swap(key=key.encode(), expect=expect or Token(), data=data, len=len(data),
                     tombstone=tombstone)
        swap.nonce = _NONCE(*(nonce or os.urandom(16)))
        return swap

    def swap(self, key, expect=None, data=b"x", timeout=20, nonce=None, tombstone=False):
        swap, err = self._swap(key, expect, data, nonce, tombstone), _Error()
        status = _lib.tenure_store_swap(self._handle, ctypes.byref(swap), _deadline(timeout),
                                        ctypes.byref(err))
        assert status == swap.status
        return Answer(_word(status), Token.from_buffer_copy(swap.token), bytes(swap.nonce),
                      err.text)

    def swap_many(self, wanted, timeout=20):
        """wanted: (key, expect, data) each.  Returns (status, {key: Answer}, text)."""
        swaps = (_Swap * len(wanted))()
        for i, (key, expect, data) in enumerate(wanted):
            swaps[i] = self._swap(key, expect, data, None, False)
        err = _Error()
        status = _lib.tenure_store_swap_many(self._handle, swaps, ctypes.c_size_t(len(wanted)),
                                             _deadline(timeout), ctypes.byref(err))
        return _word(status), {s.key.decode(): Answer(_word(s.status),
                                                      Token.from_buffer_copy(s.token),
                                                      bytes(s.nonce), "") for s in swaps}, err.text

    def wait(self, watches, timeout=20, wake_fd=-1):
        """watches: (key, seen) for a register, (prefix, mark) with a text for a prefix.
        Returns True for OK, False at the deadline; raises otherwise."""
        list_ = (_Watch * max(len(watches), 1))()
        for i, (key, seen) in enumerate(watches):
            list_[i].key = key.encode()
            if isinstance(seen, str):
                list_[i].prefix = True
                list_[i].mark = seen.encode()
            else:
                list_[i].seen = seen or Token()
        err = _Error()
        status = _word(_lib.tenure_store_wait(self._handle, list_, ctypes.c_size_t(len(watches)),
                                              wake_fd, _deadline(timeout), ctypes.byref(err)))
        if status not in ("ok", "timeout"):
            raise StoreError(status, err.text)
        return status == "ok"

    def list(self, prefix="", after=None, timeout=20):
        """([(key, Value)], mark)"""
        found = []

        def visit(_, key, value):
            found.append((key.decode(), _python(value.contents)))
            return True

        err, mark = _Error(), ctypes.create_string_buffer(64)
        status = _lib.tenure_store_list(self._handle, prefix.encode(),
                                        after.encode() if after else None, _VISIT(visit), None,
                                        mark, _deadline(timeout), ctypes.byref(err))
        if status:
            raise StoreError(_word(status), err.text)
        return found, mark.value.decode()


class Opening(threading.Thread):
    """A store that is opened on another thread: opened() is the handle, or raises."""

    def __init__(self, url, timeout=60):
        super().__init__(daemon=True)
        self.url, self.timeout, self.box = url, timeout, []
        self.start()

    def run(self):
        try:
            self.box.append(Store(self.url, timeout=self.timeout))
        except StoreError as error:
            self.box.append(error)

    def opened(self):
        self.join()
        if isinstance(self.box[0], StoreError):
            raise self.box[0]
        return self.box[0]


def settled(call):
    """Call until it neither raises nor answers with a transient or unknown status.  A Sentinel that
    stood still does nothing for half a minute, by its own rules."""
    def attempt():
        try:
            answer = call()
        except StoreError as error:
            assert error.status in ("unavailable", "timeout"), error
            return None
        if getattr(answer, "status", "ok") in ("unavailable", "timeout", "unknown"):
            return None
        return answer

    return until(attempt)
