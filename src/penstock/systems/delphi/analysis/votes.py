"""Votes of a Pol.is export, if they are there: participants-votes.csv and summary.csv.

1. A vote is 1 (agrees), -1 (disagrees), 0 (passes) or none.
2. Votes are a help. An export without them has topics too; a cell that is no vote is none.
3. Opinion groups are found as Pol.is does it: participants who voted enough, two main directions of their votes
   (a missing vote is the comment's mean, and who voted on little is drawn outwards), k-means with 2 to 5 groups, and
   the number of groups whose silhouette is best.
4. A consensus comment has a majority of every opinion group on one side. A divisive one splits those who voted.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from penstock.systems.delphi.analysis.conversation import LARGEST_FILE_BYTES, BadConversation, Conversation
from penstock.systems.delphi.analysis.libraries import library

VOTES_FILE: Final = "participants-votes.csv"
SUMMARY_FILE: Final = "summary.csv"
_VOTES: Final = {"1": 1.0, "-1": -1.0, "0": 0.0, "1.0": 1.0, "-1.0": -1.0, "0.0": 0.0}
_SUMMARY_KEYS: Final = ("topic", "url", "views", "voters", "voters-in-conv", "commenters", "comments", "groups")
_SUMMARY_CHARACTERS: Final = 500
_LEAST_VOTES: Final = 7
"""Pol.is puts a participant into a group from seven votes on, or from all if there are fewer comments."""
_MOST_GROUPS: Final = 5
_LEAST_PARTICIPANTS: Final = 8
"""Of fewer there are no groups."""
_LEAST_VOTERS: Final = 5
_CONSENSUS: Final = 0.6
_STARTS: Final = 10
_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class Votes:
    """`matrix[participant, row]`, with NaN where there is no vote; rows are comments, in the order asked for."""

    participants: tuple[str, ...]
    matrix: Any


@dataclass(frozen=True, slots=True)
class CommentVotes:
    """What people said to a comment. Shares are of those who voted on it."""

    agrees: int
    disagrees: int
    passes: int
    division: float
    """0 where all are on one side, 1 where they are split into halves."""
    group_agreement: tuple[float, ...] = ()
    """For each opinion group the share that agrees: -1 where nobody of it voted."""
    consensus: str = ""
    """`agree` or `disagree`, where a majority of every group does; else nothing."""

    @property
    def voters(self) -> int:
        return self.agrees + self.disagrees + self.passes

    @property
    def agreement(self) -> float:
        """Of those who voted on it, how many agree."""
        return round(self.agrees / self.voters, _DIGITS) if self.voters else 0.0


@dataclass(frozen=True, slots=True)
class Opinions:
    """The votes of a conversation, summed up."""

    participants: int
    voters: int
    comments: tuple[CommentVotes, ...]
    """Of each row."""
    groups: tuple[int, ...] = ()
    """Participants of each opinion group, the largest first."""
    people: tuple[tuple[float, float, int], ...] = ()
    """The place of each grouped participant in the two main directions, and their group."""
    summary: dict[str, str] = field(default_factory=dict)


def read_votes(folder: Path, ids: Sequence[int]) -> Votes | None:
    """The votes of the export in this folder on these comments; None if it has no votes. Raises BadConversation."""
    path = path_beside(folder / "comments.csv", VOTES_FILE)
    return None if path is None else parse_votes(path.read_bytes(), ids, str(path))


def path_beside(comments: Path, name: str) -> Path | None:
    """A file of the same export as this comments.csv, if there is one. Raises BadConversation.

    A file of comments that has another name is no part of the export that it lies in.
    """
    path = comments.parent / name
    try:
        if comments.name != "comments.csv" or not path.is_file():
            return None
        if path.stat().st_size > LARGEST_FILE_BYTES:
            raise BadConversation(f"{path} has more than {LARGEST_FILE_BYTES:,} bytes: move it away to do without.")
    except OSError as error:
        raise BadConversation(f"{path}: {error.strerror or error}. Mend it, or move it away.") from error
    return path


def without_votes(conversation: Conversation, summary: dict[str, str]) -> Opinions:
    """What comments.csv and the summary alone tell: counts, and no groups."""
    told = summary.get("voters-in-conv", summary.get("voters", ""))
    voters = int(told) if told.isascii() and told.isdigit() and len(told) < 12 else 0
    comments = tuple(_comment_votes((one.agrees, one.disagrees, 0), ()) for one in conversation.comments)
    return Opinions(max(voters, conversation.participants), voters, comments, summary=summary)


def parse_votes(data: bytes, ids: Sequence[int], name: str = VOTES_FILE) -> Votes:
    """The same from the file's bytes. Raises BadConversation."""
    numpy = library("numpy")
    rows = csv.reader(io.StringIO(_decoded(data, name), newline=""), strict=True)
    try:
        header = [column.strip() for column in next(rows, [])]
        if "participant" not in header:
            raise BadConversation(f"{name} has no column participant. Give the file of a Pol.is export, or none.")
        place = {header[column]: column for column in range(len(header)) if header[column].isdigit()}
        columns = [place.get(str(identity)) for identity in ids]
        who, votes = header.index("participant"), []
        participants = []
        for row in rows:
            if len(row) > who and row[who].strip():
                participants.append(row[who].strip())
                votes.append([_vote(row, column) for column in columns])
    except csv.Error as error:
        raise BadConversation(f"{name}, line {rows.line_num}: {error}. Export the conversation again.") from error
    return Votes(tuple(participants), numpy.array(votes, dtype=float).reshape(len(votes), len(ids)))


def _vote(row: Sequence[str], column: int | None) -> float:
    text = row[column].strip() if column is not None and column < len(row) else ""
    return _VOTES.get(text, float("nan"))


def parse_summary(data: bytes, name: str = SUMMARY_FILE) -> dict[str, str]:
    """A key and its value a row, those that are known. Raises BadConversation."""
    rows = csv.reader(io.StringIO(_decoded(data, name), newline=""))
    try:
        found = {row[0].strip(): " ".join(row[1].split())[:_SUMMARY_CHARACTERS] for row in rows if len(row) > 1}
    except csv.Error as error:
        raise BadConversation(f"{name}, line {rows.line_num}: {error}. Export the conversation again.") from error
    return {key: found[key] for key in _SUMMARY_KEYS if found.get(key)}


def _decoded(data: bytes, name: str) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadConversation(f"{name}: byte {error.start:,} is not UTF-8. Save the file as UTF-8.") from error


def sum_up(votes: Votes, summary: dict[str, str], seed: int) -> Opinions:
    """Agreement and division of each comment, and the groups of opinion."""
    numpy = library("numpy")
    matrix = votes.matrix
    voted = ~numpy.isnan(matrix)
    labels, points = _groups(matrix, seed)
    count = int(labels.max()) + 1 if len(labels) else 0
    comments = []
    for row in range(matrix.shape[1]):
        column = matrix[:, row]
        groups = [_tally(column[labels == group]) for group in range(count)]
        comments.append(_comment_votes(_tally(column), groups))
    people = tuple(
        (round(float(x), _DIGITS), round(float(y), _DIGITS), int(group))
        for (x, y), group in zip(points, labels, strict=True)
        if group >= 0
    )
    sizes = tuple(int((labels == group).sum()) for group in range(count))
    return Opinions(len(votes.participants), int(voted.any(axis=1).sum()), tuple(comments), sizes, people, summary)


def _tally(column: Any) -> tuple[int, int, int]:
    return int((column == 1).sum()), int((column == -1).sum()), int((column == 0).sum())


def _comment_votes(everybody: tuple[int, int, int], groups: Sequence[tuple[int, int, int]]) -> CommentVotes:
    agrees, disagrees, passes = everybody
    voters = sum(everybody)
    division = 2 * min(agrees, disagrees) / voters if voters else 0.0
    shares = tuple(round(group[0] / sum(group), 4) if sum(group) else -1.0 for group in groups)
    asked = [group for group in groups or [everybody] if sum(group)]
    consensus = ""
    if voters >= _LEAST_VOTERS and len(asked) == len(groups or [everybody]):
        for side, called in ((0, "agree"), (1, "disagree")):
            # A group of few votes says little: one more on the other side is counted for it, as Pol.is does.
            if all((group[side] + 1) / (sum(group) + 2) >= _CONSENSUS for group in asked):
                consensus = called
    return CommentVotes(agrees, disagrees, passes, round(division, _DIGITS), shares, consensus)


def _groups(matrix: Any, seed: int) -> tuple[Any, Any]:
    """The group of each participant, -1 for who voted on too little, and everybody's place."""
    numpy = library("numpy")
    people, rows = matrix.shape
    labels, points = numpy.full(people, -1), numpy.zeros((people, 2))
    voted = ~numpy.isnan(matrix)
    counts = voted.sum(axis=1)
    chosen = numpy.flatnonzero(counts >= min(_LEAST_VOTES, rows))
    if len(chosen) < _LEAST_PARTICIPANTS or rows < 2:
        return labels, points
    some = matrix[chosen]
    known = voted[chosen]
    means = numpy.where(known, some, 0.0).sum(axis=0) / numpy.maximum(known.sum(axis=0), 1)
    centred = numpy.where(known, some - means, 0.0)
    _, _, directions = numpy.linalg.svd(centred, full_matrices=False)
    directions = directions[:2]
    signs = numpy.sign(directions[numpy.arange(2), numpy.abs(directions).argmax(axis=1)])
    outwards = numpy.sqrt(rows / counts[chosen])[:, None]
    points[chosen] = centred @ (directions * signs[:, None]).T * outwards
    labels[chosen] = _best_groups(points[chosen], seed)
    return labels, points


def _best_groups(points: Any, seed: int) -> Any:
    """k-means with the number of groups whose silhouette is best; the largest group is the first."""
    numpy = library("numpy")
    silhouette = library("sklearn.metrics").silhouette_score
    means = library("sklearn.cluster").KMeans
    best, found = -2.0, numpy.zeros(len(points), dtype=int)
    different = len(numpy.unique(points.round(_DIGITS), axis=0))
    for groups in range(2, min(_MOST_GROUPS, different - 1) + 1):
        labels = means(groups, n_init=_STARTS, random_state=seed).fit_predict(points)
        score = float(silhouette(points, labels))
        if score > best + 1e-9:
            best, found = score, labels
    order = sorted(set(found.tolist()), key=lambda group: (-(found == group).sum(), group))
    return numpy.array([order.index(label) for label in found.tolist()])
