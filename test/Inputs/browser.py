"""browser.py CHROMIUM RESULTS PAGE: the page of kvc-run report, in a real browser: every
figure is drawn, in light and dark, nothing fails, nothing comes from a network."""
import json
import re
import subprocess
import sys
import tempfile

chromium, results, page = sys.argv[1:4]
data = json.load(open(results))
html = open(page, encoding="utf-8").read()
others = set(re.findall(r"https?://[^\"'\s<]*", html)) - {"http://www.w3.org/2000/svg"}
assert not others, others
assert not re.search(r"<(script|link|img)[^>]*(src|href)=", html)


def draw(text, *options):
    with tempfile.TemporaryDirectory() as folder:
        path = folder + "/page.html"
        open(path, "w", encoding="utf-8").write(text)
        run = subprocess.run([chromium, "--headless=new", "--no-sandbox", "--disable-gpu", "--user-data-dir=" + folder,
                              "--virtual-time-budget=5000", *options, "--dump-dom", "file://" + path],
                             capture_output=True, text=True, timeout=120)
        dom = run.stdout
        failure = re.search(r'<pre id="failure"([^>]*)>([^<]*)', dom)
        assert failure and "hidden" in failure[1] and not failure[2], failure and failure[2]
        assert 'data-drawn="yes"' in dom, run.stderr[-500:]
        return dom


groups = {(s["task"], s["mode"]) for s in data["scores"]}
policies, heads = len(data["policies"]), sum(len(layer["retention"]) for layer in data["layers"][0]["layers"])
# Scores, coverage, perturbation, and the budgets' two ends.
series = policies * len(groups) + 4 * policies
for scheme in ("1", "0"):  # light, dark
    dom = draw(html, "--blink-settings=preferredColorScheme=" + scheme)
    assert dom.count('class="series"') == series, dom.count('class="series"')
    assert dom.count('class="cell"') == heads * 64
    assert dom.count("<figure>") == len(groups) + 4
    for task, mode in groups:
        assert f"{task}, question-{mode}, n = " in dom
assert "color-scheme: light dark" in html and "prefers-color-scheme: dark" in html
# Another budget shows other tokens.
choose = ('<script>const budget = document.getElementById("budget"); budget.selectedIndex = budgets.length - 1;'
          'budget.dispatchEvent(new Event("change"));</script></html>')
other = draw(html.replace("</html>", choose))
cells = lambda text: re.findall(r"part \d+ of 64: (\d+) % kept", text)
assert len(cells(other)) == heads * 64 and cells(other) != cells(dom)
print("drawn")
