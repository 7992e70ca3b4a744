"""A page of the UI in a browser that is told what to click, by the DevTools protocol."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp

#: Finds the innermost element with a text and clicks it; tells whether there was one.
_CLICK = """(() => {
  const found = [...document.querySelectorAll('button, a, [role=button], span, div')]
    .filter(e => e.innerText && e.innerText.trim() === TEXT).pop();
  if (found) found.click();
  return Boolean(found);
})()"""

_SCROLL = _CLICK.replace("found.click()", "found.scrollIntoView()")


def browser() -> str | None:
    """The program that renders pages; None where there is none."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def look(
    url: str,
    clicks: Sequence[str],
    target: Path | None = None,
    *,
    at: str = "",
    shows: Sequence[str] = (),
    width: int = 1500,
    height: int = 1500,
) -> str:
    """Open a page, click on texts one after the other, and return the text that it shows then.

    Args:
        url: The page.
        clicks: Texts of what is clicked; each is waited for.
        target: File for a picture of the page.
        at: Text that the picture shows at its top.
        shows: Texts that the page shows after the clicks; they are waited for.
        width: Width of the window.
        height: Its height.
    """
    program = browser()
    assert program is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # the browser may still be writing
        arguments = [program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--hide-scrollbars"]
        arguments += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]
        arguments += [
            f"--user-data-dir={folder}/profile",
            f"--window-size={width},{height}",
            "--remote-debugging-port=0",
        ]
        with subprocess.Popen(
            [*arguments, "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=os.environ | {"HOME": folder},
        ) as process:
            try:
                shown, picture = asyncio.run(
                    _look(_port(Path(folder) / "profile" / "DevToolsActivePort"), url, clicks, at, shows)
                )
                if target is not None:
                    target.write_bytes(picture)
                return shown
            finally:
                process.terminate()
                process.wait(30)


def _port(ready: Path) -> str:
    """Port at which the browser takes orders, once it has written it down."""
    deadline = time.monotonic() + 60
    while not ready.exists() or not ready.read_text().strip():
        assert time.monotonic() < deadline, "the browser did not start"
        time.sleep(0.2)
    return ready.read_text().split()[0]


async def _look(port: str, url: str, clicks: Sequence[str], at: str, shows: Sequence[str] = ()) -> tuple[str, bytes]:
    """The text of the page after the clicks, and its picture."""
    async with aiohttp.ClientSession() as session:
        async with session.get(f"http://127.0.0.1:{port}/json/list") as response:
            tabs = json.loads(await response.text())
        address = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
        async with session.ws_connect(address, max_msg_size=0) as socket:
            await _ask(socket, "Page.navigate", url=url)
            for text in clicks:
                await _until(socket, _CLICK.replace("TEXT", json.dumps(text)), f"nothing to click says {text!r}")
            for text in shows:
                await _until(socket, f"document.body.innerText.includes({json.dumps(text)})", f"nothing says {text!r}")
            await asyncio.sleep(5)  # what is drawn after the last click
            if at:
                await _until(socket, _SCROLL.replace("TEXT", json.dumps(at)), f"nothing says {at!r}")
                await asyncio.sleep(3)
            picture = await _ask(socket, "Page.captureScreenshot", format="png")
            shown = await _ask(socket, "Runtime.evaluate", expression="document.body.innerText")
            return str(shown["result"].get("value", "")), base64.b64decode(picture["data"])


async def _until(socket: aiohttp.ClientWebSocketResponse, expression: str, why: str) -> None:
    deadline = time.monotonic() + 90
    while True:
        found = await _ask(socket, "Runtime.evaluate", expression=expression)
        if found["result"].get("value") is True:
            return
        assert time.monotonic() < deadline, why
        await asyncio.sleep(0.5)


async def _ask(socket: aiohttp.ClientWebSocketResponse, method: str, **parameters: Any) -> dict[str, Any]:
    number = time.monotonic_ns() % 2**31
    await socket.send_json({"id": number, "method": method, "params": parameters})
    while True:
        message = json.loads((await socket.receive(timeout=60)).data)
        if message.get("id") == number:
            assert "error" not in message, message
            answer: dict[str, Any] = message["result"]
            return answer
