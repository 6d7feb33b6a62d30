"""S1.8 and S1.14: names."""

from __future__ import annotations

import pytest

from penstock.tables.definitions.definition import Table
from penstock.tables.definitions.naming import Naming, check_names
from penstock.tables.definitions.problems import DefinitionError


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, "construction-expenses-companies"),
        ({"ENVIRONMENT": "production"}, "construction-expenses-companies"),
        ({"ENVIRONMENT": "staging"}, "construction-expenses-staging-companies"),
        ({"ENVIRONMENT": "dev"}, "construction-expenses-dev-companies"),
        ({"ENVIRONMENT": "dev", "TABLE_PREFIX": "my-app"}, "my-app-dev-companies"),
        ({"TABLE_PREFIX": "my-app"}, "my-app-companies"),
        ({"ENVIRONMENT": "", "TABLE_PREFIX": ""}, "construction-expenses-companies"),
    ],
)
def test_S1_8_names_by_prefix_and_environment(variables: dict[str, str], name: str) -> None:
    naming = Naming.of(variables)
    assert naming.full_name("companies") == name
    assert naming.suffix(name) == "companies"


def test_S1_14_defaults() -> None:
    assert Naming.of({}) == Naming("construction-expenses", "production", "us-east-1")
    assert Naming.of({"AWS_REGION": "us-west-2"}).region == "us-west-2"


def test_what_is_said_goes_before_variables() -> None:
    naming = Naming.of({"ENVIRONMENT": "dev", "TABLE_PREFIX": "x"}, prefix="", environment="staging")
    assert naming.full_name("Users") == "staging-Users"
    assert Naming.of({}, default_prefix="").full_name("Users") == "Users"


def test_a_table_of_another_environment_has_no_suffix_here() -> None:
    naming = Naming.of({"ENVIRONMENT": "staging"})
    assert naming.suffix("construction-expenses-companies") is None
    assert naming.suffix("construction-expenses-staging-") is None


def test_a_full_name_that_is_too_long_is_refused_with_all_others() -> None:
    long = [Table("x" * 250, "id:S"), Table("y" * 250, "id:S"), Table("z", "id:S")]
    with pytest.raises(DefinitionError) as caught:
        check_names(long, Naming())
    assert [one.place for one in caught.value.problems] == [f"table '{'x' * 250}'", f"table '{'y' * 250}'"]
    with pytest.raises(DefinitionError, match="has 1 characters"):
        check_names([Table("z", "id:S")], Naming(prefix=""))


def test_new_tables_are_tagged_with_where_and_when() -> None:
    assert Naming("shop", "dev").tags("2025-06-16T21:19:33.789Z") == {
        "Application": "shop",
        "CreatedAt": "2025-06-16T21:19:33.789Z",
        "Environment": "dev",
        "ManagedBy": "penstock",
    }
