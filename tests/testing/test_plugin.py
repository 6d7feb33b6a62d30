"""The pytest plugin, used as someone who has just installed Penstock uses it."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]


def passes(pytester: pytest.Pytester, source: str, count: int = 1) -> None:
    pytester.makepyfile(source)
    pytester.runpytest("-p", "no:cacheprovider").assert_outcomes(passed=count)


def test_each_test_has_a_fresh_database(pytester):
    passes(
        pytester,
        """
        import pytest

        TABLE = {
            "TableName": "jobs",
            "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
            "BillingMode": "PAY_PER_REQUEST",
        }

        @pytest.mark.parametrize("run", [1, 2])
        def test_fresh(penstock_db, run):
            assert penstock_db.execute("ListTables") == {"TableNames": []}
            penstock_db.execute("CreateTable", TABLE)
        """,
        count=2,
    )


def test_the_fixtures_of_one_test_share_its_database(pytester):
    passes(
        pytester,
        """
        import boto3

        def test_shared(penstock_db, dynamodb, dynamodb_resource, dynamodb_streams, penstock_server):
            dynamodb_resource.create_table(
                TableName="jobs",
                KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
                BillingMode="PAY_PER_REQUEST",
            )
            over_http = boto3.session.Session().client(
                "dynamodb", endpoint_url=penstock_server, region_name="us-east-1",
                aws_access_key_id="a", aws_secret_access_key="b",
            )
            assert penstock_db.execute("ListTables") == {"TableNames": ["jobs"]}
            assert dynamodb.list_tables()["TableNames"] == ["jobs"]
            assert over_http.list_tables()["TableNames"] == ["jobs"]
            assert dynamodb_streams.list_streams()["Streams"] == []
        """,
    )


def test_the_clock_can_be_moved(pytester):
    passes(
        pytester,
        """
        import time

        def test_moved(penstock_clock, dynamodb):
            def made(name):
                table = dynamodb.create_table(
                    TableName=name,
                    KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
                    AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
                    BillingMode="PAY_PER_REQUEST",
                )
                return table["TableDescription"]["CreationDateTime"].timestamp()

            assert abs(made("before") - time.time()) < 60
            penstock_clock.advance(86_400)
            assert 86_300 < made("after") - time.time() < 86_500
        """,
    )


def test_what_expires_is_gone_when_the_clock_has_moved(pytester):
    passes(
        pytester,
        """
        import time

        def test_expired(penstock_clock, dynamodb):
            dynamodb.create_table(
                TableName="jobs",
                KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
                BillingMode="PAY_PER_REQUEST",
            )
            dynamodb.update_time_to_live(
                TableName="jobs", TimeToLiveSpecification={"Enabled": True, "AttributeName": "ends"}
            )
            in_an_hour = {"N": str(int(time.time()) + 3600)}
            dynamodb.put_item(TableName="jobs", Item={"id": {"S": "1"}, "ends": in_an_hour})
            assert dynamodb.scan(TableName="jobs")["Count"] == 1
            penstock_clock.advance(7200)
            assert dynamodb.scan(TableName="jobs")["Count"] == 0
        """,
    )


def test_a_fixture_of_the_users_own_of_the_same_name_wins(pytester):
    passes(
        pytester,
        """
        import pytest

        @pytest.fixture
        def dynamodb():
            return "mine"

        def test_mine(dynamodb):
            assert dynamodb == "mine"
        """,
    )


def test_a_run_that_uses_no_fixture_of_ours_loads_nothing(pytester):
    pytester.makepyfile(
        """
        import sys

        def test_nothing():
            heavy = {"boto3", "penstock.engine", "penstock.client", "penstock.server"}
            assert not heavy & set(sys.modules)
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)


def test_each_fixture_says_what_it_is(pytester):
    listing = pytester.runpytest("--fixtures", "-p", "no:cacheprovider")
    listing.stdout.fnmatch_lines_random(
        [
            "penstock_clock*",
            "penstock_db*",
            "dynamodb *",
            "dynamodb_resource*",
            "dynamodb_streams*",
            "penstock_server*",
        ]
    )


def test_a_job_due_in_a_month_is_tested_by_the_clock(pytester):
    passes(
        pytester,
        """
        from datetime import UTC, datetime, timedelta

        import penstock

        app = penstock.App("http://127.0.0.1:1")

        @app.task()
        def remind(user: str) -> str:
            return f"mail to {user}"

        def test_remind(job_app):
            jobs = job_app(app, now=datetime(2026, 1, 1, tzinfo=UTC))
            job = remind.options(delay=timedelta(days=30)).enqueue(user="ada")
            assert jobs.run_until_idle() == []
            jobs.clock.advance(days=30)
            jobs.run_until_idle()
            assert remind.result(job) == "mail to ada"

        def test_new_app(job_app):
            jobs = job_app()

            @jobs.app.task()
            def add(a: int, b: int) -> int:
                return a + b

            assert jobs.run(add, 1, b=2) == 3
        """,
        count=2,
    )
