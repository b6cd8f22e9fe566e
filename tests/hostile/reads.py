"""What a child tries to read or to reach: an expression each, which is true if it succeeds.

`test_reads.py` lets an engine, a probe, a program and a suite evaluate all of them. The names in
braces are paths and numbers of the test; everything in `{field}` is secret but the engine.
"""

PRELUDE = '''
import ctypes, glob, mmap, os, signal, socket, stat, subprocess, sys
from pathlib import Path

libc = ctypes.CDLL(None, use_errno=True)


def run(*command):
    return subprocess.run(command, capture_output=True).stdout


def read(path):
    with open(path, "rb") as file:
        return file.read(1000)


def files_below(*folders):
    """The files below these folders that are neither the engine's nor in the scratch folder."""
    own = os.getcwd(), ENGINE
    found = [
        os.path.join(folder, name)
        for top in folders
        for folder, _, names in os.walk(os.path.abspath(top))
        if not folder.startswith(own)
        for name in names
    ]
    return [path for path in found if not path.startswith(NEEDED)]


def linked(path):
    os.symlink(path, "link")
    return read("link")


def hard_linked(path):
    os.link(path, "hard")
    return read("hard")


def mapped(path):
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as memory:
        return memory[:]


def below(folder, name):
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    return os.read(os.open(name, os.O_RDONLY, dir_fd=descriptor), 1000)


def connected(address, kind=socket.SOCK_STREAM, family=socket.AF_UNIX):
    with socket.socket(family, kind) as one:
        one.settimeout(5)
        one.connect(address)
    return True


def by_a_pair(address):
    one, _ = socket.socketpair(type=socket.SOCK_DGRAM)
    one.connect(address)
    return True


def in_fork(does):
    """Whether a fork that may lock itself out succeeds."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if does() else 1)
        finally:
            os._exit(1)
    return os.waitpid(child, 0)[1] == 0


def in_another_namespace(path):
    libc.setns(os.open(path, os.O_RDONLY), 0) == 0 or refuse()
    return read(SECRET)


def refuse():
    raise OSError(ctypes.get_errno(), "refused")


def inherited():
    """Descriptors of files and folders, besides those of the tests' own printed output."""
    kinds = []
    for number in range(3, 200):
        try:
            mode = os.fstat(number).st_mode
        except OSError:
            continue
        if stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISSOCK(mode):
            kinds.append(number)
    return kinds


def leaks(attempts):
    """The names of the attempts that succeed."""
    found = []
    for name, expression in attempts.items():
        try:
            if eval(expression):
                found.append(name)
        except Exception:
            pass
    return found
'''

READS = {
    "inherited descriptors": "inherited()",
    # A file of the user, in many ways.
    "a file": "read({secret!r})",
    "a hidden file": "read('{field}/home/.ssh/id_ed25519')",
    "a file in a cache": "read('{field}/home/.cache/token')",
    "that a file exists": "os.stat({secret!r})",
    "that a folder exists": "os.path.isdir('{field}/home')",
    "the names in a folder": "os.listdir('{field}/home')",
    "the names in all folders": "glob.glob('{field}/**/.netrc', recursive=True)",
    "a walk": "files_below('{field}')",
    "a file below a descriptor": "below('{field}/home', '.netrc')",
    "the folder of a descriptor": "below('{field}', 'home/.netrc')",
    "a symbolic link": "linked({secret!r})",
    "a hard link": "hard_linked({secret!r})",
    "a mapped file": "mapped({secret!r})",
    "two dots": "read('{field}/engine/../home/.netrc')",
    "two dots of the current folder": "read('../../field/home/.netrc')",
    "the root of a process": "read('/proc/self/root' + {secret!r})",
    "the root of a thread": "read('/proc/thread-self/root' + {secret!r})",
    "the root of the host": "read('/proc/1/root' + {secret!r})",
    "the folder of the host": "os.listdir('/proc/1/cwd')",
    "the current folder of a process": "read('/proc/self/cwd/../../field/home/.netrc')",
    "a program": "run('cat', {secret!r})",
    "a shell": "run('sh', '-c', 'cat ' + {secret!r})",
    "another Python": "run(sys.executable, '-c', 'print(open(' + repr({secret!r}) + ').read())')",
    "the C library": "libc.open({secret!r}.encode(), 0) >= 0",
    "a change of folder": "in_fork(lambda: os.chdir('{field}/home') or read('.netrc'))",
    "a change of the root": "in_fork(lambda: os.chroot('/proc/1/root') or read({secret!r}))",
    # The confinement itself.
    "a mount": "libc.mount(b'/', b'.', None, 0x1000, None) == 0",
    "a new file system": "libc.mount(b'x', b'.', b'tmpfs', 0, None) == 0",
    "the removal of a mount": "libc.umount2(b'/', 2) == 0",
    "the removal of the scratch folder": "libc.umount2(os.getcwd().encode(), 2) == 0",
    "new namespaces": "in_fork(lambda: libc.unshare(0x10020000) == 0)",
    "the namespace of the host": "in_fork(lambda: in_another_namespace('/proc/1/ns/mnt'))",
    "the namespace of ours": "in_fork(lambda: in_another_namespace('/proc/{pid}/ns/mnt'))",
    # Ways out.
    "a pipe to write to": "os.open('{field}/home/pipe', os.O_WRONLY | os.O_NONBLOCK) >= 0",
    "a pipe to read from": "os.open('{field}/home/pipe', os.O_RDONLY | os.O_NONBLOCK) >= 0",
    "a socket": "connected('{socket}')",
    "a socket for datagrams": "by_a_pair('{field}/datagrams')",
    "an abstract socket": "connected('\\0{abstract}')",
    "a port": "connected(('127.0.0.1', {port}), family=socket.AF_INET)",
    "a terminal": "open('/dev/tty')",
    # Our own folders, and those of an instructor.
    "the store": "read('{store}/runs.sqlite')",
    "the log of the store": "read('{store}/runs.sqlite-wal')",
    "the names in the store": "os.listdir('{store}')",
    "the progress": "read('{progress}/progress.sqlite')",
    "an unpublished page": "read('{field}/pages/secret.md')",
    "another submission": "read('{field}/course/bob/test_bob.py')",
    "a submission as it was handed in": "os.listdir('{field}/course/ada')",
    "the results of a course": "read('{field}/results/cohort.json')",
    "the scratch folders of others": "files_below('{field}/../scratch')",
    "our pages": "__import__('breaks').__file__",
    "our pages as files": "files_below(os.path.dirname(HARNESS) + '/breaks')",
    "what is around our packages": "files_below(os.path.dirname(HARNESS) + '/tests')",
    # The system.
    "temporary files": "files_below('/tmp', '/var/tmp')",
    "shared memory": "os.listdir('/dev/shm')",
    "the services of the system": "os.listdir('/run')",
    "the services of the user": "os.listdir('/run/user') or os.listdir('/var/run')",
    "the data of services": "os.listdir('/var')",
    "other disks": "os.listdir('/mnt')",
    "served files": "os.path.isdir('/srv') or os.path.isdir('/media') or os.path.isdir('/boot')",
    "passwords": "os.path.exists('/etc/shadow')",
    "the name of the machine in a file": "read('/etc/hostname')",
    "settings of other programs": "files_below('/etc/ssl', '/etc/ssh', '/etc/apt')",
    "devices": "os.path.exists('/dev/kmsg') or os.path.exists('/dev/mem')",
    "the network of the machine": "os.listdir('/sys/class/net')",
    "the memory of the kernel": "read('/proc/kcore')",
    # Other processes.
    "a variable": "os.environ['BREAKLAB_SECRET']",
    "the variables of our process": "read('/proc/{pid}/environ')",
    "the command of our process": "str({pid}) == str(os.getppid()) or b'pytest' in "
    "read('/proc/{pid}/cmdline')",
    "the memory of our process": "open('/proc/{pid}/mem', 'rb')",
    "the files of our process": "os.listdir('/proc/{pid}/fd')",
    "a secret in any process": "[path for path in glob.glob('/proc/[0-9]*/environ') "
    "if os.access(path, os.R_OK) and b'BREAKLAB_SECRET' in read(path)]",
    "the variables of the host": "read('/proc/1/environ')",
    "the memory of the host": "open('/proc/1/mem', 'rb')",
    "the memory of the parent": "open(f'/proc/{{os.getppid()}}/mem', 'rb')",
    "to trace the parent": "libc.ptrace(16, os.getppid(), None, None) == 0",
    "many processes": "len(glob.glob('/proc/[0-9]*')) > 12",
}
"""None of them may succeed in namespaces."""

NEEDED = {
    "the engine's file": "read('{field}/engine/tiny.py')",
    "data beside the engine": "read('{field}/engine/data/weights.txt')",
    "a module beside the engine": "run(sys.executable, '-c', \"import sys; sys.path.append("
    "'{field}/engine'); import beside; print(beside.VALUE)\")",
    "the standard library": "__import__('xml.dom.minidom').__file__",
    "an installed package": "__import__('numpy.polynomial').__file__",
    "our package": "__import__('harness.core.run').__file__",
    "a program": "run('uname')",
    "a shell": "run('sh', '-c', 'echo $((1 + 1))')",
    "another Python": "run(sys.executable, '-c', 'import numpy; print(numpy.pi)')",
    "the user's name": "__import__('pwd').getpwuid(os.getuid()).pw_name",
    "time zones": "__import__('zoneinfo').ZoneInfo('Europe/Paris')",
    "nothing": "open('/dev/null', 'w').write('x') and open('/dev/urandom', 'rb').read(1)",
    "its own process": "read('/proc/self/status')",
    "a file in the scratch folder": "open('mine', 'w').write('x') and read('mine')",
    "the number of processors": "os.cpu_count() and os.listdir('/sys/devices/system/cpu')",
}
"""All of them must succeed there, if the engine is the one of the test."""
