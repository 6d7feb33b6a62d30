"""What mypy --strict says of a program with typed items."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

PROGRAM = """
import penstock
from penstock import Attr, attr, item


@item("users")
class User:
    email: Attr[str] = attr(key=True)
    visits: Attr[int] = attr(default=0)


@item("users")
class Guest:
    email: Attr[str] = attr(key=True)


db = penstock.connect()
users = db.table(User)
user = users.get("a")
assert user is not None
email: str = user.email
user.visits = 4
users.update(user, User.visits.set(User.visits + 1), if_=User.email == "a")
visits: int = users.update("a", User.visits.add(1), return_new=True).visits
before: User | None = users.update("a", User.visits.add(1), return_old=True)
one: User | Guest = next(db.table(User, Guest).query(User.email == "a"))
with db.transaction() as t:
    t.put(users, user)
    t.update(users, user, User.visits.add(1), if_=User.email == "a")
    t.put(db.table("raw"), {"id": "x"})
first, second = db.transact_get((users.get_action("a"), db.table(Guest).get_action("b")))
maybe: User | None = first
scanned: User = next(users.parallel_scan())
several: list[User] = users.batch_get(["a"])


async def main() -> None:
    async with penstock.connect_async() as adb:
        those = adb.table(User)
        again: list[User] = await those.batch_get(["a"])
        done: int = await those.batch_put(again)
        after: User = await those.update("a", User.visits.add(1), return_new=True)
        those.batch_put([Guest("a")])  # E


t.put(users, Guest("a"))  # E
wrong_type: Guest | None = first  # E
surely: User = users.update("a", User.visits.add(1), return_old=True)  # E
users.batch_put([Guest("a")])  # E
User(5)  # E
User("a", visits="x")  # E
user.visits = "x"  # E
user.emial  # E
User.emial  # E
User.visits.set("x")  # E
users.put(Guest("a"))  # E
users.put(user, if_=User.email == 5)  # E
number: int = user.email  # E
wrong: Attr[int] = attr(default="x")  # E
"""


def test_mypy_finds_exactly_the_wrong_lines(tmp_path):
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    told = subprocess.run(
        [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(file)],  # the usual cache
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout
    wrong = {number for number, line in enumerate(PROGRAM.splitlines(), 1) if line.endswith("# E")}
    assert {int(line.split(":")[1]) for line in told.splitlines() if ": error:" in line} == wrong, told
