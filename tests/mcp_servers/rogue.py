"""Servers that misbehave, each in its own way: `python rogue.py KIND`. Standard library only, so that they start quickly.

Apart from its fault, each is an ordinary server that supports only `initialize`, with the tool `ping`.
"""

import json
import subprocess
import sys
import time

KIND = sys.argv[1] if len(sys.argv) > 1 else "good"
PLAIN = {"type": "object", "properties": {"word": {"type": "string"}}}
TOOLS = {
    "huge": [{"name": "ping", "description": "long " * 100_000, "inputSchema": PLAIN}],
    "hidden": [{"name": "ping", "description": "Say\u200b it\U000e0041\U000e0042\x07 back\u202e", "inputSchema": PLAIN}],
    "twins": [{"name": name, "inputSchema": PLAIN} for name in ("get-time", "get_time", "Get.Time", "other")],
    "schemas": [
        {"name": "ping", "inputSchema": PLAIN},
        {"name": "elsewhere", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "http://127.0.0.1/a.json"}}}},
        {"name": "bomb", "inputSchema": {
            "type": "object", "properties": {"a": {"$ref": "#/$defs/0"}},
            "$defs": {str(n): {"allOf": [{"$ref": f"#/$defs/{n + 1}"}] * 2} for n in range(40)} | {"40": {"type": "string"}},
        }},
        {"name": "large", "inputSchema": {"type": "object", "properties": {"a": {"enum": ["x" * 100] * 1000}}}},
        {"name": "nonsense", "inputSchema": {"type": "object", "properties": {"a": {"type": "rubbish"}}}},
    ],
}.get(KIND, [{"name": "ping", "description": "Say a word back", "inputSchema": PLAIN}])  # fmt: skip


def answer(request: dict, result: dict) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}), flush=True)


def main() -> None:
    if KIND == "crash":
        sys.exit("the licence has run out: token=abcdef123456")
    if KIND == "children":  # start two children: one in the process group, one that leaves it
        subprocess.Popen(["sleep", "1000"])
        subprocess.Popen(["sleep", "1001"], start_new_session=True)
    for line in sys.stdin:
        request = json.loads(line)
        if KIND == "silent":
            continue
        if KIND == "stderr":
            for number in range(20_000):
                print(f"line {number} " + "x" * 100, file=sys.stderr)
        if KIND == "chatty":
            print("Welcome to my server!", flush=True)
        while KIND == "garbage":
            print("this is not JSON " * 100)
        if KIND == "endless":
            while True:
                sys.stdout.write("x" * 1024 * 1024)
        match request.get("method"):
            case "initialize":
                about = {"name": "rogue", "version": "1"}
                answer(request, {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": about})
            case "tools/list":
                answer(request, {"tools": TOOLS})
            case "tools/call" if KIND == "deaf":
                time.sleep(1000)
            case "tools/call" if KIND == "dies":
                sys.exit(3)
            case "tools/call" if KIND == "flood":
                answer(request, {"content": [{"type": "text", "text": "中" * 500_000}]})
            case "tools/call":
                word = request["params"].get("arguments", {}).get("word", "pong")
                answer(request, {"content": [{"type": "text", "text": word}]})
            case _ if "id" in request:
                error = {"code": -32601, "message": "Method not found"}
                print(json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": error}), flush=True)


main()
