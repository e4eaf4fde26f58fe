"""Real PostgreSQL servers, standbys and poolers of Debian's packages."""

import atexit
import contextlib
import functools
import glob
import os
import pathlib
import pwd
import shutil
import signal
import subprocess
import tempfile

from process import Daemon, free_port, until


def _bin(name):
    found = sorted(glob.glob(f"/usr/lib/postgresql/*/bin/{name}")) or [shutil.which(name)]
    return found[-1]


MISSING = None if _bin("initdb") and _bin("postgres") else (
    "PostgreSQL is not installed: run scripts/deps, or apt-get install postgresql pgbouncer")
MISSING_POOLER = MISSING or (None if shutil.which("pgbouncer") else (
    "pgbouncer is not installed: run scripts/deps, or apt-get install pgbouncer"))


def _as_user(argv):
    """The servers refuse to run as root, and end when the test run does."""
    prefix = ["setpriv", "--pdeathsig", "QUIT"]
    if os.geteuid() == 0:
        prefix[1:1] = ["--reuid=postgres", "--regid=postgres", "--init-groups"]
    return prefix + argv


def _give(path):
    """Let the servers' user own path."""
    if os.geteuid() == 0:
        user = pwd.getpwnam("postgres")
        os.chown(path, user.pw_uid, user.pw_gid)


@functools.lru_cache(maxsize=None)
def template():
    """A data folder made once, to be copied: initdb takes a second."""
    top = pathlib.Path(tempfile.mkdtemp(prefix="tenure-initdb-"))
    atexit.register(shutil.rmtree, top, ignore_errors=True)
    _give(top)
    subprocess.run(_as_user([_bin("initdb"), "-D", str(top / "data"), "-A", "trust", "-U",
                             "postgres", "--no-sync", "-E", "UTF8",
                             # Not the order of bytes: ours must not depend on it.
                             "--locale-provider=icu", "--icu-locale=en-US", "--locale=C.UTF-8"]),
                   check=True, capture_output=True, cwd=top)
    return top / "data"


class Psql:
    """A session of somebody else, kept open."""

    def __init__(self, server, name="somebody", user="postgres"):
        self.process = subprocess.Popen(
            ["psql", "-XqAt", "-v", "ON_ERROR_STOP=0", "-h", server.dir, "-p", str(server.port),
             "-U", user, "postgres"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            bufsize=1, env={**os.environ, "PGAPPNAME": name})

    def __call__(self, sql):
        """Run it and return what it printed."""
        self.process.stdin.write(f"{sql};\n\\echo --done--\n")
        lines = []
        for line in self.process.stdout:
            if line == "--done--\n":
                return "\n".join(lines)
            lines.append(line.rstrip("\n"))
        raise AssertionError("psql ended")

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Postgres(Daemon):
    """A server on a private port; settings are those of postgresql.conf."""

    def __init__(self, port=None, copy_of=None, **settings):
        super().__init__("postgres")
        self.port = port or free_port()
        self.data = self.dir / "data"
        _give(self.dir)
        self.dir.chmod(0o755)  # its socket is for everybody
        if copy_of:
            subprocess.run(_as_user([_bin("pg_basebackup"), "-h", str(copy_of.dir), "-p",
                                     str(copy_of.port), "-U", "postgres", "-D", str(self.data),
                                     "-R", "-X", "stream", "-c", "fast", "--no-sync"]),
                           check=True, capture_output=True, cwd=self.dir)
        else:
            subprocess.run(["cp", "-a", str(template()), str(self.data)], check=True)
        self.settings = {"max_connections": 60, "shared_buffers": "16MB", "log_min_messages": "log",
                         **settings}
        self.start()

    def start(self):
        argv = [_bin("postgres"), "-D", str(self.data), "-h", "127.0.0.1", "-p", str(self.port),
                "-k", str(self.dir)]
        for name, value in self.settings.items():
            argv += ["-c", f"{name}={value}"]
        argv = self.command(argv)
        self.spawn(argv)
        said = 0

        def up():
            # After a crash its last processes may still be there: then it must be started again.
            nonlocal said
            if not self.alive() and "still in use" in self.log()[said:]:
                said = len(self.log())
                self.spawn(argv)
                return False
            return self.answers()

        until(up)

    def command(self, argv):
        return _as_user(argv)

    def answers(self):
        assert self.alive(), self.log()
        return subprocess.run(["psql", "-XAtc", "SELECT 1", "-h", self.dir, "-p", str(self.port),
                               "-U", "postgres", "postgres"], capture_output=True).returncode == 0

    def sql(self, text, database="postgres", user="postgres"):
        """Run it in a session of its own; what it printed."""
        done = subprocess.run(["psql", "-XqAtc", text, "-h", self.dir, "-p", str(self.port), "-U",
                               user, database], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def end_sessions(self, which="application_name = 'tenure'"):
        """End the sessions, and return when they have ended."""
        pids = self.sql("SELECT pid FROM pg_stat_activity WHERE pid <> pg_backend_pid()"
                        f" AND backend_type = 'client backend' AND {which}").split()
        for pid in pids:
            self.sql(f"SELECT pg_terminate_backend({pid})")
        until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids))

    def family(self):
        """Its process and those of its sessions."""
        pids = [self.process.pid]
        for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[1]) == self.process.pid:
                pids.append(int(stat.parent.name))
        return pids

    def tell(self, number):
        """All of them; a session may end meanwhile."""
        for pid in self.family():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def pause(self):
        super().pause()  # from now on there are no new ones
        self.tell(signal.SIGSTOP)

    def resume(self):
        self.tell(signal.SIGCONT)

    def kill(self):
        """As if the power had failed: nothing is flushed that was not before."""
        if not self.alive():
            return
        pids = self.family()
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
        self.process.wait()
        until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids))

    def shutdown(self):
        """Cleanly, sessions are ended."""
        self.signal(signal.SIGINT)
        self.process.wait()

    def restart(self):
        self.shutdown()
        self.start()

    def hba(self, *lines):
        """Who may connect how; the socket stays open for the test itself."""
        (self.data / "pg_hba.conf").write_text(
            "local all all trust\nlocal replication all trust\n" + "\n".join(lines) + "\n")
        self.sql("SELECT pg_reload_conf()")

    def use_tls(self, cert, secret):
        for source, name in ((cert, "server.crt"), (secret, "server.key")):
            target = self.data / name
            target.write_bytes(source.read_bytes())
            _give(target)
            target.chmod(0o600)
        self.settings["ssl"] = "on"
        self.restart()

    def url(self, query="", user="postgres", port=None, scheme="postgres", host="127.0.0.1"):
        return f"{scheme}://{user}@{host}:{port or self.port}/postgres{query}"


class Contained(Postgres):
    """A server in a PID namespace of its own, as in a container, whose process ids can be chosen."""

    POSSIBLE = subprocess.run(["unshare", "--pid", "--fork", "sh", "-c",
                               "echo 9 > /proc/sys/kernel/ns_last_pid"],
                              capture_output=True, check=False).returncode == 0

    def command(self, argv):
        return ["unshare", "--pid", "--fork", "--kill-child", *super().command(argv)]

    def session(self, pid, name="somebody"):
        """A Psql whose server process has this id, which must be free."""
        def try_it():
            subprocess.run(["nsenter", "--pid", "--target", str(self.family()[1]), "sh", "-c",
                            f"echo {pid - 1} > /proc/sys/kernel/ns_last_pid"], check=True)
            psql = Psql(self, name)
            if psql("SELECT pg_backend_pid()") == str(pid):
                return psql
            psql.close()
            return None

        return until(try_it)


class PgBouncer(Daemon):
    """A pooler in front of a server."""

    def __init__(self, server, mode="transaction", pool=3):
        super().__init__("pgbouncer")
        self.port = free_port()
        _give(self.dir)
        (self.dir / "users").write_text('"postgres" ""\n')
        (self.dir / "ini").write_text(
            "[databases]\n"
            f"postgres = host=127.0.0.1 port={server.port} user=postgres\n"
            "[pgbouncer]\n"
            f"listen_addr = 127.0.0.1\nlisten_port = {self.port}\nunix_socket_dir =\n"
            f"auth_type = trust\nauth_file = {self.dir}/users\npool_mode = {mode}\n"
            f"default_pool_size = {pool}\nmax_client_conn = 200\n")
        self.spawn(_as_user(["/usr/sbin/pgbouncer", str(self.dir / "ini")]))
        until(self.answers)

    def answers(self):
        assert self.alive(), self.log()
        return subprocess.run(["psql", "-XAtc", "SELECT 1", "-h", "127.0.0.1", "-p",
                               str(self.port), "-U", "postgres", "postgres"],
                              capture_output=True).returncode == 0
