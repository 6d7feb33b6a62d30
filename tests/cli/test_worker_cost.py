"""What `penstock worker` says of the cost of waiting."""

from __future__ import annotations

from penstock.cli.jobs.worker import idle_cost_text
from penstock.client.transports.base import Capabilities


def test_a_worker_that_nothing_wakes_says_what_its_polls_cost() -> None:
    text = "While idle it polls every 2 s (--idle): 2.5 read units a second."
    assert idle_cost_text(Capabilities(), 5.0, 2.0) == text


def test_a_worker_whose_polls_are_free_or_that_writes_wake_says_nothing() -> None:
    assert idle_cost_text(Capabilities(metered=False), 5.0, 2.0) == ""
    assert idle_cost_text(Capabilities(tells_changes=True), 5.0, 2.0) == ""
