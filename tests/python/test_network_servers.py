# SPDX-License-Identifier: Apache-2.0
"""Files behind a real server: nginx with its ranges, validators, TLS and HTTP/2, on the loopback interface."""

import os
import re
import shutil
import socket
import subprocess
import time

import pytest

from network import FIRST, LARGE, LARGE_BODY, SMALL, SMALL_BODY, Model, quick  # noqa: F401
from test_network_models import INDEX, make_model

NGINX = shutil.which("nginx") or "/usr/sbin/nginx"


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def make_certificates(folder):
    """An authority of our own, and a certificate of it for localhost."""

    def openssl(*words):
        subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)

    key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=An authority", "-days", "2")
    openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (folder / "names").write_text("subjectAltName=DNS:localhost\n")
    openssl("x509", "-req", "-in", "server.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "server.pem",
            "-days", "2", "-extfile", "names")  # fmt: skip


class Nginx:
    def __init__(self, folder):
        self.folder, self.files = folder, folder / "files"
        self.files.mkdir()
        make_certificates(folder)
        self.plain, self.secure = free_port(), free_port()
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
    command = [os.environ["COFFER_CLI"], "ls", nginx.secure_url("once/" + INDEX)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        (tmp_path / "authorities").write_bytes((nginx.folder / "ca.pem").read_bytes())
        assert process.wait(60) == 0, process.stderr.read()
    assert len({line["connection"] for name in files for line in nginx.log("once/" + name)}) > 1


def test_a_certificate_for_another_name(nginx, certificates):
    with Model("https://127.0.0.1:%d/secure" % nginx.secure) as model:
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
