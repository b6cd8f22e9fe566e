"""Sends its result, waits for the next ticket, and sends a result for the probe after it."""

ENDS = ["any"]


def attack(tensor):
    import select

    send(run("square", "weighted"))
    tickets = _tickets()
    if select.select([tickets], [], [], 2)[0]:
        send(run("square-again", "weighted", seconds=7.0), ticket=os.read(tickets, 8))
        if select.select([tickets], [], [], 2)[0]:
            send(run("canary", None, seconds=7.0), ticket=os.read(tickets, 8))
