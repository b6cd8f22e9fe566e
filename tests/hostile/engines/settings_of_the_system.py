"""Changes locale, time zone, environment, umask and working directory."""

ENDS = [None]


def attack(tensor):
    import locale
    import os
    import time

    locale.setlocale(locale.LC_ALL, "C.UTF-8")
    os.environ["TZ"] = "Asia/Tokyo"
    time.tzset()
    os.environ["OTHER"] = "other"
    del os.environ["HOME"]
    os.umask(0o777)
    os.chdir("/")
