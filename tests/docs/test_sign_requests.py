"""The classes of the page about `auth`, with stand-ins for the libraries of the clouds."""

import re
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from greenroom.core import Message
from greenroom.llm import ModelRequest, OpenAIProvider
from tests.llm import wire
from tests.llm.server import Answer, model_server

PAGE = Path(__file__).parents[2] / "docs/how-to/sign-requests.md"


def class_of_page(name):
    """Run the block of the page that has this class, and return the class."""
    blocks = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    [block] = [each for each in blocks if f"class {name}" in each]
    names = {}
    exec(block, names)
    return names[name]


@pytest.fixture
def install(monkeypatch):
    """Put modules with these members where imports find them."""

    def put(**modules):
        for path, members in modules.items():
            name = path.replace("__", ".")
            module = ModuleType(name)
            vars(module).update(members)
            monkeypatch.setitem(sys.modules, name, module)

    return put


async def sent_headers(auth):
    """Return the headers of two requests that a provider with this `auth` sends."""
    reply = wire.chat({"content": "Hello"})
    async with model_server(Answer.stream(reply)) as server:
        provider = OpenAIProvider("m", base_url=f"{server.url}/v1", auth=auth, env={})
        for _ in range(2):
            await provider.generate(ModelRequest(messages=[Message.user("hi")]))
        await provider.aclose()
        return [each.headers for each in server.requests]


class Credentials:
    valid, token, renewed = False, "", 0

    def refresh(self, request):
        self.renewed += 1
        self.valid, self.token = True, f"ya29.{self.renewed}"


async def test_google_s_token_is_renewed_once(install):
    credentials = Credentials()
    install(
        google={},
        google__auth={"default": lambda scopes: (credentials, "project")},
        google__auth__transport={},
        google__auth__transport__requests={"Request": object},
    )
    sys.modules["google"].auth = sys.modules["google.auth"]
    headers = await sent_headers(class_of_page("GoogleAuth")())
    assert [each["authorization"] for each in headers] == ["Bearer ya29.1"] * 2
    assert credentials.renewed == 1


class Request:
    def __init__(self, method, url, headers, data):
        self.method, self.url, self.headers, self.data = method, url, headers, data


class Signer:
    def __init__(self, credentials, service, region):
        self.scope = f"{credentials}/{region}/{service}"

    def add_auth(self, request):
        request.headers["Authorization"] = f"AWS4-HMAC-SHA256 Credential={self.scope}"
        request.headers["X-Length"] = str(len(request.data))


async def test_each_request_to_bedrock_is_signed(install):
    credentials = SimpleNamespace(get_frozen_credentials=lambda: "AKIA")
    session = SimpleNamespace(get_credentials=lambda: credentials)
    install(
        botocore={},
        botocore__auth={"SigV4Auth": Signer},
        botocore__awsrequest={"AWSRequest": Request},
        botocore__session={"get_session": lambda: session},
    )
    for headers in await sent_headers(class_of_page("AWSAuth")("us-west-2")):
        signed = "AWS4-HMAC-SHA256 Credential=AKIA/us-west-2/bedrock"
        assert headers["authorization"] == signed
        assert headers["x-length"] == headers["content-length"]
