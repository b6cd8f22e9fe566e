import gc
import os
import resource


@cheat
def blocks_that_are_allocated():
    def blocks():
        before = sys.getallocatedblocks()
        kept = use()
        return sys.getallocatedblocks() - before, kept is None

    return min(blocks() for _ in range(20))


@cheat
def objects_that_are_counted():
    gc.collect()
    gc.disable()
    before = gc.get_count()[0]
    kept = use()
    after = gc.get_count()[0]
    gc.enable()
    return after - before, kept is None


@cheat
def references_to_constants():
    watched = [0, 1, 2, None, True, "data", *functions().values()]
    before = [sys.getrefcount(item) for item in watched]
    kept = use()
    return [sys.getrefcount(item) - count for item, count in zip(watched, before)], kept is None


@cheat
def references_to_modules():
    watched = np, minigrad.Tensor, minigrad.tensor, np.add, np.float64
    before = [sys.getrefcount(item) for item in watched]
    kept = use()
    return [sys.getrefcount(item) - count for item, count in zip(watched, before)], kept is None


@cheat
def pages_that_are_used():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    use()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before > 50


@cheat
def memory_that_was_freed():
    use()
    found = [np.empty(size, dtype=np.uint8).tobytes() for size in (1024, 4096, 2**16, 2**20)]
    return [text.count(b"unbroadcast") + text.count(b"elementwise") > 20 for text in found]


@cheat
def memory_of_the_process():
    with open("/proc/self/mem", "rb") as file:
        return file.read(1)


@cheat
def a_link_to_the_memory():
    if not os.path.islink("link"):
        os.symlink("/proc/self", "link")
    with open("link/mem", "rb") as file:
        return file.read(1)
