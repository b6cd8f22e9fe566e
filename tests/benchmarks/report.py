"""What the benchmark shows: the table, and the plot of the cost per node."""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

LIBRARIES = ("numpy", "torch", "autograd", "mygrad", "micrograd")

Result = dict[str, Any]
"""A `rows.Result` as it comes from its process, in JSON."""


def machine(environment: dict[str, str]) -> dict[str, Any]:
    """What a reader needs to know to compare two tables."""
    return {
        "processor": _processor(),
        "python": platform.python_version(),
        "libraries": {name: found for name in LIBRARIES if (found := _version(name))},
        "environment": environment,
    }


def table(results: list[Result]) -> Table:
    """One line per row; ratios are minigrad's cost over the other's, so small is good.

    Below stands why rows have no ratio.
    """
    reasons = {f"{r['outcome']}: {r['reason']}": None for r in results if r["reason"]}
    shown = Table(box=box.SIMPLE_HEAD, padding=0, show_edge=False, caption_justify="left")
    shown.caption = "\n".join(["", *reasons]) if reasons else None
    shown.add_column("problem", no_wrap=True)
    shown.add_column("against", no_wrap=True)
    for heading in ("minigrad", "other", "ratio", "target"):
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    for result in results:
        row = result["row"]
        problem = f"{row['shown']} {row['dtype'].replace('float', 'f')}"
        problem += ", memory" if row["measure"] == "memory" else ""
        target = "" if row["target"] is None else f"{row['target']:.3g}"
        shown.add_row(problem, row["against"], *_costs(result), target, _verdict(result))
    return shown


def plot(results: list[Result], path: Path) -> None:
    """Draw the time per node against the number of nodes; the suffix decides the format."""
    from matplotlib.figure import Figure  # slow, and needed for --plot only

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.subplots()
    for result in results:
        if growth := result["growth"]:
            pairs = zip(growth["seconds"], growth["nodes"], strict=True)
            label = f"{result['row']['shown']}, exponent {growth['exponent']:.2f}"
            axes.plot(growth["nodes"], [1e6 * s / n for s, n in pairs], "o-", label=label)
    axes.set(xscale="log", xlabel="nodes", ylabel="backward, microseconds per node")
    axes.set_ylim(bottom=0)
    axes.legend()
    figure.savefig(path)


def _costs(result: Result) -> tuple[str, str, str]:
    """Our cost, theirs, and the ratio with half the distance of its quartiles."""
    if growth := result["growth"]:
        per_node = growth["seconds"][-1] / growth["nodes"][-1]
        return _duration(per_node), "", f"n^{growth['exponent']:.2f}"
    if not (ratio := result["ratio"]):
        return "", "", ""
    sides = ratio["ours"], ratio["theirs"]
    if result["row"]["measure"] == "memory":
        ours, theirs = (f"{peak / 1e6:.2f} MB" for peak in sides)
        return ours, theirs, f"{ratio['value']:.2f}"
    ours, theirs = (_duration(seconds) for seconds in sides)
    spread = (ratio["high"] - ratio["low"]) / 2 / ratio["value"]
    return ours, theirs, f"{ratio['value']:#.3g} ±{spread:.0%}"


def _duration(seconds: float) -> str:
    units = (1.0, "s"), (1e-3, "ms"), (1e-6, "µs")
    unit, name = next((pair for pair in units if seconds >= pair[0]), units[-1])
    return f"{seconds / unit:#.3g}".rstrip(".") + f" {name}"


def _verdict(result: Result) -> str:
    """Whether the target is reached, or what became of the row instead."""
    if result["outcome"] != "measured":
        return str(result["outcome"])
    target = result["row"]["target"]
    if target is None:
        return ""
    found = result["growth"]["exponent"] if result["growth"] else result["ratio"]["value"]
    return "reached" if found <= target else "missed"


def _processor() -> str:
    """The processor's name and the number of cores, where Linux tells."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{names[0]}, {len(names)} cores" if names else platform.processor()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
