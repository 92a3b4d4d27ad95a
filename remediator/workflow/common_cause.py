"""Groups: the same fault on many nodes that share something. Nothing but T0 drains is done for it until a
person releases the group, or its nodes are sick no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

import sqlalchemy as sa

from remediator.model.ids import incident_id
from remediator.model.incident import COMMON_CAUSE, Incident, Tier
from remediator.model.machine import Machine
from remediator.policy.breaker import PLACES, Shared, common_cause, ended_by
from remediator.settings import GuardLimits, GuardSettings
from remediator.store import incidents, sightings, steps
from remediator.store.within import Within
from remediator.workflow import notices
from remediator.workflow.ending import end
from remediator.workflow.journal import Journal

NAMED = 3
BY = {"leaf": "behind", "rack": "in", "pool": "of"}
Machines = Callable[[str], Machine | None]


@dataclass(frozen=True, slots=True)
class Group:
    """One cause on many nodes, and what they share: its kind and its name."""

    id: str
    cause: str
    kind: str
    name: str
    since: float

    @property
    def key(self) -> str:
        """Of its incident: there is one open for each."""
        return f"{sightings.GROUP}{self.cause}/{self.kind}/{self.name}"

    @property
    def where(self) -> str:
        """What its nodes share, for people."""
        return f"{BY.get(self.kind, 'with')} {self.what}"

    @property
    def what(self) -> str:
        """What it is a group of."""
        return f"{self.kind} {self.name}"


@dataclass
class _Noted:
    """What one transaction has written of sightings, by cause and machine, and how many machines that share
    something are sick `at_most`: in a storm both would be written and counted many times.
    """

    shown: dict[tuple[str, str], tuple[Machine, float]] = field(default_factory=dict)
    at_most: dict[tuple[str, str, str], int] = field(default_factory=dict)

    def says(self, cause: str, machine: Machine, at: float) -> bool:
        """Whether one that is as new, of the same name and the same places, is on the books."""
        seen, newest = self.shown.get((cause, machine.key), (None, 0.0))
        return (
            seen is not None and at <= newest and (seen.name, seen.shares) == (machine.name, machine.shares)
        )

    def add(self, cause: str, machine: Machine, at: float) -> None:
        """It was written now, and may be one more of those that it shares something with."""
        _, newest = self.shown.get((cause, machine.key), (None, at))
        self.shown[cause, machine.key] = machine, max(newest, at)
        for kind, name in machine.shares:
            if (cause, kind, name) in self.at_most:
                self.at_most[cause, kind, name] += 1


class CommonCause:
    """Everything happens on the caller's connection; without a journal groups can only be asked for."""

    def __init__(
        self,
        settings: GuardSettings,
        size: Callable[[str, str], int],
        journal: Journal | None,
    ) -> None:
        self._settings = settings
        self._size = size
        self._journal = journal
        self._cause_of = cache(settings.cause_of)
        self._noted = Within(_Noted)

    def forget(self) -> None:
        """What this transaction has written may have been taken back."""
        self._noted.forget()

    def standing(self, connection: sa.Connection) -> list[Group]:
        """The groups that nobody has released and that have not passed."""
        rows = sightings.groups(connection)
        return [_group(row) for row in rows]

    def over(self, groups: Iterable[Group], rule: str, shares: Sequence[tuple[str, str]]) -> str | None:
        """Why nothing is done for this rule on a machine that shares this; None without such a group."""
        found = _over(groups, self._cause_of(rule), shares)
        return _refusal(found) if found else None

    def refusal(self, connection: sa.Connection, incident: Incident) -> str | None:
        """Why an incident that has begun goes no further; None when nothing forbids it."""
        groups = self.standing(connection)
        if not groups:
            return None
        cause = self._cause_of(incident.rule)
        return self.over(groups, incident.rule, sightings.shares(connection, cause, incident.key))

    def sighted(
        self,
        connection: sa.Connection,
        groups: Iterable[Group],
        machine: Machine,
        rule: str,
        tier: Tier,
        at: float,
        now: float,
    ) -> bool:
        """A machine shows a fault, whether it acts yet or not; True when that made a group of many. Those in
        `groups` stand already.
        """
        if self._journal is None:
            raise LookupError("a guard that can only be asked was told of a fault")
        cause = self._cause_of(rule)
        self._note(connection, cause, machine, min(at, now))
        if _over(groups, cause, machine.shares):
            return False
        found = self._many(connection, cause, machine, now)
        if found is None:
            return False
        self._begin(
            connection, self._journal, Group("", cause, found.kind, found.name, now), found, tier, machine
        )
        return True

    def _note(self, connection: sa.Connection, cause: str, machine: Machine, at: float) -> None:
        noted = self._noted(connection)
        if not noted.says(cause, machine, at):
            sightings.add(connection, cause, machine.key, machine.name, machine.shares, at)
            noted.add(cause, machine, at)

    def look(self, connection: sa.Connection, machine: Machines, now: float) -> None:
        """End groups that have passed: nothing new for a whole window, and no incident of theirs whose
        machine is still in the boot that was sick. What has begun of those waits for people, however long;
        the rest ends with its group, and stands in the way of no other fault.
        """
        for group in self.standing(connection):
            since = now - self._settings.window_s
            if sightings.count(connection, group.cause, group.kind, group.name, since):
                continue
            left = self._members(connection, group)
            why = ended_by("", standing=any(_stands(row, machine(row.node)) for row in left))
            incident = incidents.get(connection, group.id)
            if why is None or incident is None or self._journal is None:
                continue
            begun = self._leave_to_people(connection, self._journal, group, left, now)
            rest = f"; each of {_some(begun)} is held until it is released" if begun else ""
            end(connection, self._journal, incident, f"{why}{rest}", now)

    def _leave_to_people(
        self,
        connection: sa.Connection,
        journal: Journal,
        group: Group,
        left: Iterable[sa.Row[tuple[str, ...]]],
        now: float,
    ) -> list[str]:
        """Hold what has begun, end what has not; the ids of the former."""
        begun = []
        for row in left:
            incident = incidents.get(connection, row.id)
            if incident is not None and not steps.of_incident(connection, row.id):
                end(connection, journal, incident, f"passed with its group {group.id}: nothing was done", now)
                continue
            incidents.update(connection, row.id, held_by=f"common cause {group.id}", state="held")
            begun.append(row.id)
        return begun

    def _members(self, connection: sa.Connection, group: Group) -> list[sa.Row[tuple[str, ...]]]:
        found = sightings.members(connection, group.cause, group.kind, group.name)
        return [row for row in found if self._cause_of(row.rule) == group.cause]

    def _many(self, connection: sa.Connection, cause: str, machine: Machine, now: float) -> Shared | None:
        """What too many sick nodes share with the machine; what a person has released counts no more."""
        since, limits = now - self._settings.window_s, self._settings.limits_of(cause)
        shared = [self._shared(connection, cause, share, since) for share in machine.shares]
        while (found := common_cause(shared, limits)) is not None:
            released = self._released_at(connection, Group("", cause, found.kind, found.name, now))
            if released <= since:
                return found
            sick = sightings.count(connection, cause, found.kind, found.name, released)
            fewer = replace(found, sick=sick)
            if common_cause([fewer], limits):
                return fewer
            shared = [fewer if one is found else one for one in shared]
        return None

    def _shared(self, connection: sa.Connection, cause: str, share: tuple[str, str], since: float) -> Shared:
        """How many that share this are sick; where that is not too many it may be fewer."""
        at_most, limits = self._noted(connection).at_most, self._settings.limits_of(cause)
        sick = at_most.get((cause, *share))
        if sick is None or common_cause([self._sized(share, sick, limits)], limits):
            sick = at_most[cause, *share] = sightings.count(connection, cause, *share, since)
        return self._sized(share, sick, limits)

    def _sized(self, share: tuple[str, str], sick: int, limits: GuardLimits) -> Shared:
        matters = share[0] not in PLACES and sick >= limits.at_least
        return Shared(*share, sick, self._size(*share) if matters else 0)

    def _released_at(self, connection: sa.Connection, group: Group) -> float:
        last = incidents.last_closed(connection, group.key)
        return last.closed_at or 0.0 if last else 0.0

    def _begin(
        self,
        connection: sa.Connection,
        journal: Journal,
        group: Group,
        found: Shared,
        tier: Tier,
        machine: Machine,
    ) -> None:
        now = group.since
        since = max(now - self._settings.window_s, self._released_at(connection, group))
        names = sightings.nodes(connection, group.cause, group.kind, group.name, since)
        alike = sightings.alike(connection, group.cause, group.kind, group.name, since)
        incident = Incident(
            id=incident_id(now),
            key=group.key,
            node=group.what,
            node_uid="",
            boot_id="",
            pool=machine.pool or "",
            tier=tier,
            rule=group.cause,
            cause=f"{group.cause} on {found.sick} nodes {group.where}",
            plan=COMMON_CAUSE,
            state="held",
            sentence=_sentence(group, names, alike, self._settings.window_s),
            fault_at=now,
            opened_at=now,
        )
        incidents.insert(connection, incident)
        detail = {"rule": group.cause, "plan": COMMON_CAUSE, "nodes": names, "alike": alike}
        journal.record(connection, "decision", incident, now, why=incident.sentence, detail=detail)
        page = notices.look(f"incident {incident.id}: {incident.sentence}; when what they share is mended: "
                            f"`remediator release {incident.id}`")  # fmt: skip
        notices.post(connection, incident, page, now)


def _group(row: sa.Row[tuple[str, str, float]]) -> Group:
    _, cause, kind, name = row.key.split("/", 3)
    return Group(row.id, cause, kind, name, row.opened_at)


def _over(groups: Iterable[Group], cause: str, shares: Sequence[tuple[str, str]]) -> Group | None:
    """The group of this cause, if one stands, that has what a machine shares."""
    found = (one for one in groups if one.cause == cause and (one.kind, one.name) in shares)
    return next(found, None)


def _sentence(group: Group, names: Sequence[str], alike: dict[str, str], window_s: float) -> str:
    others = [f"{kind} {name}" for kind, name in sorted(alike.items()) if kind != group.kind]
    also = f"; they also share {', '.join(others)}" if others else ""
    many = f"{group.cause} on {len(names)} nodes {group.where} within {window_s / 60:g} min ({_some(names)})"
    return f"{many}{also}: one cause until shown otherwise; T0 nodes are drained, nothing else is done"


def _refusal(group: Group) -> str:
    return (
        f"{group.cause} is on many nodes {group.where} at once, which are one incident, {group.id}: "
        f"goes on when a person says `remediator release {group.id}`"
    )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _stands(row: sa.Row[tuple[str, ...]], machine: Machine | None) -> bool:
    """Whether its evidence is still of the machine's present boot; a boot that is not known may be."""
    if machine is None or machine.key != row.key:
        return False
    return not machine.boot_id or machine.boot_id == row.boot_id
