"""S1.8 and S1.14: names."""

from __future__ import annotations

import pytest

from penstock.tables.definitions.definition import Naming, Table, check_names
from penstock.tables.definitions.problems import DefinitionError


def test_a_table_has_its_own_name_where_no_prefix_is_given() -> None:
    assert Naming().full_name("Users") == "Users"
    assert Naming(environment="staging").full_name("Users") == "staging-Users"
    assert Naming("shop").full_name("Users") == "shop-Users"
    assert Naming("shop", "staging").full_name("Users") == "shop-staging-Users"
    assert Naming("shop", "staging").suffix("shop-staging-Users") == "Users"


def test_a_table_of_another_environment_has_no_suffix_here() -> None:
    naming = Naming("construction-expenses", "staging")
    assert naming.suffix("construction-expenses-companies") is None
    assert naming.suffix("construction-expenses-staging-") is None


def test_a_full_name_that_is_too_long_is_refused_with_all_others() -> None:
    long = [Table("x" * 250, "id:S"), Table("y" * 250, "id:S"), Table("z", "id:S")]
    with pytest.raises(DefinitionError) as caught:
        check_names(long, Naming("construction-expenses"))
    assert [one.place for one in caught.value.problems] == [f"table '{'x' * 250}'", f"table '{'y' * 250}'"]
    with pytest.raises(DefinitionError, match="its full name has 1 characters"):
        check_names([Table("z", "id:S")], Naming())


def test_new_tables_are_tagged_with_where_and_when() -> None:
    assert Naming("shop", "dev").tags("2025-06-16T21:19:33.789Z") == {
        "Application": "shop",
        "CreatedAt": "2025-06-16T21:19:33.789Z",
        "Environment": "dev",
        "ManagedBy": "penstock",
    }


@pytest.mark.parametrize("naming", [Naming("a b"), Naming("shop", "a/b")])
def test_a_full_name_with_a_character_that_dynamodb_refuses_is_refused(naming: Naming) -> None:
    with pytest.raises(DefinitionError, match=r"table 'jobs': its full name, .* has a character that DynamoDB refuses"):
        check_names([Table("jobs", "id:S")], naming)
