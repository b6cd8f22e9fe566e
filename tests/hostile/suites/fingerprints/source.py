import inspect
import linecache
from pathlib import Path


@cheat
def inspect_getsource():
    return [inspect.getsource(f) for f in functions().values()]


@cheat
def lines_in_linecache():
    return {name: linecache.getlines(name) for name in list(linecache.cache) if "minigrad" in name}


@cheat
def source_of_the_loader():
    return minigrad.__loader__.get_source("minigrad.tensor")


@cheat
def files_on_the_disk():
    folder = Path(minigrad.__file__).parent
    return {
        str(file): file.read_bytes() for file in sorted(folder.rglob("*.py*")) if file.is_file()
    }


@cheat
def docstrings_and_names():
    return [(f.__doc__, f.__qualname__, f.__module__, f.__name__) for f in functions().values()]


@cheat
def signatures():
    return [str(inspect.signature(f)) for f in functions().values()]
