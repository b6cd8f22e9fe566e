"""The sound page with an invariant, a question, and the sentences for the report."""

from tests.harness.sound_page import SOUND

INVARIANT = """\
def gradient_of_log_is_the_reciprocal(lib, rng):
    a = lib.tensor(rng.uniform(2, 3, size=4), requires_grad=True)
    a.log().sum().backward()
    assert abs(a.grad * a.data - 1).max() < 1e-3
"""

WORDS = """\
why    = "The rule passes the upstream gradient on as it came."
beware = "The slope of the logarithm is 1 at 1, so ones hide it."
"""

QUESTION = """\
[[ask]]
probe    = "log-of-powers"
loss     = "uniform"
question = "What is a.grad[0]?"
answer   = "a.grad[0]"
because  = "Without the division, the gradient of the sum arrives as it is."
"""


def proven(
    invariant: str = INVARIANT, questions: str = QUESTION, keys: str = "", info: str = "invariant"
) -> str:
    """Return the page with this invariant, these questions and more plain keys."""
    none = next(line for line in SOUND.splitlines() if line.startswith("no_invariant"))
    page = SOUND
    if invariant or "no_invariant" in keys:
        page = page.replace(f"{none}\n", "")
    page = page.replace('["std"]\n', f'["std"]\n{WORDS}{keys}\n')
    page = page.replace("[diagnostics]", f"{questions}\n[diagnostics]")
    block = (
        f"## Diagnostic\n\n```python {info}\n{invariant}```\n" if invariant else "## Diagnostic\n"
    )
    return page.replace("## Diagnostic\n", block)
