"""A workflow's page: its steps as a waterfall, its children and dependencies as a graph, the event it waits for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from dashboard_world import World

import penstock
from penstock.jobs.model.state import State


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def test_steps_waits_and_children_of_a_workflow_are_shown_and_its_event_is_sent(world: World) -> None:
    app = penstock.App(world.db)

    @app.task()
    def ship(item: str) -> str:
        return f"parcel with {item}"

    @app.task()
    def order(ctx: penstock.JobContext, items: list[str]) -> str:
        ctx.step("charge", lambda: {"amount": 10 * len(items)})
        ctx.gather([ctx.enqueue(ship, item=item) for item in items])
        answer = ctx.wait_for("approval", timeout=timedelta(days=3))
        ctx.sleep(timedelta(days=1), name="cooling")
        return str(answer)

    job = order.enqueue(items=["desk", "chair"])
    penstock.Worker(app, burst=True, idle_seconds=0.05).run()
    page = world.page(f"/jobs/{job.id}")
    steps = page.partition('id="h-steps"')[2].partition("</section>")[0]
    names = re.findall(r'<tr data-key="step-\w+-([^"]+)"', steps)
    assert names == ["charge", "gather:1", "wait_for:1"]
    assert (
        "&#34;amount&#34;: 20" in steps
        and "<small>a gather of 2 children</small>" in steps
        and "parcel with desk" in steps
    )
    assert steps.count(">waits<") == 1 and "until" in steps
    graph = page.partition('id="h-related"')[2].partition("</section>")[0]
    children = [child.id for child in app.children(job.id)]
    assert all(f'<a href="/jobs/{child}"' in graph for child in children) and graph.count("has the child") == 2
    assert "is a child of" in world.page(f"/jobs/{children[0]}")
    assert "Send approval…" in page and f'<code class="command">penstock jobs send {job.id} approval</code>' in page
    preview = world.post("/jobs/preview", [("verb", "event"), ("job", job.id)]).text
    assert 'name="event" type="text" value="approval"' in preview and "waits for this event" in preview
    sent = [("verb", "event"), ("event", "approval"), ("data", '"yes"'), ("seen", f"queued {job.id}")]
    assert "1 of 1 done" in world.post("/jobs/apply", sent).text
    penstock.Worker(app, burst=True, idle_seconds=0.05).run()
    page = world.page(f"/jobs/{job.id}")
    assert "sleep=cooling" in page and "waiting" in page and world.store.get(job.id).state is State.QUEUED


def test_dependencies_are_followed_two_jobs_up_and_two_down(world: World) -> None:
    chain = [world.made("first")]
    for name in ("second", "third", "fourth", "fifth", "sixth"):
        chain.append(world.made(name, depends_on=(chain[-1].id,)))
    page = world.page(f"/jobs/{chain[2].id}")
    linked = re.findall(r'<a href="/jobs/(\w+)" class="to"', page)
    assert linked == [chain[place].id for place in (1, 0, 3, 4)]
    assert chain[5].id not in page
    assert page.count("depends on") == 1 and page.count("is waited for by") == 1 and "needs, further up" in page


def test_a_job_with_a_thousand_that_wait_for_it_shows_some_and_says_so(world: World) -> None:
    parent = world.made("parent")
    for _ in range(15):
        world.made("child", depends_on=(parent.id,))
    page = world.page(f"/jobs/{parent.id}")
    assert page.count('class="to"') == 12 and "There are more than are shown." in page


def test_html_in_the_name_of_a_related_job_is_text(world: World) -> None:
    evil = "<img src=x onerror=alert(1)>\"'&"
    parent = world.made(evil)
    page = world.page(f"/jobs/{world.made('child', depends_on=(parent.id,)).id}")
    assert "<img src=x" not in page and "&lt;img src=x" in page
