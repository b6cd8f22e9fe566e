"""Opens thousands of files, and keeps them open."""

ENDS = ["OSError"]


def attack(tensor):
    kept = []
    for count in range(5000):
        kept.append(open(f"{count}", "w"))
