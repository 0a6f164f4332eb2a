# SPDX-License-Identifier: Apache-2.0
"""A Hub on the loopback interface: the routes of the Hugging Face Hub by which clients find files and read them, with its headers
and its ways to refuse.

    with Hub({"owner/name": Repository({"model.safetensors": content})}) as hub: HF_ENDPOINT is hub.origin
"""

import hashlib
import json
import re
import urllib.parse
from dataclasses import dataclass, field

from web_server import Server

COMMIT = "89abcdef0123456789abcdef0123456789abcdef"
ROUTE = re.compile(r"/((?:datasets/|spaces/)?(?:[^/]+/)?[^/]+)/resolve/([^/]+)/([^?]+)(?:\?.*)?")
TREE = re.compile(r"/api/((?:models|datasets|spaces)/[^?]+)/tree/([^/?]+)(/[^?]*)?\?(.*)")
LISTING = re.compile(r"/api/((?:models|datasets|spaces)/[^?]+)/revision/([^/?]+)")


@dataclass
class Repository:
    """Files by name; datasets are called "datasets/owner/name"."""

    files: dict
    revisions: list = field(default_factory=lambda: ["main", COMMIT])
    token: str | None = None  # who may see it; None: everybody
    gated: bool = False  # it is seen, but not read
    commit: str = COMMIT  # what the revisions lead to


class Hub(Server):
    """`stored_apart`: files named like that are redirected to another path, as large files are. With `lists` it says what a repository
    has. A tree has `page` files on each page; `next_page` makes what the Link field of one says."""

    def __init__(self, repositories, latency=0.0, stored_apart=r".*\.safetensors", lists=False, page=1000):
        super().__init__(behave=self.route, latency=latency)
        self.lists = lists
        self.page = page
        self.next_page = lambda path: f'<{self.url(path)}>; rel="next"'
        self.repositories = repositories
        self.stored_apart = re.compile(stored_apart)

    @property
    def asked(self):
        """(method, path without a query) of each request, in their order."""
        return [(request.method, request.path.partition("?")[0]) for request in self.log]

    def route(self, request):
        if request.path.startswith("/stored/"):
            repository, _, name = urllib.parse.unquote(request.path.removeprefix("/stored/")).partition("//")
            return self.send(request, self.repositories[repository].files[name], {})
        listing = LISTING.fullmatch(request.path)
        if listing is not None and self.lists:
            return self.list(request, listing[1].removeprefix("models/"), urllib.parse.unquote(listing[2]))
        tree = TREE.fullmatch(request.path)
        if tree is not None:
            return self.tree(request, tree[1].removeprefix("models/"), urllib.parse.unquote(tree[2]), urllib.parse.unquote(tree[3] or ""), tree[4])
        match = ROUTE.fullmatch(request.path)
        if match is None:
            return self.refuse(request, 404, None)
        name, revision, file = match[1], urllib.parse.unquote(match[2]), urllib.parse.unquote(match[3])
        return self.resolve(request, name, revision, file)

    def list(self, request, name, revision):
        repository = self.repositories.get(name)
        if repository is None or revision not in repository.revisions:
            return self.refuse(request, 404, "RepoNotFound" if repository is None else "RevisionNotFound")
        siblings = [{"rfilename": file, "size": len(content)} for file, content in repository.files.items()]
        said = {"_id": "1", "id": name, "sha": repository.commit, "private": False, "tags": ["a", {"b": 1.5}], "siblings": siblings}
        return self.answer(request, 200, {"Content-Type": "application/json"}, json.dumps(said).encode())

    def tree(self, request, name, revision, folder, query):
        repository = self.repositories.get(name)
        if repository is None or repository.token not in (None, request.headers.get("authorization", "").removeprefix("Bearer ")):
            return self.refuse(request, 401, "RepoNotFound")
        if revision not in repository.revisions:
            return self.refuse(request, 404, "RevisionNotFound")
        wanted = dict(urllib.parse.parse_qsl(query))
        folders = sorted({file[:at] for file in repository.files for at in range(len(file)) if file[at] == "/"})
        entries = [{"type": "directory", "oid": "0", "size": 0, "path": each} for each in folders]
        entries += [{"type": "file", "oid": "0", "size": len(content), "lfs": {"size": 1}, "path": file} for file, content in repository.files.items()]
        entries = [each for each in entries if each["path"].startswith(folder[1:] + "/" if folder else "")]
        at = int(wanted.get("cursor", 0))
        headers = {"Content-Type": "application/json"}
        if at + self.page < len(entries):
            headers["Link"] = self.next_page(f"{request.path.partition('?')[0]}?recursive=true&cursor={at + self.page}")
        shown = entries[at:at + self.page] if wanted.get("recursive") == "true" else []
        return self.answer(request, 200, headers, json.dumps(shown).encode())

    def resolve(self, request, name, revision, file):
        repository = self.repositories.get(name)
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if repository is None or repository.token not in (None, bearer):
            return self.refuse(request, 401, "RepoNotFound")
        if repository.gated:
            return self.refuse(request, 403 if bearer else 401, "GatedRepo")
        if revision not in repository.revisions:
            return self.refuse(request, 404, "RevisionNotFound")
        content = repository.files.get(file)
        if content is None:
            return self.refuse(request, 404, "EntryNotFound", {"X-Repo-Commit": COMMIT})
        digest = hashlib.sha256(content).hexdigest()
        headers = {"X-Repo-Commit": repository.commit, "ETag": '"%s"' % digest, "Accept-Ranges": "bytes"}
        if self.stored_apart.fullmatch(file):
            headers |= {"X-Linked-Etag": '"%s"' % digest, "X-Linked-Size": str(len(content))}
            location = "/stored/" + urllib.parse.quote("%s//%s" % (name, file))
            return self.answer(request, 302, headers | {"Location": self.url(location)}, b"")
        return self.send(request, content, headers)

    def send(self, request, content, headers):
        if request.method == "HEAD" or request.range is None:
            return self.answer(request, 200, headers, content)
        return request.ranges(content, headers)

    def refuse(self, request, status, reason, headers=()):
        said = {} if reason is None else {"X-Error-Code": reason, "X-Error-Message": "no"}
        return self.answer(request, status, dict(headers) | said, b"no")

    def answer(self, request, status, headers, body):
        """What GET would be answered with, without its body for HEAD."""
        request.head(status, {"Content-Length": len(body)} | headers)
        if request.method != "HEAD":
            request.raw(body)
