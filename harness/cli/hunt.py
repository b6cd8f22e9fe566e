"""`harness hunt`: a hidden bug, clues that cost forward passes, and one answer."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from harness.cli.options import Breaks, Json, Lang, NoCache, require_one
from harness.cli.session import CommandSession, complain, print_json
from harness.core.errors import BreaklabError, UsageError
from harness.core.message import message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harness.learn.clues import BugPool, Clue, Evidence, HiddenBug
    from harness.learn.events import HuntKey
    from harness.learn.hunt import GuessedPlace, Hunt
    from harness.pages.probe import Probe

LEVELS = (1, 2, 3)

RANDOM_SEEDS = 1_000_000
"""The number of seeds to draw from if none is given."""


def hunt(
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", metavar="N", help="Choose the bug; the same seed hides the same bug."
        ),
    ] = None,
    level: Annotated[
        int | None, typer.Option("--level", metavar="N", help="The level of the bug, 1 to 3.")
    ] = None,
    daily: Annotated[
        bool, typer.Option("--daily", help="The bug of the day (UTC), the same for everybody.")
    ] = False,
    buy: Annotated[
        list[str] | None,
        typer.Option(
            "--buy", metavar="CLUE", help="Buy a clue: `gradcheck:add-new-axis`; may be repeated."
        ),
    ] = None,
    answer: Annotated[
        str | None,
        typer.Option(
            "--answer",
            metavar="FAMILY:PLACE",
            help="End the hunt: `broadcasting:unbroadcast`, or `broadcasting:FILE.py:LINE`.",
        ),
    ] = None,
    breaks: Breaks = None,
    json: Json = False,
    no_cache: NoCache = False,
    lang: Lang = None,
) -> int:
    """Find a hidden bug with as few clues as possible."""
    session = CommandSession(breaks, lang=lang, json=json, cached=not no_cache)
    wanted = _Wanted(_seed(seed, daily=daily), _level(level))
    session.show_mistakes()
    game = session.run(lambda: _open(session, wanted))
    if buy or answer is not None or not session.is_interactive:
        return _play_at_once(game, buy or (), answer)
    return _play(game)


# ----- Which hunt -----


@dataclass(frozen=True)
class _Wanted:
    """The hunt that the options ask for."""

    seed: int | None
    level: int | None

    def includes(self, key: HuntKey) -> bool:
        """Whether a hunt is one that the options ask for."""
        return self.seed in (None, key.seed) and self.level in (None, key.level)


def _seed(seed: int | None, *, daily: bool) -> int | None:
    """Return the seed that is asked for. Raises UsageError for a seed that cannot be used."""
    require_one({"--seed": seed, "--daily": daily}, message("leave one out"))
    from harness.learn.events import LARGEST_SEED, now
    from harness.learn.hunt import seed_of

    if seed is not None and not 0 <= seed <= LARGEST_SEED:
        problem = message("--seed {seed} cannot be used", seed=seed)
        remedy = message("a seed is a whole number from 0 to {largest}", largest=LARGEST_SEED)
        raise UsageError(problem, remedy)
    if not daily:
        return seed

    return seed_of(now())


def _level(level: int | None) -> int | None:
    if level in (None, *LEVELS):
        return level
    values = ", ".join(map(str, LEVELS))
    remedy = message("--{option} takes {values}", option="level", values=values)
    raise UsageError(message("no level `{level}`", level=level), remedy)


def _hunts(session: CommandSession) -> list[Hunt]:
    from harness.learn.hunt import hunts_in

    return hunts_in(session.journal.events)


def _open(session: CommandSession, wanted: _Wanted) -> _Game:
    """Return the last hunt that has not ended, if the options ask for it, or else a new one."""
    from harness.learn.clues import pool_of
    from harness.learn.events import HuntBegun, HuntKey
    from harness.learn.hunt import open_hunt

    @cache
    def pool_for(level: int) -> BugPool:
        return pool_of(session.catalogue, level)

    def is_current(key: HuntKey) -> bool:
        return wanted.includes(key) and key.pool == pool_for(key.level).digest

    hunts = _hunts(session)
    if going := open_hunt(hunts, is_current):
        return _Game(session, going.key, pool_for(going.key.level))
    level = wanted.level or LEVELS[0]
    pool = pool_for(level)
    seed = _new_seed() if wanted.seed is None else wanted.seed
    key = HuntKey(seed, level, pool.digest)
    if all(hunt.key != key for hunt in hunts):
        session.journal.record(HuntBegun(hunt=key))
    return _Game(session, key, pool)


def _new_seed() -> int:
    import secrets

    return secrets.randbelow(RANDOM_SEEDS)


@dataclass(frozen=True)
class _Game:
    """A hunt, and everything that it needs."""

    session: CommandSession
    key: HuntKey
    pool: BugPool

    @property
    def hunt(self) -> Hunt:
        """The hunt as it stands."""
        return next(hunt for hunt in _hunts(self.session) if hunt.key == self.key)

    @property
    def command(self) -> str:
        """The command that continues the hunt."""
        return f"harness hunt --seed {self.key.seed} --level {self.key.level}"

    @cached_property
    def bug(self) -> HiddenBug:
        """The bug that the seed chooses, in minigrad."""
        from harness.engines.engine import find_engine
        from harness.experiment.patching import prepare
        from harness.learn.clues import HiddenBug

        suspect, catalogue = self.pool.choose(self.key.seed), self.session.catalogue
        experiment = prepare(catalogue.page(suspect.id), catalogue, find_engine())
        return HiddenBug(suspect, experiment, catalogue, self.session.cache)

    @cached_property
    def par(self) -> list[Clue]:
        """Clues that tell the family, as they are chosen for the par."""
        return self.pool.par(self.bug.suspect)

    @cached_property
    def families(self) -> list[str]:
        """The families of all breaks."""
        pages = self.session.catalogue.pages[0]
        return sorted({page.front.family for page in pages if page.front.kind == "break"})

    @cached_property
    def probes(self) -> dict[str, Probe]:
        """The probes that a clue can be bought on."""
        names = dict.fromkeys(clue.probe for clue in self.pool.clues.values())
        return {name: self.session.catalogue.shared_probes[name] for name in names}

    def clue(self, text: str) -> Clue:
        """Return the clue that `gradcheck:add-new-axis` names, with a colon or a space.

        Raises UsageError if it cannot be bought.
        """
        from harness.pages.catalogue import nearest, unknown

        kind, probe = _halves(text)
        if (clue := self.pool.clues.get(f"{kind}:{probe}")) is not None:
            return clue
        kinds = {clue.kind for clue in self.pool.clues.values()}
        if kind not in kinds:
            problem = message("no check `{name}`", name=kind)
            if not kind:
                problem = message("the clue names no check")
            remedy = message(
                "{question}name a check and a probe: {example}",
                question=nearest(kind, kinds),
                example=f"`{next(iter(self.pool.clues))}`",
            )
            raise UsageError(problem, remedy)
        suitable = [clue.probe for clue in self.pool.clues.values() if clue.kind == kind]
        shared = self.session.catalogue.shared_probes
        if probe not in shared:
            raise unknown("probe", probe, suitable, "`harness list --probes` shows them all")
        problem = message(
            "{check} cannot be bought on `{probe}`, a probe of kind {kind}",
            check=kind,
            probe=probe,
            kind=shared[probe].kind,
        )
        raise UsageError(problem, message("choose another probe, such as {name}", name=suitable[0]))

    def buy(self, clue: Clue) -> Evidence:
        """Return what a clue shows; it costs once, and nothing if it shows nothing.

        Raises UsageError if a library is missing.
        """
        from harness.learn.clues import investigate
        from harness.learn.events import ClueBought

        evidence = self.session.run(lambda: investigate(self.bug, clue))
        if clue.name not in self.hunt.bought:
            bought = ClueBought(hunt=self.key, clue=clue.name, passes=clue.passes)
            self.session.journal.record(bought)
        return evidence

    def place(self, text: str) -> tuple[str, GuessedPlace]:
        """Return the family and the place that `FAMILY:PLACE` names, with a colon or a space.

        Raises UsageError if there is no such family, or no such place in the engine.
        """
        from harness.learn.hunt import read_place
        from harness.pages.catalogue import nearest

        family, place = _halves(text)
        if family not in self.families:
            problem = message("no family `{family}`", family=family)
            if not family:
                problem = message("the answer names no family")
            remedy = message(
                "{question}the families are {families}",
                question=nearest(family, self.families),
                families=", ".join(self.families),
            )
            raise UsageError(problem, remedy)
        if not place:
            problem = message("`{text}` does not name a place", text=text.strip())
            raise UsageError(problem, "add the function, or FILE.py:LINE")
        return family, read_place(place, self.bug.experiment.clean)

    def end(self, family: str, place: GuessedPlace) -> None:
        """Record whether the answer is right."""
        from harness.learn.events import HuntAnswer
        from harness.learn.hunt import judge

        answer = HuntAnswer(
            hunt=self.key,
            family=family == self.bug.suspect.family,
            place=judge(place, self.bug.experiment.broken.sites, self.bug.experiment.clean),
            par=sum(clue.passes for clue in self.par),
        )
        self.session.journal.record(answer)


def _halves(text: str) -> tuple[str, str]:
    """Return what is before the first colon or space, and what is after it."""
    first, *rest = re.split(r"\s*[:\s]\s*", text.strip(), maxsplit=1)
    return first, "".join(rest)


# ----- With options -----


def _play_at_once(game: _Game, buy: Iterable[str], answer: str | None) -> int:
    """Buy the clues and answer, all or none of it; then show what is known."""
    from harness.report import hunt as report

    session, hunt = game.session, game.hunt
    clues = [game.clue(text) for text in buy]
    given = None if answer is None else game.place(answer)
    if hunt.answer and (clues or given):
        raise UsageError("this hunt has ended", "choose another --seed, or leave it out")
    bought = [game.buy(clue) for clue in clues]
    if given:
        game.end(*given)
    if session.json:
        _print_json(game, bought)
    else:
        console = session.console
        if not game.hunt.answer:
            report.show_hunt(console, game.hunt)
        for evidence in bought:
            console.print()
            report.show_evidence(console, evidence)
        if game.hunt.answer:
            _show_end(game)
        else:
            say = console.say
            console.print(Text(f"\n{say('Next')}", "bold"))
            for option in (f"--buy {next(iter(game.pool.clues))}", "--answer FAMILY:PLACE"):
                console.print(Text(f"  {game.command} {option}"), soft_wrap=True)
    return _status(game.hunt)


def _print_json(game: _Game, bought: Iterable[Evidence]) -> None:
    from harness.report.hunt import evidence_entry, summary_entry

    hunt = game.hunt
    print_json(
        {
            "schema": 1,
            "hunt": {"seed": hunt.key.seed, "level": hunt.key.level},
            "passes": hunt.passes,
            "clues": [{"clue": name, "passes": cost} for name, cost in hunt.bought.items()],
            "bought": [evidence_entry(evidence) for evidence in bought],
            "end": summary_entry(hunt, game.bug, game.par) if hunt.answer else None,
        }
    )


def _show_end(game: _Game) -> None:
    from harness.report.hunt import show_end

    game.session.console.print()
    show_end(game.session.console, game.hunt, game.bug, game.par)


def _status(hunt: Hunt) -> int:
    return 1 if hunt.answer and not hunt.is_solved else 0


# ----- On a terminal -----


def _play(game: _Game) -> int:
    """Read what is typed until the hunt has ended, or the learner stops."""
    from harness.report.hunt import show_hunt

    console, say = game.session.console, game.session.console.say
    if game.hunt.answer:
        console.print(say("This hunt has ended; --seed N chooses another one."))
        _show_end(game)
        return _status(game.hunt)
    show_hunt(console, game.hunt)
    console.print(say("Type ? for help."))
    while not game.hunt.answer:
        passes = f"{game.hunt.passes:g}"
        try:
            typed = console.input(Text(f"\n{say('{passes} passes > ', passes=passes)}")).strip()
        except EOFError:
            console.print()
            typed = "q"
        if typed == "q":
            console.print(say("`harness hunt` continues this hunt."))
            return 0
        try:
            _obey(game, typed)
        except BreaklabError as error:
            complain(error, say)
    _show_end(game)
    return _status(game.hunt)


def _obey(game: _Game, typed: str) -> None:
    """Do what was typed. Raises UsageError for what cannot be done."""
    from harness.report.hunt import show_evidence, show_manual

    word, _, rest = typed.partition(" ")
    if not typed or typed == "?":
        show_manual(game.session.console)
    elif typed.startswith("?"):
        _show_help(game, typed.removeprefix("?").strip())
    elif word == "answer":
        game.end(*game.place(rest))
    elif " " in typed or ":" in typed:
        show_evidence(game.session.console, game.buy(game.clue(typed)))
    else:
        problem = message("`{text}` is not a clue", text=typed)
        raise UsageError(problem, "type a check and a probe, or ? for help")


def _show_help(game: _Game, topic: str) -> None:
    """Print what is asked for. Raises UsageError for an unknown topic."""
    from harness.pages.catalogue import nearest
    from harness.report import hunt as report

    console, clues, probes = game.session.console, game.pool.clues.values(), game.probes
    words = ("checks", "probes", "families", "clues")
    if topic == "checks":
        report.show_checks(console, clues)
    elif topic == "probes":
        report.show_topics(console, probes.values())
    elif topic == "families":
        console.print(", ".join(game.families))
    elif topic == "clues":
        if not game.hunt.bought:
            console.print(console.say("You have bought nothing yet."))
        for name in game.hunt.bought:
            report.show_evidence(console, game.buy(game.pool.clues[name]))
    elif topic in {clue.kind for clue in clues}:
        report.show_kind(console, topic)
    elif topic in probes:
        report.show_probe(console, probes[topic], clues)
    elif found := [p for p in probes.values() if topic in (report.topic_of(p), *p.name.split("-"))]:
        report.show_topic(console, found)
    else:
        topics = {report.topic_of(probe) for probe in probes.values()}
        remedy = message(
            "{question}type ? for help",
            question=nearest(topic, [*words, *topics, *probes]),
        )
        raise UsageError(message("no help topic `{name}`", name=topic), remedy)
