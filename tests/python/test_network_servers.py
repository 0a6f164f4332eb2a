# SPDX-License-Identifier: Apache-2.0
"""Files behind a real server: nginx with its ranges, validators, TLS and HTTP/2, on the loopback interface."""

import contextlib
import os
import re
import shutil
import socket
import struct
import subprocess
import threading
import time

import pytest

from network import FIRST, LARGE, LARGE_BODY, SMALL, SMALL_BODY, Model, quick  # noqa: F401
from test_network_models import INDEX, make_model

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"


def free_ports(count):
    """Taken all at once: of those that are taken one after the other, two may be the same."""
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(count)]
        return [listener.getsockname()[1] for listener in listeners]


CERTIFICATES = [
    ("server.pem", "20200101000000Z", "20491231000000Z"),
    ("expired.pem", "20200101000000Z", "20200102000000Z"),
    ("early.pem", "20491230000000Z", "20491231000000Z"),
]


def make_certificates(folder):
    """An authority of our own, and certificates of it for localhost: a good one, an expired one and one of the future."""

    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=An authority", "-days", "2")
    openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (folder / "names").write_text("subjectAltName=DNS:localhost\n")
    (folder / "ca.cnf").write_text("""
        [ca]\ndefault_ca = here\n[here]\ndatabase = index.txt\nserial = serial\nnew_certs_dir = .\ndefault_md = sha256
        policy = any\nunique_subject = no\n[any]\ncommonName = supplied\n""")
    (folder / "index.txt").write_text("")
    (folder / "serial").write_text("01\n")
    for name, since, until in CERTIFICATES:
        openssl("ca", "-batch", "-notext", "-config", "ca.cnf", "-cert", "ca.pem", "-keyfile", "ca.key", "-in", "server.csr",
                "-out", name, "-startdate", since, "-enddate", until, "-extfile", "names")  # fmt: skip


class Nginx:
    def __init__(self, folder):
        self.folder, self.files = folder, folder / "files"
        self.files.mkdir()
        make_certificates(folder)
        self.plain, self.secure, self.single, self.expired, self.early = free_ports(5)
        places = "".join("%s_temp_path %s/temp;\n" % (name, folder) for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (folder / "nginx.conf").write_text(f"""
            daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log;
            events {{ }}
            http {{
                {places}
                log_format line '$request_method $uri $server_protocol $status $http_range $connection';
                access_log {folder}/access.log line;
                root {self.files};
                gzip on; gzip_types *; gzip_min_length 1;
                server {{ listen 127.0.0.1:{self.plain}; }}
                server {{
                    listen 127.0.0.1:{self.secure} ssl http2;
                    ssl_certificate {folder}/server.pem; ssl_certificate_key {folder}/server.key;
                }}
                server {{
                    listen 127.0.0.1:{self.single} ssl; keepalive_timeout 0;
                    ssl_certificate {folder}/server.pem; ssl_certificate_key {folder}/server.key;
                }}
                server {{
                    listen 127.0.0.1:{self.expired} ssl;
                    ssl_certificate {folder}/expired.pem; ssl_certificate_key {folder}/server.key;
                }}
                server {{
                    listen 127.0.0.1:{self.early} ssl;
                    ssl_certificate {folder}/early.pem; ssl_certificate_key {folder}/server.key;
                }}
            }}
        """)
        self.process = subprocess.Popen([NGINX, "-c", str(folder / "nginx.conf")], stderr=subprocess.DEVNULL)

    def wait(self):
        for _ in range(2000):
            try:
                socket.create_connection(("127.0.0.1", self.secure)).close()
                return
            except ConnectionRefusedError:
                assert self.process.poll() is None, (self.folder / "error.log").read_text()
                time.sleep(0.005)
        raise AssertionError("nginx does not listen")

    def url(self, name):
        return "http://127.0.0.1:%d/%s" % (self.plain, name)

    def secure_url(self, name):
        return "https://localhost:%d/%s" % (self.secure, name)

    def single_url(self, name):
        """There every request has a connection of its own."""
        return "https://localhost:%d/%s" % (self.single, name)

    def log(self, name, least=1):
        """What was asked of a file, as dicts. nginx writes a line when it has sent the answer, which may be a moment after that came."""
        pattern = re.compile(r"(?P<method>\S+) /(?P<name>\S+) (?P<protocol>\S+) (?P<status>\d+) (?P<range>\S+) (?P<connection>\d+)")
        for _ in range(2000):
            lines = (self.folder / "access.log").read_text().splitlines()
            found = [match.groupdict() for match in map(pattern.fullmatch, lines) if match and match["name"] == name]
            if len(found) >= least:
                break
            time.sleep(0.001)
        return found


class Breaking:
    """A port that leads to another one, but for the first connections, which break off within the handshake."""

    def __init__(self, to, broken, reset, read):
        self.to, self.broken, self.reset, self.read = to, broken, reset, read
        self.connections = 0
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=128)
        self.number = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                self.connections += 1
                if self.connections > self.broken:
                    self.lead(connection)
                    continue
                if self.read:
                    connection.recv(1 << 16)
                if self.reset:
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()

    def lead(self, connection):
        other = socket.create_connection(("127.0.0.1", self.to))
        for a, b in ((connection, other), (other, connection)):
            threading.Thread(target=self.copy, args=(a, b), daemon=True).start()

    def copy(self, from_, to):
        with contextlib.suppress(OSError):
            while piece := from_.recv(1 << 16):
                to.sendall(piece)
            to.shutdown(socket.SHUT_WR)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()


@pytest.fixture(scope="module")
def nginx(tmp_path_factory):
    server = Nginx(tmp_path_factory.mktemp("nginx"))
    server.wait()
    yield server
    server.process.kill()
    server.process.wait()


@pytest.fixture
def certificates(nginx, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(nginx.folder / "ca.pem"))


def test_ranges(nginx):
    (nginx.files / "plain").write_bytes(LARGE)
    with Model(nginx.url("plain")) as model:
        assert model.code == "OK", model.message
        assert model.read("t1") == LARGE_BODY[3 << 20 : 6 << 20]
    log = nginx.log("plain")
    assert log[0]["range"] == "bytes=0-%d" % (FIRST - 1)
    assert {line["status"] for line in log} == {"206"}


def test_a_file_shorter_than_the_first_request(nginx):
    (nginx.files / "small").write_bytes(SMALL)
    with Model(nginx.url("small")) as model:
        assert model.read("t0") + model.read("t1") == SMALL_BODY
    assert len(nginx.log("small")) == 1


def test_an_empty_file(nginx):
    (nginx.files / "empty").write_bytes(b"")
    with Model(nginx.url("empty")) as model:
        assert model.code == "EMPTY", model.message
    assert len(nginx.log("empty")) == 1


def test_a_file_that_is_replaced(nginx):
    (nginx.files / "replaced").write_bytes(LARGE)
    with Model(nginx.url("replaced")) as model:
        assert model.code == "OK", model.message
        (nginx.files / "new").write_bytes(LARGE)
        os.utime(nginx.files / "new", (1, 1))
        (nginx.files / "new").rename(nginx.files / "replaced")
        assert model.read("t0") == "CHANGED"


def test_tls_and_http_2(nginx, certificates):
    (nginx.files / "secure").write_bytes(LARGE)
    with Model(nginx.secure_url("secure")) as model:
        assert model.code == "OK", model.message
        assert model.read("t2") == LARGE_BODY[6 << 20 :]
    log = nginx.log("secure", 2)
    assert len(log) > 1
    assert {line["protocol"] for line in log} == {"HTTP/2.0"}


def test_an_authority_that_is_not_trusted(nginx):
    with Model(nginx.secure_url("secure")) as model:
        assert model.code == "CERTIFICATE", model.message
        assert "the issuer of its certificate is not trusted here" in model.message
        assert "SSL_CERT_FILE" in model.message


def test_a_file_of_authorities_that_is_not_there(nginx, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(nginx.folder / "nothing"))
    with Model(nginx.secure_url("secure")) as model:
        assert model.code == "CERTIFICATE", model.message


def test_the_authorities_are_read_once_for_all_connections(nginx, tmp_path, monkeypatch):
    """From a pipe, which has them once: who looks again waits for ever."""
    (nginx.files / "once").mkdir()
    files, _ = make_model(5)
    for name, content in files.items():
        (nginx.files / "once" / name).write_bytes(content)
    os.mkfifo(tmp_path / "authorities")
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authorities"))
    command = [os.environ["COFFER_CLI"], "ls", nginx.single_url("once/" + INDEX)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        (tmp_path / "authorities").write_bytes((nginx.folder / "ca.pem").read_bytes())
        assert process.wait(60) == 0, process.stderr.read()
    assert len({line["connection"] for name in files for line in nginx.log("once/" + name)}) >= len(files)


def test_a_certificate_for_another_name(nginx, certificates):
    with Model("https://127.0.0.1:%d/secure" % nginx.secure) as model:
        assert model.code == "CERTIFICATE", model.message
        assert "its certificate is for another name" in model.message


def test_a_certificate_that_has_expired(nginx, certificates):
    with Model("https://localhost:%d/secure" % nginx.expired) as model:
        assert model.code == "CERTIFICATE", model.message
        assert "its certificate has expired" in model.message


def test_a_certificate_of_the_future(nginx, certificates):
    with Model("https://localhost:%d/secure" % nginx.early) as model:
        assert model.code == "CERTIFICATE", model.message
        assert "not valid yet" in model.message


@pytest.mark.parametrize(("reset", "read"), [(True, 1), (False, 1), (False, 0)])
def test_a_handshake_that_breaks_off_is_tried_again(nginx, certificates, monkeypatch, reset, read):
    """By a reset or in order; the third connection goes through."""
    (nginx.files / "secure").write_bytes(LARGE)
    monkeypatch.setenv("COFFER_NET_TIMEOUT", "10")
    with Breaking(nginx.secure, 2, reset, read) as port:
        with Model("https://localhost:%d/secure" % port.number) as model:
            assert model.code == "OK", model.message
    assert port.connections >= 3


@pytest.mark.parametrize("reset", [True, False])
def test_handshakes_that_always_break_off(nginx, certificates, monkeypatch, reset):
    monkeypatch.setenv("COFFER_NET_TIMEOUT", "10")
    with Breaking(nginx.secure, 1000, reset, 1) as port, Model("https://localhost:%d/secure" % port.number) as model:
        assert model.code == "CONNECT", model.message
    assert port.connections == 4


def test_a_server_that_does_not_speak_tls_is_asked_once(nginx, certificates, monkeypatch):
    monkeypatch.setenv("COFFER_NET_PAUSE", "60")  # which is not waited then
    with Model("https://localhost:%d/plain" % nginx.plain) as model:
        assert model.code == "CERTIFICATE", model.message


def test_a_model_of_several_files(nginx, certificates):
    files, bodies = make_model(20)
    (nginx.files / "model").mkdir()
    for name, content in files.items():
        (nginx.files / "model" / name).write_bytes(content)
    with Model(nginx.secure_url("model/")) as model:
        assert model.code == "OK", model.message
        assert model.read("s20.t2") == bodies["s20.t2"]
    assert len(nginx.log("model/model.safetensors")) == 1
    assert [line["status"] for line in nginx.log("model/" + INDEX)] == ["200"]
    for name in files:
        assert len(nginx.log("model/" + name)) == 1
