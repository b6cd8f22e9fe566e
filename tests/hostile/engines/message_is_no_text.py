"""An exception whose words are a text of its own kind."""

ENDS = ["Wordy"]


class Words(str):
    def split(self, *_):
        return [Words("\x1b[31m"), 7]

    def __getitem__(self, _):
        return self


class Wordy(Exception):
    def __str__(self):
        return Words("a")


def attack(tensor):
    raise Wordy
