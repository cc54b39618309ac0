"""The part of a plugin that is the same for every author: handshake, mutual TLS, gRPC services, health, drain, logs.

It speaks the protocol of sdk/proto/v1/plugin.proto as sdk/plugin/OTHER-LANGUAGES.md describes it. No failure ends as
a verdict: what goes wrong in a check is sent as its error. It needs grpcio and cryptography.
"""

import asyncio
import base64
import dataclasses
import datetime
import decimal
import json
import logging
import os
import re
import signal
import stat
import sys
import tempfile
import time

import grpc
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

import plugin_pb2 as pb
import plugin_pb2_grpc as pb_grpc

COOKIE = ("YETT_PLUGIN", "9b2d7f0c-yett-plugin")
PROTOCOL = 1
MAX_MESSAGE = 4 << 20
MAX_SECRET = 1 << 20
MAX_LINE = 1024
IN_FLIGHT = 64  # checks at once; more wait in the connection
GRACE = 1.0  # seconds after SIGTERM for calls that were on their way
DRAIN = 20.0  # seconds after SIGTERM for calls that were begun
CODE = re.compile(r"[A-Z0-9_]{1,64}")

log = logging.getLogger("plugin")


class JSONLines(logging.Formatter):
    """One JSON object a line, as the gateway's log takes it."""

    def format(self, record):
        out = {"time": datetime.datetime.now(datetime.timezone.utc).isoformat(), "level": record.levelname, "msg": record.getMessage()}
        if record.exc_info:
            out["stack"] = self.formatException(record.exc_info)
        return json.dumps(out)


@dataclasses.dataclass(frozen=True)
class Secret:
    name: str
    required: bool = False
    description: str = ""


@dataclasses.dataclass(frozen=True)
class Info:
    name: str
    version: str
    description: str = ""
    config_schema: str = ""
    example_config: str = ""
    secrets: tuple = ()
    cache_key_fields: tuple = ()


@dataclasses.dataclass(frozen=True)
class Problem:
    """One thing wrong with the settings; field is a JSON pointer."""

    field: str
    message: str


@dataclasses.dataclass(frozen=True)
class Settings:
    config: dict  # numbers are int or Decimal
    secrets: dict  # name -> bytes
    instance: str
    generation: str
    log: logging.Logger


@dataclasses.dataclass(frozen=True)
class Call:
    key_id: str
    key_name: str
    agent_id: str
    session_id: str
    tool_id: str
    operation: str
    call_id: str
    args: dict  # numbers are int or Decimal; {} when there are none
    context: dict
    digest: bytes
    time_unix_nano: int
    generation: str


@dataclasses.dataclass(frozen=True)
class Verdict:
    effect: int
    code: str = ""
    reason: str = ""
    rule_id: str = ""
    message: str = ""
    ttl_ms: int = 0

    @classmethod
    def abstain(cls):
        return cls(pb.CheckResponse.EFFECT_ABSTAIN)

    @classmethod
    def permit(cls, code, **more):
        return cls(pb.CheckResponse.EFFECT_PERMIT, code, **more)

    @classmethod
    def defer(cls, code, **more):
        return cls(pb.CheckResponse.EFFECT_DEFER, code, **more)

    @classmethod
    def deny(cls, code, **more):
        return cls(pb.CheckResponse.EFFECT_DENY, code, **more)


class Malformed(Exception):
    """A request that is not whole."""


def clip(text):
    """Text about an error, short enough for the wire."""
    return str(text).encode("utf-8", "replace")[:MAX_LINE].decode("utf-8", "ignore")


def _members(pairs):
    out = dict(pairs)
    if len(out) != len(pairs):
        raise ValueError("a member is given twice")
    return out


def _constant(word):
    raise ValueError(word + " is no JSON")


def json_object(raw, field):
    """Reads a JSON object strictly: no member twice, no NaN, numbers as they were written."""
    try:
        value = json.loads(raw.decode("utf-8"), object_pairs_hook=_members, parse_float=decimal.Decimal, parse_constant=_constant)
    except (ValueError, RecursionError, decimal.DecimalException) as err:
        raise Malformed(f"{field}: {err}") from None
    if not isinstance(value, dict):
        raise Malformed(f"{field}: must be a JSON object")
    return value


def read_call(request):
    """Refuses what is no call."""
    if request.id == 0:
        raise Malformed("id: must not be 0")
    if not request.HasField("call"):
        raise Malformed("call: is missing")
    if request.deadline_unix_nano < 0:
        raise Malformed("deadline_unix_nano: is negative")
    call = request.call
    if not call.tool_id:
        raise Malformed("call.tool_id: is missing")
    if len(call.digest) != 32:
        raise Malformed(f"call.digest: {len(call.digest)} bytes, must be 32")
    return Call(
        key_id=call.key_id, key_name=call.key_name, agent_id=call.agent_id, session_id=call.session_id, tool_id=call.tool_id,
        operation=call.operation, call_id=call.call_id, args=json_object(call.args or b"{}", "call.args"),
        context=json_object(call.context or b"{}", "call.context"), digest=call.digest, time_unix_nano=call.time_unix_nano,
        generation=request.generation)


def read_secret(path):
    """The whole file, without one newline at its end."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise OSError("not a regular file")
    with open(path, "rb") as file:
        value = file.read(MAX_SECRET + 1)
    if len(value) > MAX_SECRET:
        raise OSError(f"longer than {MAX_SECRET} bytes")
    return value.removesuffix(b"\n")


def answer(request_id, verdict):
    """The wire form of a verdict. ValueError: it breaks a rule."""
    known = (pb.CheckResponse.EFFECT_ABSTAIN, pb.CheckResponse.EFFECT_PERMIT, pb.CheckResponse.EFFECT_DEFER, pb.CheckResponse.EFFECT_DENY)
    if not isinstance(verdict, Verdict) or verdict.effect not in known:
        raise ValueError("no verdict")
    if verdict.effect != pb.CheckResponse.EFFECT_ABSTAIN and not CODE.fullmatch(verdict.code):
        raise ValueError(f"code {verdict.code!r}: must be 1 to 64 of A-Z 0-9 _")
    for name, most in (("reason", MAX_LINE), ("message", MAX_LINE), ("rule_id", 256)):
        if len(getattr(verdict, name).encode()) > most:
            raise ValueError(f"{name}: more than {most} bytes")
    if verdict.ttl_ms < 0:
        raise ValueError("ttl_ms: is negative")
    return pb.CheckResponse(id=request_id, effect=verdict.effect, code=verdict.code, reason=verdict.reason, rule_id=verdict.rule_id,
                            message=verdict.message, ttl_ms=verdict.ttl_ms)


class Service(pb_grpc.PluginServicer, pb_grpc.AuthorizerServicer):
    """Both services of one plugin. Everything runs on one event loop."""

    def __init__(self, plugin):
        self.plugin = plugin
        self.state = "fresh"  # serving, failed
        self.draining = asyncio.Event()
        self.over = asyncio.Event()  # streams end
        self.refusing = False
        self.in_flight = 0
        self.slots = asyncio.Semaphore(IN_FLIGHT)

    async def Info(self, request, context):
        info = self.plugin.info
        return pb.InfoResponse(
            name=info.name, version=info.version, kinds=[pb.KIND_AUTHORIZER], api_versions=[PROTOCOL], config_schema=info.config_schema,
            example_config=info.example_config, description=info.description,
            capabilities=pb.Capabilities(check_stream=True, cache_key_fields=info.cache_key_fields, max_in_flight=IN_FLIGHT),
            secrets=[pb.SecretSpec(name=s.name, required=s.required, description=s.description) for s in info.secrets])

    def settings(self, request):
        """The settings, or what is wrong before the author sees them."""
        found, config, secrets = [], {}, {}
        try:
            config = json_object(request.config or b"{}", "config")
        except Malformed as err:
            found.append(Problem("", str(err)))
        declared = {s.name: s for s in self.plugin.info.secrets}
        for name in request.secrets:
            if name not in declared:
                found.append(Problem("secrets." + name, "the plugin takes no secret of this name"))
        for name, spec in declared.items():
            if name in request.secrets:
                try:
                    secrets[name] = read_secret(request.secrets[name])
                except OSError as err:
                    found.append(Problem("secrets." + name, f"its file cannot be read: {err}"))
            if spec.required and not secrets.get(name):
                found.append(Problem("secrets." + name, "this secret is required"))
        return Settings(config, secrets, request.instance, request.generation, log), found

    async def Configure(self, request, context):
        settings, found = self.settings(request)
        if not found:
            found = self.plugin.validate(settings)
        if found or request.validate_only:
            return pb.ConfigureResponse(problems=[pb.Problem(field=clip(p.field), message=clip(p.message)) for p in found[:64]])
        if self.state != "fresh":
            await context.abort(grpc.StatusCode.FAILED_PRECONDITION, "Configure was called already: it comes once")
        self.state = "failed"
        try:
            self.plugin.configure(settings)
        except Exception as err:
            log.exception("Configure failed")
            await context.abort(grpc.StatusCode.UNKNOWN, clip(f"Configure: {err}"))
        self.state = "serving"
        return pb.ConfigureResponse()

    def health(self):
        if self.draining.is_set():
            return pb.HealthResponse(status=pb.HealthResponse.STATUS_DRAINING, detail="the plugin was told to end")
        if self.state != "serving":
            return pb.HealthResponse(status=pb.HealthResponse.STATUS_NOT_SERVING, detail="not configured")
        return pb.HealthResponse(status=pb.HealthResponse.STATUS_SERVING)

    async def Health(self, request, context):
        if not 1 <= request.interval_ms <= 1 << 22:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "interval_ms: must be 1 to 4194304")
        told = False
        while not self.over.is_set():
            now = self.health()
            told = now.status == pb.HealthResponse.STATUS_DRAINING
            yield now
            wait = self.over if told else self.draining
            try:
                await asyncio.wait_for(wait.wait(), request.interval_ms / 1000)
            except asyncio.TimeoutError:
                pass

    def refusal(self):
        """Why no call is answered, or None."""
        if self.state != "serving":
            return grpc.StatusCode.FAILED_PRECONDITION, "not configured: Configure comes first"
        if self.refusing:
            return grpc.StatusCode.UNAVAILABLE, "the plugin was told to end"
        return None

    async def decide(self, request, call):
        """The answer to one call: a verdict in time, or an error."""
        left = request.deadline_unix_nano / 1e9 - time.time() if request.deadline_unix_nano else None
        try:
            if left is not None and left <= 0:
                return pb.CheckResponse(id=request.id, error="the deadline was over before the check began")
            verdict = await asyncio.wait_for(self.plugin.check(call), left)
            if request.deadline_unix_nano and time.time_ns() >= request.deadline_unix_nano:
                return pb.CheckResponse(id=request.id, error="the verdict came after the deadline")
            return answer(request.id, verdict)
        except asyncio.TimeoutError:
            return pb.CheckResponse(id=request.id, error="the deadline was over before there was a verdict")
        except Exception as err:
            log.exception("check failed")
            return pb.CheckResponse(id=request.id, error=clip(f"{type(err).__name__}: {err}"))

    async def Check(self, request, context):
        refused = self.refusal()
        if refused:
            await context.abort(*refused)
        try:
            call = read_call(request)
        except Malformed as err:
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, clip(err))
        self.in_flight += 1
        try:
            async with self.slots:
                return await self.decide(request, call)
        finally:
            self.in_flight -= 1

    async def CheckStream(self, requests, context):
        """One task a call, at most IN_FLIGHT at once; answers go out in the order in which they are ready."""
        if self.state != "serving":
            await context.abort(*self.refusal())
        answers = asyncio.Queue()
        reader = asyncio.create_task(self.read(requests, answers))
        over = asyncio.create_task(self.over.wait())
        try:
            while True:
                get = asyncio.create_task(answers.get())
                await asyncio.wait({get, over}, return_when=asyncio.FIRST_COMPLETED)
                if not get.done():
                    get.cancel()
                    return
                item = get.result()
                if item is None:
                    break
                yield item
            if await reader:
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, "id: must not be 0")
        finally:
            over.cancel()
            reader.cancel()

    async def read(self, requests, answers):
        """Starts the tasks. True: a request had no id, so that it cannot be answered."""
        tasks, bad = set(), False
        try:
            async for request in requests:
                if request.id == 0:
                    bad = True
                    break
                await self.slots.acquire()
                self.in_flight += 1
                task = asyncio.create_task(self.one(request, answers))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
            if tasks:
                await asyncio.gather(*tasks, return_exceptions=True)
            return bad
        finally:
            for task in tasks:
                task.cancel()
            answers.put_nowait(None)

    async def one(self, request, answers):
        try:
            refused = self.refusal()
            if refused:
                answers.put_nowait(pb.CheckResponse(id=request.id, error=refused[1]))
                return
            try:
                call = read_call(request)
            except Malformed as err:
                answers.put_nowait(pb.CheckResponse(id=request.id, error=clip(err)))
                return
            answers.put_nowait(await self.decide(request, call))
        finally:
            self.in_flight -= 1
            self.slots.release()

    async def drain(self):
        """Lets what was begun come to its end. Gives how many calls did not."""
        self.draining.set()
        begun = idle = time.monotonic()
        while True:
            await asyncio.sleep(0.005)
            now = time.monotonic()
            if self.in_flight:
                idle = now
            if now - begun > GRACE:
                self.refusing = True
            if now - idle > 0.05 or now - begun > DRAIN:
                self.over.set()
                return self.in_flight


def certificate():
    """A key and a certificate of this process alone: PEM of both, and the DER of the certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost"), x509.NameAttribute(NameOID.ORGANIZATION_NAME, "plugin")])
    now = datetime.datetime.now(datetime.timezone.utc)
    cert = (
        x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1)).not_valid_after(now + datetime.timedelta(days=30 * 365))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(key, hashes.SHA256()))
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return pem, cert.public_bytes(serialization.Encoding.PEM), cert.public_bytes(serialization.Encoding.DER)


async def watch_parent(parent):
    """Ends the process when its parent has ended: nobody would read its answers."""
    while True:
        await asyncio.sleep(1)
        if os.getppid() != parent:
            log.error("the parent process has ended, and so does the plugin")
            os._exit(1)


async def run(plugin, handshake):
    """Serves until SIGTERM. Gives the exit status."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    watch = asyncio.create_task(watch_parent(os.getppid()))
    service = Service(plugin)
    server = grpc.aio.server(options=[
        ("grpc.max_receive_message_length", MAX_MESSAGE), ("grpc.max_send_message_length", MAX_MESSAGE),
        ("grpc.http2.min_ping_interval_without_data_ms", 50), ("grpc.http2.max_ping_strikes", 0),
        ("grpc.keepalive_permit_without_calls", 1)])
    pb_grpc.add_PluginServicer_to_server(service, server)
    pb_grpc.add_AuthorizerServicer_to_server(service, server)

    folder = os.environ.get("PLUGIN_UNIX_SOCKET_DIR") or tempfile.mkdtemp(prefix="plugin")
    path = os.path.join(folder, f"plugin{os.getpid()}")
    client, encoded = os.environ.get("PLUGIN_CLIENT_CERT"), ""
    if client:
        key, cert, der = certificate()
        encoded = base64.b64encode(der).decode().rstrip("=")
        server.add_secure_port("unix:" + path, grpc.ssl_server_credentials(
            [(key, cert)], root_certificates=client.encode(), require_client_auth=True))
    else:
        server.add_insecure_port("unix:" + path)
    await server.start()
    print(f"1|{PROTOCOL}|unix|{path}|grpc|{encoded}", file=handshake, flush=True)

    await stop.wait()
    left = await service.drain()
    await server.stop(0.2)
    watch.cancel()
    if left:
        log.error("ended with %d calls that were not answered", left)
        return 1
    return 0


def serve(plugin):
    """The whole body of main."""
    handshake, sys.stdout = sys.stdout, sys.stderr  # a stray print must not be taken for the handshake
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JSONLines())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
    if os.environ.get(COOKIE[0]) != COOKIE[1]:
        sys.exit(f"This is {plugin.info.name} {plugin.info.version}, a plugin for Yett. It is not run by hand: the gateway starts it.\n"
                 f"  yett plugin conform {sys.argv[0]}   tells whether it keeps the rules")
    if str(PROTOCOL) not in os.environ.get("PLUGIN_PROTOCOL_VERSIONS", str(PROTOCOL)).split(","):
        log.warning("the host does not speak protocol version %d", PROTOCOL)  # it is told ours, and says so itself
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.exit(asyncio.run(run(plugin, handshake)))
