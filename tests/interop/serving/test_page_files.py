"""The files of the page: what is sent, to whom, and that others' files are theirs."""

import hashlib
from importlib import resources

from greenroom.interop.serving.page_files import read_page

FOLDER = resources.files("greenroom.interop.serving") / "page"
MOST = 120_000


def test_the_page_is_small():
    assert sum(map(len, read_page().values())) <= MOST


def test_the_files_of_others_are_as_the_registry_has_them():
    lines = (FOLDER / "VENDORED").read_text().splitlines()
    listed = {}
    for line in lines[1:]:
        name, _package, _version, _path, digest = line.split(" ")
        listed[name] = digest
        assert hashlib.sha256((FOLDER / name).read_bytes()).hexdigest() == digest, name
    assert {name for name in read_page() if name.count(".") > 1} < listed.keys()


def test_the_page_names_no_other_host_and_makes_no_element_of_a_text():
    for name, content in read_page().items():
        if name.count(".") == 1:
            text = content.decode()
            for word in ("http:", "https:", "innerHTML", "outerHTML", "insertAdjacent", "eval("):
                assert word not in text, (name, word)


async def test_anybody_gets_the_page_and_nobody_else_may_embed_it(serve):
    async with serve() as service, service.client(None) as client:
        page = await client.get("/")
        policy = page.headers["content-security-policy"]
        assert page.status_code == 200
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "require-trusted-types-for 'script'; trusted-types 'none'" in policy
        script = await client.get("/page/page.js")
        assert script.headers["content-type"].startswith("text/javascript")
        assert script.headers["x-content-type-options"] == "nosniff"
        for path in ("/page/VENDORED", "/page/..%2fweb_server.py", "/page/", "/page/x.js", "/x"):
            assert (await client.get(path)).status_code == 401, path
        assert (await client.post("/", content=b"{}")).status_code == 401


async def test_a_server_without_the_page_has_none(serve):
    async with serve(page=False) as service, service.client() as client:
        for path in ("/", "/page/page.js"):
            assert (await client.get(path)).status_code == 404
