"""Users: `pk = USER#{id}`, `sk = PROFILE` (S4.7)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from penstock.client.database import Database
from penstock.client.items.expressions import F
from penstock.client.items.failures import ConditionFailed
from penstock.client.items.values import InvalidValue, Item
from penstock.errors import PenstockError
from penstock.systems.account_records.config import Config
from penstock.systems.account_records.services.dynamodb import default_database

PROFILE: Final = "PROFILE"
_START: Final = "USER#"
_KEY: Final = ("pk", "sk")


class UserMissing(PenstockError):
    def __init__(self, user_id: str) -> None:
        super().__init__(f"There is no user {user_id!r}. Check the id, or add the user first.")
        self.user_id = user_id


class UserModel:
    """The table of users. Without a database, it is that of the configuration (`.env`)."""

    def __init__(self, db: Database | None = None, *, table: str | None = None) -> None:
        self.db = default_database() if db is None else db
        self.table = self.db.table(table or Config.load().user_table, key=("pk:S", "sk:S"))

    def put_item(self, user: Mapping[str, Any]) -> Item:
        """Writes a user, in place of the one with this `id`; gives back what `get_item` gives."""
        for name in _KEY:
            if name in user:
                raise InvalidValue(f"the model makes {' and '.join(_KEY)} from the id; leave it out", name)
        self.table.put({**user, **key_of(user.get("id"))})
        return dict(user)

    def get_item(self, user_id: str, *, consistent: bool = False) -> Item | None:
        found = self.table.get(key_of(user_id), consistent=consistent)
        return None if found is None else _plain(found)

    def update_item(self, user_id: str, changes: Mapping[str, Any]) -> Item:
        """Changes attributes of a user that is there. Raises UserMissing: no half a user is made."""
        for name in (*_KEY, "id"):
            if name in changes:
                raise InvalidValue("what names a user cannot be changed; add another, and delete this one", name)
        try:
            changed = self.table.update(key_of(user_id), set=changes, if_=F("pk").exists(), return_new=True)
        except ConditionFailed as error:
            raise UserMissing(user_id) from error
        assert changed is not None  # return_new gives it
        return _plain(changed)

    def delete_item(self, user_id: str) -> Item | None:
        """Deletes a user, and gives back what it was; None where there was none."""
        found = self.table.delete(key_of(user_id), return_old=True)
        return None if found is None else _plain(found)


def key_of(user_id: object) -> dict[str, str]:
    """The key of a user. Raises InvalidValue for what no id can be."""
    if not isinstance(user_id, str) or not user_id or "#" in user_id:
        raise InvalidValue("a user's id is a text that is not empty and has no #", "id")
    return {"pk": f"{_START}{user_id}", "sk": PROFILE}


def _plain(item: Item) -> Item:
    return {name: value for name, value in item.items() if name not in _KEY}
