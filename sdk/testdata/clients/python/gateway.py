"""What the end-to-end tests share: where the gateway is, its keys, and the public client set up as one of them.

YETT_URL and YETT_SOCKET name the gateway; YETT_AGENT_KEY, YETT_APPROVER_KEY and YETT_OPERATOR_KEY are its keys. A second
gateway, at YETT_AUDIT_URL and YETT_AUDIT_SOCKET with the agent's key YETT_AUDIT_KEY, takes its socket's peers for an
operator: they may follow the log and ask for nothing. cmd/yett/clients_test.go sets them all.
"""

import contextlib
import importlib.metadata
import os
import pathlib
import threading
import uuid

import faramesh
import requests
from faramesh import client

URL = os.environ["YETT_URL"]
SOCKET = os.environ["YETT_SOCKET"]
AUDIT_URL = os.environ["YETT_AUDIT_URL"]
AUDIT_SOCKET = os.environ["YETT_AUDIT_SOCKET"]
AUDIT_KEY = os.environ["YETT_AUDIT_KEY"]
AGENT = os.environ["YETT_AGENT_KEY"]
APPROVER = os.environ["YETT_APPROVER_KEY"]
OPERATOR = os.environ["YETT_OPERATOR_KEY"]

PATIENCE = 30  # seconds; bounds every wait, so that a hang is a failure


def version():
    """The client's release. Its own __version__ is not kept up to date."""
    here = pathlib.Path(faramesh.__file__).parent.parent
    for dist in importlib.metadata.distributions(path=[str(here)]):
        if dist.metadata["Name"] == "faramesh-sdk":
            return tuple(int(part) for part in dist.version.split("."))
    raise RuntimeError("faramesh-sdk is not installed at %s" % here)


def name():
    """An agent id that no other test has."""
    return "agent-" + uuid.uuid4().hex


def use(key, base_url=URL, **options):
    client.configure(base_url=base_url, token=key, retry_backoff_factor=0.01, **options)


@contextlib.contextmanager
def acting(key):
    """The client's configuration is one global; calls inside are made with key."""
    before = client._config
    use(key)
    try:
        yield
    finally:
        client._config = before


def post(path, key, body, url=URL):
    """A request that the public client has no method for."""
    return requests.post(url + path, json=body, headers={"Authorization": "Bearer " + key}, timeout=PATIENCE)


def resolve(defer_token, approved):
    answer = post("/v1/approve", APPROVER, {"defer_token": defer_token, "approved": approved, "reason": "looked at it"})
    if answer.status_code != 200:
        raise AssertionError("approve: %s %s" % (answer.status_code, answer.text))


def background(work):
    """Runs work on a thread; join() waits for it and raises what it raised."""
    failed = []

    def run():
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def join():
        thread.join(PATIENCE)
        if thread.is_alive():
            raise AssertionError("still running after %d s" % PATIENCE)
        if failed:
            raise failed[0]

    return join


@contextlib.contextmanager
def environment(**values):
    """Environment variables of the client, and none of its others."""
    before = dict(os.environ)
    for variable in [v for v in os.environ if v.startswith("FARA")]:
        del os.environ[variable]
    os.environ.update(values)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)
