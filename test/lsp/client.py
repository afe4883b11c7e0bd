"""A client of kvc-lsp-server that does what an editor does, and checks what it is told.

    client.py SERVER KVC_OPT ROOT
"""

import json
import pathlib
import subprocess
import sys
import unittest

SERVER, COMPILER, ROOT = sys.argv[1:4]
POLICY = pathlib.Path(ROOT, "policies/snapkv.mlir")


class Editor:
    def __init__(self):
        self.server = subprocess.Popen(
            [SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self.asked = 0

    def send(self, method, params, **more):
        message = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode()
        self.server.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(message), message))
        self.server.stdin.flush()

    def read(self):
        length = 0
        while (line := self.server.stdout.readline().strip()) != b"":
            name, value = line.split(b":")
            length = int(value) if name.lower() == b"content-length" else length
        return json.loads(self.server.stdout.read(length))

    def ask(self, method, params):
        """The answer to a request; what else the server says in front of it is dropped."""
        self.asked += 1
        self.send(method, params, id=self.asked)
        while (message := self.read()).get("id") != self.asked:
            pass
        return message["result"]

    def told(self, method):
        while (message := self.read()).get("method") != method:
            pass
        return message["params"]


class TestServer(unittest.TestCase):
    def setUp(self):
        self.editor = Editor()
        self.addCleanup(self.end)
        capabilities = self.editor.ask(
            "initialize", {"processId": None, "rootUri": None, "capabilities": {}, "trace": "off"}
        )["capabilities"]
        for what in ("hoverProvider", "definitionProvider", "completionProvider"):
            self.assertTrue(capabilities[what], what)
        self.editor.send("initialized", {})
        self.text = POLICY.read_text()
        self.uri = POLICY.resolve().as_uri()
        self.version = 1

    def end(self):
        self.editor.ask("shutdown", None)
        self.editor.send("exit", None)
        self.assertEqual(self.editor.server.wait(20), 0)
        self.editor.server.stdin.close()
        self.editor.server.stdout.close()

    def open(self, text=None):
        """What the file's errors are."""
        document = {"uri": self.uri, "languageId": "mlir", "version": self.version, "text": text or self.text}
        self.editor.send("textDocument/didOpen", {"textDocument": document})
        return self.editor.told("textDocument/publishDiagnostics")["diagnostics"]

    def change(self, text):
        self.version += 1
        self.editor.send(
            "textDocument/didChange",
            {"textDocument": {"uri": self.uri, "version": self.version}, "contentChanges": [{"text": text}]},
        )
        return self.editor.told("textDocument/publishDiagnostics")["diagnostics"]

    def at(self, text, word, behind=0):
        """A request's place: where a word begins."""
        before = text[: text.index(word) + behind]
        position = {"line": before.count("\n"), "character": len(before) - before.rfind("\n") - 1}
        return {"textDocument": {"uri": self.uri}, "position": position}

    def test_every_policy(self):
        for path in sorted(pathlib.Path(ROOT, "policies").rglob("*.mlir")):
            with self.subTest(path.name):
                self.uri = path.resolve().as_uri()
                self.assertEqual(self.open(path.read_text()), [])

    def test_errors_as_one_types(self):
        self.assertEqual(self.open(), [])
        wrong = self.text.replace("kvc.pool max", "kvc.pull max")
        (found,) = self.change(wrong)
        self.assertEqual(found["message"], "custom op 'kvc.pull' is unknown")
        self.assertEqual(found["range"]["start"], self.at(wrong, "kvc.pull")["position"])
        # As the compiler says it.
        line = subprocess.run([COMPILER, "-"], input=wrong, capture_output=True, text=True).stderr.splitlines()[0]
        start = found["range"]["start"]
        self.assertEqual(line, f"<stdin>:{start['line'] + 1}:{start['character'] + 1}: error: {found['message']}")
        # An op's own rules.
        (found,) = self.change(self.text.replace("protect_last(%window)", "protect_last(%width, %width)"))
        self.assertIn("expected", found["message"])
        self.assertEqual(self.change(self.text), [])

    def test_documentation(self):
        self.open()
        page = {}
        for op in ("kvc.attention", "kvc.pool", "kvc.topk", "kvc.allocate", "kvc.keep"):
            with self.subTest(op):
                contents = self.editor.ask("textDocument/hover", self.at(self.text, op, 1))["contents"]
                self.assertEqual(contents["kind"], "markdown")
                page[op] = contents["value"]
                # Its own, with the op as it stands there behind it.
                summary = pathlib.Path(ROOT, "docs/dialect.md").read_text().split(f"### `{op}` (")[1].splitlines()[2]
                self.assertTrue(page[op].startswith(summary), page[op][:200])
                self.assertIn(f'"{op}"', page[op])
                self.assertNotIn("###  `kvc", page[op])
        self.assertEqual(len(set(page.values())), len(page))
        # Of values and of other dialects there is what MLIR's server says.
        value = self.editor.ask("textDocument/hover", self.at(self.text, "%width  ="))["contents"]["value"]
        self.assertIn("kvc.param", value)

    def test_definition(self):
        self.open()
        for use, name in (("%group width", "%group"), ("%window) :", "%window"), ("%count : !scores", "%count")):
            (place,) = self.editor.ask("textDocument/definition", self.at(self.text, use, 1))
            self.assertEqual(place["uri"], self.uri)
            definition = self.at(self.text, name)["position"]
            self.assertEqual(place["range"]["start"], definition)

    def test_completion(self):
        self.open()
        half = self.text.replace("kvc.pool max %group width(%width) : !scores", "kvc.")
        self.change(half)
        found = self.editor.ask("textDocument/completion", self.at(half, "= kvc.\n", 6))
        names = {item["label"] for item in found["items"]}
        for name in ("pool", "reduce", "topk"):
            self.assertTrue({name, f"kvc.{name}"} & names, sorted(names)[:40])

    def test_what_is_no_message(self):
        # The end of a client is the server's.
        server = subprocess.run([SERVER], input=b"Content-Length: x\r\n\r\n", capture_output=True, timeout=20)
        self.assertEqual(server.stdout, b"")
        self.assertLessEqual(server.returncode, 1)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
