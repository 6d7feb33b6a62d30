"""Many clients and many threads on one database."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

import penstock

TABLE = {
    "TableName": "jobs",
    "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
    "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
    "BillingMode": "PAY_PER_REQUEST",
}


def count_to(client, times):
    for _ in range(times):
        client.update_item(
            TableName="jobs",
            Key={"id": {"S": "1"}},
            UpdateExpression="ADD tries :one",
            ExpressionAttributeValues={":one": {"N": "1"}},
        )


def tries(client):
    return client.get_item(TableName="jobs", Key={"id": {"S": "1"}})["Item"]["tries"]["N"]


@pytest.mark.parametrize("path", [":memory:", "jobs.db"])
def test_threads_share_a_client(tmp_path, path):
    client = penstock.boto3_client(path if path == ":memory:" else tmp_path / path)
    client.create_table(**TABLE)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: count_to(client, 25), range(8)))
    assert tries(client) == "200"
    client.close()


def test_clients_made_of_one_database_share_it():
    with penstock.connect() as db:
        one, other = penstock.boto3_client(db), penstock.boto3_client(db)
        one.create_table(**TABLE)
        assert other.list_tables()["TableNames"] == ["jobs"]
        one.close()  # the database is not the client's to close
        assert other.list_tables()["TableNames"] == ["jobs"]


def test_two_clients_on_one_file_see_each_others_writes(tmp_path):
    one, other = penstock.boto3_client(tmp_path / "jobs.db"), penstock.boto3_client(tmp_path / "jobs.db")
    one.create_table(**TABLE)
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda client: count_to(client, 50), (one, other)))
    assert tries(one) == tries(other) == "100"
    one.close()
    assert tries(other) == "100"
    other.close()


def test_clients_can_be_made_in_many_threads():
    with penstock.connect() as db, ThreadPoolExecutor(4) as pool:
        clients = list(pool.map(lambda _: penstock.boto3_client(db), range(8)))
        assert all(client.list_tables()["TableNames"] == [] for client in clients)


def test_a_client_closes_what_it_opened(tmp_path):
    client = penstock.boto3_client(tmp_path / "jobs.db")
    client.close()
    with pytest.raises(penstock.PenstockError, match="closed"):
        client.list_tables()
