"""Makes more files than anybody needs, all of them empty."""

ENDS = ["OSError"]
SHARED = [None]


def attack(tensor):
    for count in range(5000):
        open(f"{count}", "w").close()
