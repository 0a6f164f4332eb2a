# SPDX-License-Identifier: Apache-2.0
"""The library that opens URLs: whether we know its ABI, and what happens with an old one, the newest one, a strange one and none.

The newest libcurl comes from pycurl's wheel, with an OpenSSL of its own under another name. All of this is done by the command, in
processes of their own: what a process has loaded stays.
"""

import fcntl
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import termios
import time

import pytest

from network import LARGE, LARGE_BODY, SMALL, quick  # noqa: F401
from test_network_servers import INDEX, certificates, make_model, nginx  # noqa: F401
from web_server import Server

CLI = os.environ["COFFER_CLI"]
SOURCE = pathlib.Path(os.environ["COFFER_SOURCE_DIR"])


def coffer(*words, **others):
    return subprocess.run([CLI, *words], capture_output=True, text=True, timeout=60, env=os.environ | others)


# ---- The ABI --------------------------------------------------------------------------------------------------------


def curl_headers():
    """The folder of libcurl's headers, which are the same for every machine."""
    words = ["cc", "-E", "-x", "c", "-"]
    text = subprocess.run(words, input="#include <curl/curl.h>\n", capture_output=True, text=True, check=True).stdout
    return pathlib.Path(re.search(r'"([^"]+)/curl/curl\.h"', text)[1]) / "curl"


def compiles(compiler, folder, header):
    """Whether the comparison compiles with this text as our header."""
    (folder / "libcurl.h").write_text(header)
    if not (folder / "curl").exists():
        (folder / "curl").symlink_to(curl_headers())
    include = ["-I%s" % place for place in (folder, SOURCE / "include", SOURCE / "src/core", SOURCE / "src/os", SOURCE / "src/io")]
    words = [compiler, "-std=gnu11", "-fsyntax-only", *include, SOURCE / "tests/abi/libcurl_abi.c"]
    return subprocess.run(words, capture_output=True, text=True).returncode == 0


@pytest.mark.parametrize("compiler", ["gcc", "clang", "s390x-linux-gnu-gcc", "arm-linux-gnueabi-gcc"])
def test_our_header_says_what_libcurl_s_headers_say(tmp_path, compiler):
    assert compiles(compiler, tmp_path, (SOURCE / "src/net/libcurl.h").read_text())


def test_the_comparison_notices_every_number_and_type(tmp_path):
    header = (SOURCE / "src/net/libcurl.h").read_text()
    changes = [(match[0], match[1] + "77777") for match in re.finditer(r"(COFFER__CURL\w+ = )[^,\n/]+", header)]
    assert len(changes) > 50
    changes += [("const char *ssl_version;", "const char *a, *ssl_version;"), ("int features;", "long features;"),
                ("unsigned kind;", "uint64_t kind;"), ("int timeout_ms, int *ready", "long timeout_ms, int *ready"),
                ("(*multi_init)(void)", "(*multi_init)(int)"), ("(*global_init)(long flags)", "(*global_init)(int flags)")]  # fmt: skip
    for before, after in changes:
        assert before in header
        assert not compiles("gcc", tmp_path, header.replace(before, after, 1)), (before, after)


# ---- None, and an old one -------------------------------------------------------------------------------------------


def test_without_libcurl_one_error_says_what_to_install(tmp_path):
    for name in ("libcurl.so.4", "libcurl-gnutls.so.4"):
        (tmp_path / name).write_bytes(b"")
    result = coffer("ls", "http://127.0.0.1:1/m", LD_LIBRARY_PATH=str(tmp_path))
    assert result.returncode == 3
    assert "libcurl.so.4 cannot be loaded" in result.stderr
    assert "apt install libcurl4" in result.stderr
    assert len(result.stderr.splitlines()) == 1
    # What is on the disk is not affected.
    (tmp_path / "m.safetensors").write_bytes(SMALL)
    assert coffer("ls", tmp_path / "m.safetensors", LD_LIBRARY_PATH=str(tmp_path)).returncode == 0


def build_libcurl(folder, text, *words):
    folder.mkdir(exist_ok=True)
    (folder / "fake.c").write_text(text)
    for name in ("libcurl.so.4", "libcurl-gnutls.so.4"):
        subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / name, folder / "fake.c", *words], check=True)
    return str(folder)


def functions():
    return re.findall(r'\{ "(curl_\w+)"', (SOURCE / "src/net/libcurl.c").read_text())


def test_a_libcurl_that_is_too_old(tmp_path):
    """Of 7.84, which cannot be told which protocols to keep to."""
    rest = "".join("void %s(void) {}\n" % name for name in functions() if name != "curl_version_info")
    version = 'static struct { int age; const char *version; unsigned number; } v = { 0, "7.84.0", 0x075400 };'
    folder = build_libcurl(tmp_path, version + "void *curl_version_info(int age) { (void)age; return &v; }\n" + rest)
    result = coffer("ls", "http://127.0.0.1:1/m", LD_LIBRARY_PATH=folder)
    assert result.returncode == 3
    assert "is version 7.84.0: 7.85 or newer is needed" in result.stderr


def test_a_libcurl_that_lacks_a_function(tmp_path):
    rest = "".join("void %s(void) {}\n" % name for name in functions() if name != "curl_multi_poll")
    result = coffer("ls", "http://127.0.0.1:1/m", LD_LIBRARY_PATH=build_libcurl(tmp_path, rest))
    assert result.returncode == 3
    assert "has no curl_multi_poll: 7.85 or newer" in result.stderr


# ---- The one of the system, and the newest --------------------------------------------------------------------------


def newest_parts():
    """The folder with the newest libcurl and what it needs, and its own name there."""
    package = pathlib.Path(importlib.util.find_spec("pycurl").origin).parent
    folder = package.parent / "pycurl.libs"
    (library,) = folder.glob("libcurl-*.so.4*")
    return folder, library


@pytest.fixture(params=["system", "newest"])
def libcurl(request, tmp_path):
    """The environment in which the command finds one libcurl or the other."""
    if request.param == "system":
        return {}
    folder, library = newest_parts()
    (tmp_path / "newest").mkdir()
    (tmp_path / "newest" / "libcurl.so.4").symlink_to(library)
    return {"LD_LIBRARY_PATH": "%s:%s" % (tmp_path / "newest", folder)}


def test_the_newest_is_new():
    _, library = newest_parts()
    version = re.search(rb"libcurl/(\d+)\.(\d+)\.", library.read_bytes())
    assert (int(version[1]), int(version[2])) >= (8, 16)  # the first that refuses what we did


def test_a_file(libcurl):
    with Server({"/m": LARGE}) as server:
        result = subprocess.run([CLI, "get", server.url("/m"), "t1", "--format", "raw"], capture_output=True, env=os.environ | libcurl)
        assert result.stdout == LARGE_BODY[3 << 20 : 6 << 20], result.stderr
        assert {request.headers["accept-encoding"] for request in server.log} == {"identity"}


def test_a_signed_request(libcurl, monkeypatch):
    with Server({"/bucket/a%20b/m": SMALL}) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.origin)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        result = coffer("ls", "s3://bucket/a b/m", **libcurl)
        assert result.returncode == 0, result.stderr
        headers = server.log[0].headers
        assert headers["accept-encoding"] == "identity"
        # What lies between may change Accept-Encoding, so that it must not be signed.
        signed = re.search(r"SignedHeaders=([^,]+)", headers["authorization"])[1].split(";")
        assert set(signed) == {"host", "x-amz-checksum-mode", "x-amz-content-sha256", "x-amz-date"}


@pytest.mark.parametrize("key", ["a/../m", "./m", "a/.", "..", "a/./m"])
def test_a_signed_key_with_dots_is_asked_for_as_it_is_or_refused(libcurl, monkeypatch, key):
    with Server(behave=lambda request: request.ranges(SMALL)) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.origin)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        result = coffer("ls", "s3://bucket/" + key, **libcurl)
        if result.returncode == 0:
            assert server.paths == ["/bucket/" + key]
        else:
            assert "does not sign a path with /./ or /../" in result.stderr
            assert server.paths == []


FOLDS = [b" fo:lded\r\n", b"\tfolded\r\n", b" \r\n", b"  \r\n \r\n", b" a: b\r\n c\r\n"]


@pytest.mark.parametrize("fold", FOLDS)
@pytest.mark.parametrize("before", [b"", b"HTTP/1.1 103 Early\r\nLink: x\r\n\r\n"])
def test_an_answer_whose_head_begins_with_a_blank(libcurl, monkeypatch, fold, before):
    """libcurl 7.88 frees something twice when that comes to a handle that was used before."""

    def behave(request):
        if request.number == 0:
            return request.ranges(LARGE, {"X-Some": "field"})
        return request.raw(before + b"HTTP/1.1 206 OK\r\n" + fold + b"X-Other: field\r\nContent-Length: 0\r\n\r\n")

    monkeypatch.setenv("COFFER_NET_RETRIES", "2")
    with Server(behave=behave) as server:
        result = coffer("get", server.url("/m"), "t0", "--format", "raw", MALLOC_CHECK_="3", MALLOC_PERTURB_="165", **libcurl)
        assert result.returncode == 3, result.stderr
        assert result.stderr.startswith("coffer: http://")


# ---- TLS by one OpenSSL or another ----------------------------------------------------------------------------------


# A shell over another libcurl. Every argument is handed on as a pointer is, which is enough for the functions that are used.
SHELL = """
#include <dlfcn.h>
static void *real;
__attribute__((constructor)) static void open_it(void) { real = dlopen("%s", RTLD_NOW | RTLD_LOCAL); }
#define SHELL(name) \\
    void *name(void *a, void *b, void *c, void *d, void *e) \\
    { return ((void *(*)(void *, void *, ...))dlsym(real, #name))(a, b, c, d, e); }
"""


def strange_libcurl(folder):
    """A libcurl that uses one OpenSSL and depends on another one, as one with OpenSSL inside does where something else that it
    depends on needs the system's: a shell over the newest."""
    libraries, newest = newest_parts()
    text = SHELL % newest + "".join("SHELL(%s)\n" % name for name in functions())
    build_libcurl(folder, text, "-Wl,--no-as-needed", "-l:libssl.so.3", "-l:libcrypto.so.3", "-ldl")
    return {"LD_LIBRARY_PATH": "%s:%s" % (folder, libraries)}


def preloaded_openssl(name):
    """The system's libcurl in a process where a part of another OpenSSL comes before libcurl's own."""
    libraries, _ = newest_parts()
    (library,) = libraries.glob("%s-*.so.3*" % name)
    return {"LD_PRELOAD": str(library), "LD_LIBRARY_PATH": str(libraries)}


@pytest.fixture(params=["renamed", "strange", "libssl", "libcrypto"])
def other_openssl(request, tmp_path):
    if request.param == "renamed":
        folder, library = newest_parts()
        (tmp_path / "libcurl.so.4").symlink_to(library)
        return {"LD_LIBRARY_PATH": "%s:%s" % (tmp_path, folder)}
    return strange_libcurl(tmp_path / "strange") if request.param == "strange" else preloaded_openssl(request.param)


def test_tls_where_libcurl_s_openssl_is_another_one(nginx, certificates, other_openssl):  # noqa: F811
    (nginx.files / "several").mkdir(exist_ok=True)
    files, _ = make_model(5)
    for name, content in files.items():
        (nginx.files / "several" / name).write_bytes(content)
    result = coffer("ls", nginx.secure_url("several/" + INDEX), COFFER_NET_TIMEOUT="10", **other_openssl)
    assert result.returncode == 0, (result.returncode, result.stderr)
    assert "s5.t0" in result.stdout


def test_authorities_of_a_part_of_another_openssl_are_not_used(nginx, certificates, tmp_path):  # noqa: F811
    """Where libcrypto is not the one that libssl came with, libcurl reads them itself, for its connections, and more than once."""
    (nginx.files / "parts").mkdir()
    files, _ = make_model(5)
    for name, content in files.items():
        (nginx.files / "parts" / name).write_bytes(content)
    trace = tmp_path / "trace"
    command = ["strace", "-f", "-e", "trace=openat", "-o", trace, CLI, "ls", nginx.single_url("parts/" + INDEX)]
    given = ["-E" + "=".join(pair) for pair in preloaded_openssl("libcrypto").items()]
    command[1:1] = given  # for the command alone
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | {"COFFER_NET_TIMEOUT": "10"})
    assert result.returncode == 0, result.stderr
    assert len({line["connection"] for name in files for line in nginx.log("parts/" + name)}) >= len(files)
    assert trace.read_text().count("/ca.pem") > 1


def test_tls_with_another_openssl_trusts_nobody_else(nginx, other_openssl):  # noqa: F811
    result = coffer("ls", nginx.secure_url("secure"), COFFER_NET_TIMEOUT="10", **other_openssl)
    assert result.returncode == 3
    assert "TLS could not verify" in result.stderr


def wait_until_read(pipe):
    """Returns when nothing is left in a pipe; what reads it then waits for more, or for its end."""
    for _ in range(2000):
        if int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4), sys.byteorder) == 0:
            return
        time.sleep(0.005)
    raise AssertionError("nobody reads it")


def test_the_authorities_are_read_once(nginx, tmp_path, libcurl):  # noqa: F811
    """From a pipe, which has them once: who looks again waits until it is killed."""
    (nginx.files / "once-more").write_bytes(LARGE)
    os.mkfifo(tmp_path / "authorities")
    # Open in both directions: writing to it waits for nobody.
    pipe = os.open(tmp_path / "authorities", os.O_RDWR)
    os.write(pipe, (nginx.folder / "ca.pem").read_bytes())
    command = [CLI, "get", nginx.secure_url("once-more"), "t0", "--format", "raw"]
    environment = os.environ | libcurl | {"SSL_CERT_FILE": str(tmp_path / "authorities"), "COFFER_NET_TIMEOUT": "10"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        wait_until_read(pipe)
        os.close(pipe)
        out, err = process.communicate(timeout=20)
        assert (process.returncode, out) == (0, LARGE_BODY[: 3 << 20]), err
