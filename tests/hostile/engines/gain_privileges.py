"""Starts a program that could give it back what was taken."""

ENDS = [None]


def attack(tensor):
    import subprocess

    said = subprocess.run(["cat", "/proc/self/status"], capture_output=True, text=True).stdout
    held = {
        line.split()[0]: line.split()[1] for line in said.splitlines() if line[:3] in ("Cap", "NoN")
    }
    if held["CapEff:"].strip("0") or held["CapBnd:"].strip("0") or held["NoNewPrivs:"] != "1":
        raise ValueError(str(held))
