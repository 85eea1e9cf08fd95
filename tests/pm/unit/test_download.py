"""Fetching one file: hashed before it has its name, through a mirror's pages, and every way it fails told in words."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.server
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perdure_pm.adapters import download
from perdure_pm.adapters.download import fetch, find_on_index, obtain
from perdure_pm.model.errors import ArtefactMissing, IntegrityFault, NetworkUnreachable, OperationCancelled
from perdure_pm.model.lock_view import Artefact
from perdure_pm.model.network import Network, public_address

BYTES = b"wheel" * 50_000
SHA256 = hashlib.sha256(BYTES).hexdigest()
NAME = "demo-1.0-py3-none-any.whl"

Answer = Callable[[http.server.BaseHTTPRequestHandler], object]


class Site:
    """A server on this machine: paths and what answers them; it remembers what it was asked."""

    def __init__(self) -> None:
        self.answers: dict[str, Answer] = {}
        self.asked: list[tuple[str, dict[str, str]]] = []
        site = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                site.asked.append((self.path, dict(self.headers)))
                answer = site.answers.get(self.path)
                if answer is None:
                    self.send_error(404)
                else:
                    answer(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
                """Say nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def serve(self, path: str, body: bytes, kind: str = "application/octet-stream", status: int = 200) -> None:
        def answer(handler: http.server.BaseHTTPRequestHandler) -> None:
            handler.send_response(status)
            handler.send_header("Content-Type", kind)
            handler.send_header("Content-Length", str(len(body)))
            handler.end_headers()
            handler.wfile.write(body)

        self.answers[path] = answer


@pytest.fixture
def site(monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # the waits between attempts
    served = Site()
    thread = threading.Thread(target=served.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield served
    served.server.shutdown()
    served.server.server_close()
    thread.join()


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / NAME


def test_a_file_with_the_right_hash_gets_its_name(site: Site, target: Path) -> None:
    site.serve("/f", BYTES)
    seen: list[tuple[int, int | None]] = []
    fetch(site.url + "/f", target, sha256=SHA256, network=Network(), on_progress=lambda *pair: seen.append(pair))
    assert target.read_bytes() == BYTES
    assert [path.name for path in target.parent.iterdir()] == [NAME]
    assert seen[-1] == (len(BYTES), len(BYTES))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)


@pytest.mark.proves("download-hash-first")
def test_other_bytes_never_get_the_name(site: Site, target: Path) -> None:
    site.serve("/f", BYTES + b"!")
    with pytest.raises(IntegrityFault) as caught:
        fetch(site.url + "/f", target, sha256=SHA256, network=Network())
    assert list(target.parent.iterdir()) == []
    assert caught.value.context["expected"] == SHA256
    assert len(site.asked) == 1, "wrong bytes are not asked for again"


@pytest.mark.proves("download-hash-first")
def test_a_caller_that_stops_it_leaves_nothing(site: Site, target: Path) -> None:
    site.serve("/f", BYTES)

    def stop(done: int, total: int | None) -> None:
        raise OperationCancelled("cancelled: enough")

    with pytest.raises(OperationCancelled):
        fetch(site.url + "/f", target, sha256=SHA256, network=Network(), on_progress=stop)
    assert list(target.parent.iterdir()) == []


@pytest.mark.proves("download-hash-first")
def test_a_transfer_that_breaks_off_is_tried_again(site: Site, target: Path) -> None:
    def short(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", str(len(BYTES)))
        handler.end_headers()
        handler.wfile.write(BYTES[:1000])
        site.serve("/f", BYTES)

    site.answers["/f"] = short
    fetch(site.url + "/f", target, sha256=SHA256, network=Network())
    assert target.read_bytes() == BYTES
    assert len(site.asked) == 2


@pytest.mark.parametrize("status", [500, 503])
def test_a_server_in_trouble_is_asked_three_times(site: Site, target: Path, status: int) -> None:
    site.serve("/f", b"", status=status)
    with pytest.raises(NetworkUnreachable, match=f"answered {status}") as caught:
        fetch(site.url + "/f", target, sha256=SHA256, network=Network())
    assert len(site.asked) == 3
    assert caught.value.retry == "later"
    assert "--index-url" in (caught.value.hint or "")


@pytest.mark.parametrize(("status", "kind"), [(404, ArtefactMissing), (410, ArtefactMissing)])
def test_what_is_not_there_is_missing_and_asked_for_once(
    site: Site, target: Path, status: int, kind: type[Exception]
) -> None:
    site.serve("/f", b"", status=status)
    with pytest.raises(kind):
        fetch(site.url + "/f", target, sha256=SHA256, network=Network())
    assert len(site.asked) == 1


@pytest.mark.parametrize("status", [401, 403, 407])
def test_a_refusal_is_not_repeated(site: Site, target: Path, status: int) -> None:
    site.serve("/f", b"", status=status)
    with pytest.raises(NetworkUnreachable) as caught:
        fetch(site.url + "/f", target, sha256=SHA256, network=Network())
    assert (len(site.asked), caught.value.retry) == (1, "after-change")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # http.client leaves the answer open
def test_what_is_no_http_is_told_as_an_outage(site: Site, target: Path) -> None:
    site.answers["/f"] = lambda handler: handler.wfile.write(b"SSH-2.0-x\r\n")
    with pytest.raises(NetworkUnreachable, match="no connection to"):
        fetch(site.url + "/f", target, sha256=SHA256, network=Network())


def test_a_closed_port_is_told_as_an_outage(site: Site, target: Path) -> None:
    with pytest.raises(NetworkUnreachable, match="Connection refused"):
        fetch("http://127.0.0.1:9/f", target, sha256=SHA256, network=Network())
    assert list(target.parent.iterdir()) == []


def test_a_server_that_never_answers_is_given_up(site: Site, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = threading.Event()
    site.answers["/f"] = lambda handler: done.wait(10)
    monkeypatch.setattr(download, "TIMEOUT_SECONDS", 0.2)
    with pytest.raises(NetworkUnreachable, match="timed out"):
        fetch(site.url + "/f", target, sha256=SHA256, network=Network())
    done.set()


def test_the_whole_patience_for_a_dead_network_is_about_a_minute() -> None:
    assert download.TIMEOUT_SECONDS * download.ATTEMPTS <= 60


@pytest.mark.parametrize("network", [Network(offline=True), Network(wheelhouse=Path("wheels"))])
def test_nothing_is_asked_for_where_the_network_is_not_to_be_used(site: Site, target: Path, network: Network) -> None:
    site.serve(f"/{NAME}", BYTES)
    with pytest.raises(ArtefactMissing) as caught:
        fetch(f"{site.url}/{NAME}", target, sha256=SHA256, network=network)
    assert site.asked == []
    assert caught.value.context == {"file": NAME}


def test_a_file_address_needs_no_network(tmp_path: Path, target: Path) -> None:
    source = tmp_path / "a b'\n#?%" / NAME
    source.parent.mkdir()
    source.write_bytes(BYTES)
    fetch(source.as_uri(), target, sha256=SHA256, network=Network(offline=True))
    assert target.read_bytes() == BYTES


def test_a_full_disk_is_not_told_as_an_outage(site: Site, tmp_path: Path) -> None:
    site.serve("/f", BYTES)
    with pytest.raises(Exception, match="cannot write") as caught:
        fetch(site.url + "/f", tmp_path / "missing" / NAME, sha256=SHA256, network=Network())
    assert getattr(caught.value, "code", "") == "home-unusable"


# Mirrors


def html_page(*links: str) -> bytes:
    anchors = "".join(f'<a data-requires-python="&gt;=3.8" href="{link}">x</a><br/>\n' for link in links)
    return f"<!DOCTYPE html><html><body><h1>Links</h1>{anchors}<a>none</a></body></html>".encode()


@pytest.mark.parametrize(
    "link",
    [
        NAME,
        f"../../files/{NAME}#sha256={SHA256}",
        f"/files/{NAME}",
        f"../../files/demo-1.0-py3-none-any%2ewhl#sha256={SHA256}",
    ],
)
def test_a_mirrors_html_page_leads_to_the_file(site: Site, target: Path, link: str) -> None:
    """Case 11: the page's own addresses are followed, the lock's hash decides."""
    site.serve("/simple/demo/", html_page(f"other-{NAME}", link), "text/html; charset=utf-8")
    for path in (f"/files/{NAME}", f"/simple/demo/{NAME}", "/files/demo-1.0-py3-none-any%2ewhl"):
        site.serve(path, BYTES)
    artefact = Artefact(f"https://files.invalid/{NAME}", SHA256, 0)
    obtain(artefact, "demo", target, network=Network(index_url=site.url + "/simple/"))
    assert target.read_bytes() == BYTES


def test_a_mirrors_json_page_leads_to_the_file(site: Site, target: Path) -> None:
    page = {"meta": {"api-version": "1.1"}, "name": "demo", "files": [{"filename": NAME, "url": f"/x/{NAME}"}]}
    site.serve("/simple/demo/", json.dumps(page).encode(), "application/vnd.pypi.simple.v1+json")
    site.serve(f"/x/{NAME}", BYTES)
    artefact = Artefact(f"https://files.invalid/{NAME}", SHA256, 0)
    obtain(artefact, "demo", target, network=Network(index_url=site.url + "/simple"))
    assert target.read_bytes() == BYTES
    assert "application/vnd.pypi.simple.v1+json" in site.asked[0][1]["Accept"]


def test_a_mirror_that_is_a_directory_leads_to_the_file(tmp_path: Path, target: Path) -> None:
    folder = tmp_path / "simple index" / "demo"
    folder.mkdir(parents=True)
    (folder / "index.html").write_bytes(html_page(NAME))
    (folder / NAME).write_bytes(BYTES)
    network = Network(index_url=folder.parent.as_uri())
    obtain(Artefact(f"https://files.invalid/{NAME}", SHA256, 0), "demo", target, network=network)
    assert target.read_bytes() == BYTES


def test_a_mirror_without_the_file_is_named(site: Site) -> None:
    site.serve("/simple/demo/", html_page("other.whl"), "text/html")
    with pytest.raises(ArtefactMissing) as caught:
        find_on_index("demo", NAME, Network(index_url=site.url.replace("//", "//user:secret@") + "/simple"))
    where = site.url.replace("//", "//***@") + "/simple"
    assert caught.value.summary == f"the index {where} does not offer {NAME}"
    assert "secret" not in str(caught.value.to_json())


@pytest.mark.parametrize("body", [b"{", b"[]", b'{"files": [{}]}', b"null"])
def test_a_page_that_is_none_is_told_as_an_outage(site: Site, body: bytes) -> None:
    site.serve("/simple/demo/", body, "application/json")
    with pytest.raises(NetworkUnreachable, match="/simple/demo/"):
        find_on_index("demo", NAME, Network(index_url=site.url + "/simple"))


def drip(handler: http.server.BaseHTTPRequestHandler) -> None:
    """Send a byte now and then, for ever."""
    handler.send_response(200)
    handler.end_headers()
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b" ")
            handler.wfile.flush()
            threading.Event().wait(0.02)


def flood(handler: http.server.BaseHTTPRequestHandler) -> None:
    """Send for ever, as fast as it goes."""
    handler.send_response(200)
    handler.end_headers()
    with contextlib.suppress(OSError):
        while True:
            handler.wfile.write(b" " * (1 << 20))


@pytest.mark.proves("download-ends")
@pytest.mark.parametrize(("answer", "said"), [(drip, "no end within"), (flood, "more than 4 MiB")])
def test_a_page_without_an_end_is_given_up(
    site: Site, answer: Answer, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a page once filled the memory of the machine, or took for ever."""
    monkeypatch.setattr(download, "PAGE_BYTES", 4 << 20)
    monkeypatch.setattr(download, "PAGE_SECONDS", 1.0)
    site.answers["/simple/demo/"] = answer
    with pytest.raises(NetworkUnreachable, match=said):
        find_on_index("demo", NAME, Network(index_url=site.url + "/simple"))
    assert len(site.asked) == 1


@pytest.mark.proves("download-ends")
def test_a_transfer_that_crawls_is_given_up(site: Site, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(download, "SLOW_SECONDS", 0.3)
    site.answers["/f"] = drip
    with pytest.raises(NetworkUnreachable, match="is too slow"):
        fetch(site.url + "/f", target, sha256=SHA256, network=Network())
    assert list(target.parent.iterdir()) == []


@pytest.mark.proves("download-ends")
def test_a_page_that_breaks_off_is_no_page(site: Site) -> None:
    def half(handler: http.server.BaseHTTPRequestHandler) -> None:
        handler.send_response(200)
        handler.send_header("Content-Length", "100000")
        handler.end_headers()
        handler.wfile.write(b"<a href=")

    site.answers["/simple/demo/"] = half
    with pytest.raises(NetworkUnreachable, match="more expected"):
        find_on_index("demo", NAME, Network(index_url=site.url + "/simple"))


def test_a_mirror_that_hiccups_is_asked_again(site: Site) -> None:
    def once(handler: http.server.BaseHTTPRequestHandler) -> None:
        site.serve("/simple/demo/", html_page(NAME), "text/html")
        handler.send_error(502)

    site.answers["/simple/demo/"] = once
    network = Network(index_url=site.url + "/simple")
    assert find_on_index("demo", NAME, network) == f"{site.url}/simple/demo/{NAME}"


def test_the_wheelhouse_comes_before_everything(tmp_path: Path, target: Path, site: Site) -> None:
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / NAME).write_bytes(BYTES)
    network = Network(wheelhouse=tmp_path / "wheels", index_url=site.url)
    obtain(Artefact(f"https://files.invalid/{NAME}", SHA256, 0), "demo", target, network=network)
    assert target.read_bytes() == BYTES
    assert site.asked == []


def test_a_wheelhouse_without_the_file_is_named(tmp_path: Path, target: Path) -> None:
    """Case 8."""
    artefact = Artefact(f"https://files.invalid/{NAME}", SHA256, 0)
    with pytest.raises(ArtefactMissing, match=f"lacks {NAME}") as caught:
        obtain(artefact, "demo", target, network=Network(wheelhouse=tmp_path))
    assert caught.value.exit_code == 6


# Credentials


def basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()


def test_a_mirrors_credentials_are_sent_to_it_and_to_nobody_else(site: Site, target: Path) -> None:
    other = Site()
    thread = threading.Thread(target=other.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        other.serve(f"/{NAME}", BYTES)
        site.serve("/simple/demo/", html_page(f"/files/{NAME}"), "text/html")

        def redirect(handler: http.server.BaseHTTPRequestHandler) -> None:
            handler.send_response(302)
            handler.send_header("Location", f"{other.url}/{NAME}")
            handler.end_headers()

        site.answers[f"/files/{NAME}"] = redirect
        network = Network(index_url=site.url.replace("//", "//us%40er:p%3Aw@") + "/simple")
        obtain(Artefact(f"https://files.invalid/{NAME}", SHA256, 0), "demo", target, network=network)
    finally:
        other.server.shutdown()
        other.server.server_close()
        thread.join()
    assert [headers.get("Authorization") for _, headers in site.asked] == [basic("us@er", "p:w")] * 2
    assert [headers.get("Authorization") for _, headers in other.asked] == [None]


def test_netrc_is_read_where_the_address_holds_nothing(
    site: Site, target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.serve("/f", BYTES)
    file = tmp_path / "netrc"
    file.write_text("machine 127.0.0.1 login somebody password hidden\n", encoding="utf-8")
    file.chmod(0o600)
    monkeypatch.setenv("NETRC", str(file))
    fetch(site.url + "/f", target, sha256=SHA256, network=Network())
    assert site.asked[0][1]["Authorization"] == basic("somebody", "hidden")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("http://127.0.0.1:1/x", "http://127.0.0.1:1/x"),
        ("http://a:b@127.0.0.1:1/x", "http://***@127.0.0.1:1/x"),
        ("http://a:b@c@127.0.0.1/x?y", "http://***@127.0.0.1/x?y"),
        ("file:///tmp/a@b", "file:///tmp/a@b"),
    ],
)
def test_an_address_is_shown_without_its_password(url: str, shown: str) -> None:
    assert public_address(url) == shown


def test_a_proxy_is_used_for_http(site: Site, target: Path) -> None:
    site.serve("http://mirror.invalid/f", BYTES)
    fetch("http://mirror.invalid/f", target, sha256=SHA256, network=Network(proxy=site.url))
    assert target.read_bytes() == BYTES


def test_a_certificate_that_cannot_be_read_is_named(tmp_path: Path, target: Path) -> None:
    wrong = tmp_path / "no.pem"
    wrong.write_text("not a certificate", encoding="utf-8")
    for path in (wrong, tmp_path / "missing.pem"):
        with pytest.raises(NetworkUnreachable, match="cannot be used") as caught:
            fetch("https://127.0.0.1:9/f", target, sha256=SHA256, network=Network(certificate=path))
        assert str(path) in caught.value.summary
        assert caught.value.retry == "after-change"


def test_the_proxy_variables_count_where_no_proxy_is_named(
    site: Site, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.serve("http://mirror.invalid/f", BYTES)
    monkeypatch.setenv("http_proxy", site.url)
    with contextlib.suppress(KeyError):
        monkeypatch.delenv("no_proxy")
    fetch("http://mirror.invalid/f", target, sha256=SHA256, network=Network())
    assert target.read_bytes() == BYTES
