"""The user model: a user is written, read, changed and deleted."""

from __future__ import annotations

from collections.abc import Callable

from penstock.systems.account_records.models.user import UserModel


def run(users: UserModel, say: Callable[[str], None]) -> None:
    users.put_item({"id": "123", "name": "Ada", "email": "ada@example.org"})
    say(f"Created: {users.get_item('123')}")
    say(f"Updated: {users.update_item('123', {'name': 'Ada Lovelace'})}")
    users.delete_item("123")
    say(f"Deleted: {users.get_item('123')}")
