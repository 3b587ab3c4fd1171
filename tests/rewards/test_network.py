"""Trainers' functions score without network: real attempts on a real server of the test, which must see none."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalkit.rewards import Response, Score, ScoringPool, Status
from evalkit.rewards.network import BLOCKED, OPEN, PYTHON_ONLY

REFUSED = "a reward function has no network here; score from its arguments alone"
SCORER = '''
import socket, subprocess, sys
WAYS = {
    "connect": lambda port: socket.create_connection(("127.0.0.1", port), 5).close(),
    "connect_ex": lambda port: socket.socket().connect_ex(("127.0.0.1", port)),
    "sendto": lambda port: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", port)),
    "bind": lambda port: socket.socket().bind(("127.0.0.1", 0)),
    "getaddrinfo": lambda port: socket.getaddrinfo("localhost", port),
    "python": lambda port: subprocess.run([sys.executable, "-c", f"""
import socket; socket.create_connection(("127.0.0.1", {port}), 5)"""], capture_output=True, check=True),
    "bash": lambda port: subprocess.run(["bash", "-c", f"echo > /dev/tcp/127.0.0.1/{port}"], capture_output=True,
                                        check=True),
}

def tried(way, port):
    try:
        WAYS[way](port)
    except subprocess.CalledProcessError:
        return 0.0
    return 1.0

def f(prompts, completions, port, **more):
    return [tried(way, each) for way, each in zip(completions, port)]

def swallow(completions, port, **more):
    try:
        return f(None, completions, port)
    except Exception:
        return [0.0] * len(completions)

def score(completion, target, item):
    return tried(completion, item["port"])

def local(completions, **more):
    """Over the sockets that Python's own worker pools use."""
    import os, tempfile
    with tempfile.TemporaryDirectory() as folder:
        server = socket.socket(socket.AF_UNIX)
        server.bind(os.path.join(folder, "s"))
        server.listen()
        client = socket.socket(socket.AF_UNIX)
        client.connect(os.path.join(folder, "s"))
        client.sendall(b"7")
        return [float(server.accept()[0].recv(1))] * len(completions)
'''


class Listener:
    """A TCP and a UDP server on one loopback port."""

    def __init__(self) -> None:
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.port = self.tcp.getsockname()[1]
        self.udp = socket.socket(type=socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", self.port))
        self.tcp.settimeout(0.05)
        self.udp.settimeout(0.05)

    def was_reached(self) -> bool:
        """Whether anything has come in since the last call."""
        reached = False
        for listen in (lambda: self.tcp.accept()[0].close(), lambda: self.udp.recv(1)):
            try:
                listen()
                reached = True
            except TimeoutError:
                pass
        return reached


@pytest.fixture
def listener() -> Iterator[Listener]:
    found = Listener()
    yield found
    found.tcp.close()
    found.udp.close()


async def scores(
    root: Path, use: str, ways: list[str], port: int, more: dict[str, str] | None = None
) -> tuple[list[Score], str]:
    """The scores of `use` on completions that name ways to the server, and what the pool says of the network."""
    (root / "net.py").write_text(SCORER)
    components = {name: (used, {}) for name, used in {"net": use, **(more or {})}.items()}
    async with ScoringPool(components, root, deadline=30) as pool:
        batch = [(way, Response(way, None, {"port": port, "prompt": ""}, None)) for way in ways]
        found = await pool.score(batch, [1] * len(batch))
        return [found[way]["net"] for way in ways], pool.network


async def test_the_attempts_of_these_tests_reach_the_server_where_nothing_is_blocked(
    tmp_path: Path, listener: Listener
) -> None:
    (tmp_path / "net.py").write_text(SCORER)
    async with ScoringPool({"net": ("python:net.py:score", {})}, tmp_path, deadline=30) as pool:
        assert pool.network == OPEN
        for way in ("connect", "sendto", "python", "bash"):
            found = await pool.score([(way, Response(way, None, {"port": listener.port}, None))])
            assert found[way]["net"].value == 1.0, way
            assert listener.was_reached(), way


@pytest.mark.parametrize("kind", ["trl", "verl"])
async def test_pythons_sockets_are_refused_in_one_sentence(tmp_path: Path, listener: Listener, kind: str) -> None:
    ways = ["connect", "connect_ex", "sendto", "bind", "getaddrinfo"]
    if kind == "verl":
        (tmp_path / "v.py").write_text(
            "from net import tried\n"
            "def f(data_source, solution_str, ground_truth, extra_info): return tried(solution_str, extra_info['port'])\n"
        )
        (tmp_path / "net.py").write_text(SCORER)
    use = {"trl": "trl:net.py:f", "verl": "verl:v.py:f"}[kind]
    if kind == "verl":
        async with ScoringPool({"net": (use, {"data_source": "d"})}, tmp_path, deadline=30) as pool:
            batch = [(way, Response(way, None, {"port": listener.port}, None)) for way in ways]
            found = [scored["net"] for scored in (await pool.score(batch)).values()]
    else:
        found, _ = await scores(tmp_path, use, ways, listener.port)
    for way, score in zip(ways, found, strict=True):
        event = {"connect": "getaddrinfo", "connect_ex": "connect"}.get(way, way)
        assert score == Score(None, Status.FAILED, None, f"NetworkRefused: socket.{event}: {REFUSED}"), way
    assert not listener.was_reached()


async def test_a_process_that_a_function_starts_does_not_reach_the_server(tmp_path: Path, listener: Listener) -> None:
    found, network = await scores(tmp_path, "trl:net.py:f", ["python", "bash"], listener.port)
    if network == PYTHON_ONLY:
        pytest.skip("namespaces are not permitted here, so other programs keep the network; the run record says so")
    assert network == BLOCKED
    assert [score.value for score in found] == [0.0, 0.0]
    assert not listener.was_reached()


async def test_a_value_made_of_a_swallowed_refusal_is_no_value(tmp_path: Path, listener: Listener) -> None:
    [score], _ = await scores(tmp_path, "trl:net.py:swallow", ["connect_ex"], listener.port)
    expected = "socket.connect was refused, and what the function made of it is no score"
    assert score == Score(None, Status.FAILED, None, expected)
    assert not listener.was_reached()


async def test_all_components_beside_a_trainers_function_are_without_network(
    tmp_path: Path, listener: Listener
) -> None:
    more = {"other": "trl:net.py:local"}
    [score], _ = await scores(tmp_path, "python:net.py:score", ["connect_ex"], listener.port, more)
    assert score.status is Status.FAILED
    assert not listener.was_reached()


async def test_sockets_that_are_files_still_work(tmp_path: Path, listener: Listener) -> None:
    [score], _ = await scores(tmp_path, "trl:net.py:local", ["x"], listener.port)
    assert score.value == 7.0


def test_where_namespaces_are_not_permitted_python_is_blocked_and_that_is_what_is_said(listener: Listener) -> None:
    program = f"""
import ctypes, socket
class Library:
    def __init__(self, *_, **__): pass
    def unshare(self, flags): return -1  # as the kernel answers where it forbids it
ctypes.CDLL = Library
from evalkit.rewards.network import block
network = block()
try:
    socket.socket().connect(("127.0.0.1", {listener.port}))
except RuntimeError as error:
    print(network.extent, network.refused, error, sep="|")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"{PYTHON_ONLY}|['socket.connect']|socket.connect: {REFUSED}"
    assert not listener.was_reached()
