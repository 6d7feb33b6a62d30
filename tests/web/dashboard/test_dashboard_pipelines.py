"""The pages about runs of pipelines: their steps, what was reused, what came from what, and pictures."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from dashboard_world import World

from penstock.files import SavedFile
from penstock.jobs.context import Attempt, JobContext
from penstock.jobs.model.job import NewJob
from penstock.pipelines import Lineage, Origin, Pipeline, StepContext
from penstock.web.dashboard.charts import lineage_chart
from penstock.web.dashboard.pages.pipelines import SVG_POLICY, base_id, picture_type, round_of, topics_of

EVIL = "<script>alert(1)</script>"
PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 20
PICTURE = f"<svg xmlns='http://www.w3.org/2000/svg'>{EVIL}</svg>".encode()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    found = World(tmp_path)
    yield found
    found.close()


def words(*, fails: bool = False) -> Pipeline:
    pipeline = Pipeline("words", inputs=("text",), parameters={"longest": 2})

    @pipeline.step(inputs=("text",), outputs=("words",))
    def split(context: StepContext, text: str) -> list[str]:
        return text.split()

    @pipeline.step(inputs=("words", "longest"), outputs=("names", "svg", "png"))
    def draw(context: StepContext, words: list[str], longest: int) -> dict[str, object]:
        if fails:
            raise ValueError("no ink")
        names = {"names": {f"0_{number}": word for number, word in enumerate(words[:longest])}}
        return {"names": names, "svg": context.save("map.svg", PICTURE), "png": context.save("map.png", PNG)}

    return pipeline


def test_without_runs_it_says_how_to_make_one(world: World) -> None:
    world.made("something-else")
    assert "No pipeline has run here yet" in world.page("/pipelines")


def test_the_list_has_the_runs_and_no_other_jobs(world: World) -> None:
    other = world.completed("something-else")
    words().run(world.store, job_id="words_1", inputs={"text": "so much depends"})
    words().run(world.store, job_id="words_1", inputs={"text": "upon a red"})
    page = world.page("/pipelines")
    assert re.findall(r'href="/pipelines/([^"]+)"', page) == ["words_1"]
    assert '<td data-label="Round" class="n">2</td>' in page  # its second round
    assert other.id not in page


def test_a_run_behind_many_other_jobs_is_found_at_once(world: World) -> None:
    words().run(world.store, job_id="words_1", inputs={"text": "so much depends"})
    world.store.create_all([NewJob("other", {}) for _ in range(450)])
    assert 'href="/pipelines/words_1"' in world.page("/pipelines")
    world.store.create_all([NewJob("other", {}) for _ in range(700)])
    assert "None of the 1,000 jobs looked at is a run" in world.page("/pipelines")


def test_a_task_that_carries_a_pipeline_is_found_by_its_checkpoints(world: World) -> None:
    job = world.running("poem")
    ctx = JobContext(Attempt(world.store, job))
    words().run_in(ctx, inputs={"text": "glazed with rain water"})
    assert f'href="/pipelines/{job.id}"' in world.page("/pipelines")
    assert "split" in world.page(f"/pipelines/{job.id}")


def test_a_run_shows_its_steps_and_what_was_reused(world: World) -> None:
    words().run(world.store, job_id="words_1", inputs={"text": "so much depends"})
    page = world.page("/pipelines/words_1")
    assert "2 ran, 0 reused" in page
    assert "not done yet" not in page, "both steps are done"
    words().run(world.store, job_id="words_1", inputs={"longest": 1})
    page = world.page("/pipelines/words_1")
    assert "1 ran, 1 reused" in page
    assert "longest changed" in page
    assert "round 2" in page
    assert world.get("/pipelines/words_1~2", follow_redirects=False).headers["location"] == "/pipelines/words_1"


def test_a_step_that_failed_is_shown_and_what_came_before_it_is_kept(world: World) -> None:
    with pytest.raises(ValueError, match="no ink"):
        words(fails=True).run(world.store, job_id="words_1", inputs={"text": "so much"})
    page = world.page("/pipelines/words_1")
    assert "1 ran, 0 reused, 1 failed" in page
    assert page.count("ValueError: no ink") == 2, "above, and in the line of the step: why it failed"
    assert "not done yet" not in page
    drawing = page.partition('<svg class="lineage"')[2].partition("</svg>")[0]
    assert "node-failed" in drawing and "words: split → draw" in drawing and "longest: longest → draw" in drawing


def test_steps_that_a_failed_run_did_not_reach_are_pending(world: World) -> None:
    pipeline = Pipeline("chain", inputs=("text",))

    @pipeline.step(inputs=("text",), outputs=("words",))
    def split(context: StepContext, text: str) -> list[str]:
        raise ValueError(text)

    @pipeline.step(inputs=("words",), outputs=("number",))
    def count(context: StepContext, words: list[str]) -> int:
        return len(words)

    @pipeline.step(inputs=("number", "text"), outputs=("report",))
    def write(context: StepContext, number: int, text: str) -> str:
        return f"{number} words"

    with pytest.raises(ValueError, match="so much"):
        pipeline.run(world.store, job_id="chain_1", inputs={"text": "so much"})
    page = world.page("/pipelines/chain_1")
    assert "0 ran, 0 reused, 1 failed, 2 pending" in page
    drawing = page.partition('<svg class="lineage"')[2].partition("</svg>")[0]
    assert drawing.count("node-pending") == 2 and "number: count → write" in drawing
    places = {name: float(x) for x, name in re.findall(r'<text x="([\d.]+)" y="[\d.]+">([^<]+)</text>', drawing)}
    assert places["text"] < places["split"] < places["count"] < places["write"]


def test_an_open_page_is_told_of_steps_as_they_run(world: World) -> None:
    job = world.running("poem")
    ctx = JobContext(Attempt(world.store, job))
    ctx.progress(10, step="split", message="begins: not done yet")
    feed = world.app.state.poller.feeds["pipeline"]
    told = feed.poll([job.id, "nope", EVIL])
    assert list(told) == [job.id]
    assert "1 running" in told[job.id][0].data


def test_lineage_is_drawn_from_left_to_right(world: World) -> None:
    words().run(world.store, job_id="words_1", inputs={"text": "so much depends"})
    page = world.page("/pipelines/words_1")
    drawing = page.partition('<svg class="lineage"')[2].partition("</svg>")[0]
    assert 'class="node node-ran"' in drawing
    places = {name: float(x) for x, name in re.findall(r'<text x="([\d.]+)" y="[\d.]+">([^<]+)</text>', drawing)}
    assert places["text"] < places["split"] < places["draw"]
    assert places["longest"] < places["draw"]
    assert "words: split → draw" in drawing


def test_a_drawing_of_steps_that_need_each_other_ends() -> None:
    made = Lineage(
        "j",
        (
            Origin("a", "1", 1, step="one", inputs={"b": "2"}),
            Origin("b", "2", 1, step="two", inputs={"a": "1"}),
        ),
    )
    assert "one" in lineage_chart.draw_lineage(made, {})
    assert lineage_chart.draw_lineage(Lineage("j", ()), {}) == ""
    assert lineage_chart.draw_lineage(None, {}) == ""


def test_pictures_are_shown_as_images_and_can_run_nothing(world: World) -> None:
    words().run(world.store, job_id="words_1", inputs={"text": "so much depends"})
    page = world.page("/pipelines/words_1")
    assert re.findall(r'<img class="picture" src="([^"]+)"', page) == ["/pipelines/words_1/pictures/svg"]
    response = world.get("/pipelines/words_1/pictures/svg")
    assert response.content == PICTURE
    assert response.headers["content-type"] == "image/svg+xml"
    assert response.headers["content-security-policy"] == SVG_POLICY
    assert "sandbox" in SVG_POLICY and "script-src" not in SVG_POLICY
    assert response.headers["x-content-type-options"] == "nosniff"
    assert world.get("/pipelines/words_1/pictures/png").headers["content-type"] == "image/png"
    saved = world.get("/pipelines/words_1/files/svg")
    assert saved.headers["content-disposition"].startswith('attachment; filename="map.svg"')
    assert saved.headers["content-type"] == "application/octet-stream"


@pytest.mark.parametrize("name", ["words", "names", "nope", "..%2f..%2fetc", "<script>"])
def test_what_is_no_picture_is_not_shown(world: World, name: str) -> None:
    words().run(world.store, job_id="words_1", inputs={"text": "so much depends"})
    response = world.get(f"/pipelines/words_1/pictures/{name}")
    assert response.status_code == 404
    assert "<script>" not in response.text


def test_a_pictures_type_is_told_by_its_bytes() -> None:
    def named(key: str) -> SavedFile:
        return SavedFile(key, 1, "", "", "text/html")

    assert picture_type(named("a.png"), PNG) == "image/png"
    assert picture_type(named("a.png"), b"<html>") is None
    assert picture_type(named("a.svg"), b"<html><script>") is None
    assert picture_type(named("a.png"), b"<svg>") is None
    assert picture_type(named("a.webp"), b"RIFF0000WEBP") == "image/webp"


def test_topics_are_listed_by_name(world: World) -> None:
    words().run(world.store, job_id="words_1", inputs={"text": f"{EVIL} much"})
    page = world.page("/pipelines/words_1")
    assert "2 topics" in page and "0_1" in page
    assert EVIL not in page and "&lt;script&gt;" in page
    assert topics_of({"names": {"a": 1}}) == [] == topics_of(["names"])


def test_a_file_that_is_gone_is_no_trouble_of_the_databases(world: World, tmp_path: Path) -> None:
    words().run(world.store, job_id="words_1", inputs={"text": "so much depends"})
    for path in (tmp_path / "files").rglob("map.svg"):
        path.unlink()
    for part in ("pictures", "files"):
        assert world.get(f"/pipelines/words_1/{part}/svg").status_code == 404
    assert "2 ran" in world.page("/pipelines/words_1")


def test_an_unknown_run_is_not_found(world: World) -> None:
    for name in ("nope", "%00", "x" * 3000, "ü", "nope/pictures/a", "nope/files/a"):
        assert world.get(f"/pipelines/{name}").status_code == 404


def test_a_job_that_is_no_pipeline_says_so_without_breaking(world: World) -> None:
    job = world.running("report")
    job = world.store.report(job, checkpoint="inputs", value=["not", "a", "pipeline's"])
    job = world.store.report(job, checkpoint="step one", value="neither")
    assert job.id not in world.page("/pipelines")
    assert "No step has begun" in world.page(f"/pipelines/{job.id}")
    for path in (f"{job.id}/files/a", f"{job.id}/pictures/a", "settings", "queue%23default"):
        assert world.get(f"/pipelines/{path}").status_code == 404


def test_a_database_that_goes_away_is_told_of(world: World) -> None:
    words().run(world.store, job_id="words_1", inputs={"text": "so much depends"})
    world.page("/pipelines/words_1")
    world.switch.away = True
    for path in ("/pipelines", "/pipelines/words_1", "/pipelines/words_1/pictures/svg"):
        assert world.get(path).status_code == 503
    world.switch.away = False
    assert "2 ran" in world.page("/pipelines/words_1")


def test_rounds_have_their_jobs_id() -> None:
    assert (base_id("a~12"), round_of("a~12")) == ("a", 12)
    assert (base_id("a~b"), round_of("a")) == ("a~b", 1)


def test_names_that_are_html_stay_text_in_the_drawing() -> None:
    made = Lineage("j", (Origin(EVIL, "1", 1), Origin(f"{EVIL}2", "2", 1, step=EVIL, inputs={EVIL: "1"})))
    assert "<script>" not in lineage_chart.draw_lineage(made, {EVIL: EVIL})
