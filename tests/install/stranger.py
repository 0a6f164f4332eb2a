#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Follows the README as somebody does who has a Debian machine, a checkout and nothing else; then CONTRIBUTING's quick goals.

    tests/install/stranger.py       as root, on Debian

The machine is this one below an overlay in memory, in a mount namespace of its own: what is done there is gone afterwards. What
the README has to install is removed first, /usr/local and the home are empty. Then every block of the README is done from top to
bottom: files are written, commands run, and their output must be what the README shows. `make install` is repeated by an ordinary
user, to whom the checkout belongs. `make test` runs in this checkout, below an overlay of its own, so that what was built before
is not compiled again; of the goals that take long tests/python/test_setup.py sees that what they run is installed.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "tests/python"))

from documents import blocks_of, file_of, on_any_machine, sessions  # noqa: E402

# The README's steps bring back what of these they need; what depends on them goes, too.
REMOVED = ("gcc cpp clang make cmake ninja-build pkg-config pkgconf libc6-dev libxxhash-dev libcurl4-openssl-dev libcmocka-dev "
           "python3-venv python3-dev xxhash strace valgrind bindfs nginx-light openmpi-bin").split()
SOMEBODY = 4711  # an ordinary user's number
HOME = "/srv/stranger"
CHECKOUT = f"{HOME}/coffer"
MEMORY = "12g"  # at most; what is written takes it, about 3 GB
CLONE_NEWNS = 0x00020000

# How the machine reaches its package registries is its own affair, and the stranger's machine is there, too.
PASSED_ON = ("PIP_", "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "SSL_CERT_FILE")


def mount(*arguments):
    subprocess.run(["mount", *arguments], check=True)


def make_machine(folder):
    """A mount namespace with the machine's root below `folder`, empty where the stranger's is. Returns the root."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS) != 0:
        sys.exit(f"stranger: no mount namespace: {os.strerror(ctypes.get_errno())}; this needs root")
    mount("--make-rprivate", "/")
    mount("-t", "tmpfs", "-o", f"size={MEMORY}", "tmpfs", folder)
    upper, work, root = folder / "upper", folder / "work", folder / "root"
    for path in (upper, work, root):
        path.mkdir()
    mount("-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={upper},workdir={work}", root)
    mount("-t", "proc", "proc", root / "proc")
    for path in ("dev", "sys"):
        mount("--rbind", f"/{path}", root / path)
    for path in ("usr/local", "srv", "tmp"):
        mount("-t", "tmpfs", "-o", f"size={MEMORY},mode=1777", "tmpfs", root / path)
    for path in ("bin", "lib", "include", "share"):
        (root / "usr/local" / path).mkdir()
    return root


def environment():
    """What a login shell has."""
    passed = {name: value for name, value in os.environ.items() if name.startswith(PASSED_ON)}
    return passed | {"HOME": HOME, "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8",
                     "DEBIAN_FRONTEND": "noninteractive"}


def overlay(folder, at):
    """What lies at a path of this machine, below the machine's root; what is written there is gone afterwards."""
    for path in (folder / "upper", folder / "work"):
        path.mkdir(parents=True)
    at.mkdir(parents=True, exist_ok=True)
    mount("-t", "overlay", "overlay", "-o", f"lowerdir={SOURCE},upperdir={folder / 'upper'},workdir={folder / 'work'}", at)


def run(root, command, folder=CHECKOUT, user=0):
    """What a command says, both streams in their order. Ends the program when it fails."""
    # The working folder is set inside, after the change of root.
    script = f'cd "{folder}"\n{command}'
    done = subprocess.run(["chroot", f"--userspec={user}:{user}", root, "bash", "-e", "-o", "pipefail", "-c", script], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment(), check=False)
    if done.returncode != 0:
        sys.exit(f"stranger: {command}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def empty_machine(root):
    run(root, "apt-get -qq -o DPkg::Lock::Timeout=600 purge " +
        " ".join(f"$(dpkg-query -W -f '${{Package}} ' {package} 2>/dev/null)" for package in REMOVED), "/")
    run(root, "apt-get -qq -o DPkg::Lock::Timeout=600 autoremove --purge", "/")
    for program in ("cc", "make", "cmake", "ninja", "pkg-config", "coffer"):
        if subprocess.run(["chroot", root, "which", program], env=environment(), stdout=subprocess.DEVNULL, check=False).returncode == 0:
            sys.exit(f"stranger: {program} is still there, so nothing would show that the README brings it")
    # Whoever is root has no use for it; whoever is not has it.
    sudo = root / "usr/local/sbin/sudo"
    sudo.parent.mkdir(exist_ok=True)
    sudo.write_text('#!/bin/sh\nexec "$@"\n')
    sudo.chmod(0o755)


def refuse_to_install(root):
    """`make` says what is missing and leaves the machine as it is."""
    packages = run(root, "dpkg-query -W", "/")
    said = run(root, "! tools/build/setup.sh build 2>&1")
    if "make deps installs it" not in said or run(root, "dpkg-query -W", "/") != packages:
        sys.exit(f"stranger: `make` on an empty machine said\n{said}\nand must list what is missing, and install nothing")


def check_out(root):
    """The files that git knows or would add, as a clone would have them."""
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=SOURCE, check=True,
                           stdout=subprocess.PIPE, text=True).stdout
    for name in filter(None, names.split("\0")):
        source, target = SOURCE / name, root / CHECKOUT.lstrip("/") / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, target)


def follow(root, document):
    """Does what the document says. Returns how many commands that were."""
    count = 0
    for block in blocks_of(document):
        if file_of(block) is not None:
            (root / CHECKOUT.lstrip("/") / file_of(block)).write_text(block.text)
        if not block.language.startswith("sh"):
            continue
        steps = sessions(block.text) or [(line, None) for line in block.text.splitlines()]
        for command, shown in steps:
            print(f"$ {command}", flush=True)
            said = run(root, command)
            count += 1
            if shown is not None and on_any_machine(said.rstrip("\n")) != on_any_machine(shown):
                sys.exit(f"stranger: {block}: {command}\nsaid\n{said}\nand not\n{shown}")
    return count


def install_for_somebody(root):
    """The checkout is an ordinary user's, who first installs for all by root, then for themselves."""
    run(root, f"chown -R {SOMEBODY}:{SOMEBODY} {HOME}", "/")
    run(root, "make install")
    run(root, f"make install PREFIX={HOME}/own", user=SOMEBODY)
    run(root, f"{HOME}/own/bin/coffer --version", user=SOMEBODY)


def quick_goals(root, folder):
    install_for_somebody(root)
    overlay(folder / "checkout", root / str(SOURCE).lstrip("/"))
    # Some tests are about files on a disk; what else is here lies in memory.
    with tempfile.TemporaryDirectory(dir=SOURCE / "build") as disk:
        os.chmod(disk, 0o1777)
        mount("--bind", disk, root / "tmp")
        run(root, "make deps FOR=test && make test", SOURCE)


def main():
    if os.geteuid() != 0:
        sys.exit("stranger: an empty machine can be made by root only")
    folder = SOURCE / "build/stranger"
    folder.mkdir(parents=True, exist_ok=True)
    root = make_machine(folder)
    check_out(root)
    empty_machine(root)
    refuse_to_install(root)
    count = follow(root, SOURCE / "README.md")
    if count < 8:
        sys.exit(f"stranger: the README has {count} commands only: are its blocks read?")
    quick_goals(root, folder)
    print(f"the README's {count} commands work on an empty machine, and so do the quick goals")


main()
