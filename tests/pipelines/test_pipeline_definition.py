"""What cannot run is refused before anything does, with all that is wrong; and every job has an id."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pipeline_samples import words_pipeline

from penstock.errors import PenstockError
from penstock.files import BadKey
from penstock.jobs.model.job import BadJob, NewJob
from penstock.jobs.model.json_text import NotJson, to_json
from penstock.jobs.store.store import JobStore
from penstock.pipelines import BadPipeline, JobIdRequired, Pipeline, StepContext, lineage, outputs, required_job_id
from penstock.pipelines.definition import sorted_by_need
from penstock.pipelines.rounds import Ledger
from penstock.pipelines.values import value_hash


def plain(context: StepContext, **inputs: Any) -> Any:
    return None


def test_steps_run_in_the_order_of_their_needs_and_else_as_declared() -> None:
    pipeline = Pipeline("order", inputs=("a",))
    pipeline.step(inputs=("d",), outputs=("e",), name="last")(plain)
    pipeline.step(inputs=("a",), outputs=("c",), name="second")(plain)
    pipeline.step(inputs=("a",), outputs=("b",), name="third")(plain)
    pipeline.step(inputs=("b", "c"), outputs=("d",), name="fourth")(plain)
    assert [step.name for step in pipeline.steps] == ["second", "third", "fourth", "last"]


def test_all_that_is_wrong_is_told_at_once(store: JobStore) -> None:
    pipeline = Pipeline("wrong", inputs=("text", "unused"), parameters={"seed": 1})
    pipeline.step(inputs=("text", "nothing"), outputs=("one",), name="a")(plain)
    pipeline.step(inputs=("text",), outputs=("one", "text"), name="a")(plain)
    pipeline.step(inputs=("y",), outputs=("x",), name="round")(plain)
    pipeline.step(inputs=("x",), outputs=("y",), name="and round")(plain)
    pipeline.step(inputs=("text", "text"), outputs=("z",), name="..", version=0)(plain)
    pipeline.step(inputs=("seed",), name="inputs")(lambda context: None)
    with pytest.raises(BadPipeline) as told:
        pipeline.run(store, job_id="j1")
    problems = "\n".join(told.value.problems)
    for expected in (
        "two steps are called 'a'",
        "'one' is made by the step 'a' and the step 'a'",
        "'text' is made by the pipeline's inputs and the step 'a'",
        "the step 'a' needs 'nothing', which no step makes and is no input",
        "no step uses the pipeline's input 'unused'",
        "these steps wait for each other: round, and round",
        "nor be . or ..: '..'",
        "has the version 0",
        "names the input 'text' twice",
        "no step may be called 'inputs'",
        "the step 'inputs' is called as inputs(context, seed), but is inputs(context)",
    ):
        assert expected in problems, expected
    assert not store.find().jobs  # nothing was written


@pytest.mark.parametrize("name", ["..", "a/b", "a#b", "", "a\\b", "nul", "x.", "a:b", "\ud800", "s" * 130])
def test_names_that_could_not_be_part_of_a_path_are_refused(name: str) -> None:
    pipeline = Pipeline("names")
    pipeline.step(outputs=("one",), name=name or "ok")(plain)
    pipeline.step(outputs=(name,), name="other")(plain)
    if name == "s" * 130:
        with pytest.raises(BadPipeline, match="more than 120 bytes"):
            pipeline.check()
        return
    with pytest.raises(BadPipeline):
        pipeline.check()


def test_names_may_be_in_any_script(store: JobStore) -> None:
    pipeline = Pipeline("größe")

    @pipeline.step(outputs=("длина",), name="測る")
    def measure(context: StepContext) -> Any:
        return context.save("длина.txt", b"7")

    report = pipeline.run(store, job_id="größe_測る")
    assert report["длина"].key == "größe_測る/測る/длина.txt"
    assert pipeline.run(store, job_id="größe_測る").reused == ("測る",)
    assert lineage(store, "größe_測る")["длина"].step == "測る"


@pytest.mark.parametrize("name", ["../up", "/etc/passwd", "a/../../b", "..", "a\\b"])
def test_a_file_outside_of_its_step_cannot_be_saved(store: JobStore, name: str) -> None:
    pipeline = Pipeline("outside")
    pipeline.step(outputs=("out",), name="write")(lambda context: context.save(name, b"x"))
    with pytest.raises(BadKey):
        pipeline.run(store, job_id="j1")


def test_a_coroutine_or_a_generator_is_no_step() -> None:
    pipeline = Pipeline("kinds")

    @pipeline.step(outputs=("one",))
    async def later(context: StepContext) -> int:
        return 1

    @pipeline.step(outputs=("two",))
    def pieces(context: StepContext) -> Any:
        yield 1

    with pytest.raises(BadPipeline) as told:
        pipeline.check()
    assert len(told.value.problems) == 2


def test_a_pipeline_without_steps_is_none() -> None:
    with pytest.raises(BadPipeline, match="it has no step"):
        Pipeline("empty").check()


# ── job ids ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("job_id", [None, ""])
def test_S3_4_a_job_id_is_required_everywhere(store: JobStore, job_id: str | None) -> None:
    for call in (
        lambda: words_pipeline().pipeline.run(store, job_id=job_id, inputs={"text": "a"}),
        lambda: lineage(store, job_id),
        lambda: outputs(store, job_id),
        lambda: required_job_id(job_id),
        lambda: StepContext(job_id or "", "step", Ledger(store, []), fingerprint=""),
    ):
        with pytest.raises(JobIdRequired, match=r"^job_id parameter is required$"):
            call()
    assert not store.find().jobs


def test_S3_6_the_job_id_is_the_environments_or_new(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = Pipeline("delphi", job_id_variable="DELPHI_JOB_ID", job_id_prefix="pipeline_run_")
    monkeypatch.delenv("DELPHI_JOB_ID", raising=False)
    made = pipeline.new_job_id()
    assert re.fullmatch(r"pipeline_run_[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", made)
    assert pipeline.new_job_id() != made
    monkeypatch.setenv("DELPHI_JOB_ID", "job-7")
    assert pipeline.new_job_id() == "job-7"
    monkeypatch.setenv("DELPHI_JOB_ID", " ")
    with pytest.raises(JobIdRequired, match="DELPHI_JOB_ID is set, but empty"):
        pipeline.new_job_id()


@pytest.mark.parametrize("job_id", ["..", "a/b", "a#b", "x" * 300, "settings", "a:b", "job~2", "a\x00"])
def test_a_job_id_that_no_job_can_have_is_refused(store: JobStore, job_id: str) -> None:
    with pytest.raises(PenstockError):
        words_pipeline().pipeline.run(store, job_id=job_id, inputs={"text": "a"})
    assert not store.find().jobs


def test_the_id_of_another_job_is_refused(store: JobStore) -> None:
    store.create(NewJob("report", {}, id="j1"))
    with pytest.raises(BadJob, match="j1 is no job of the pipeline words"):
        words_pipeline().pipeline.run(store, job_id="j1", inputs={"text": "a"})


# ── inputs and outputs ───────────────────────────────────────────────────────────────────────────


def test_inputs_that_do_not_fit_are_all_told(store: JobStore) -> None:
    pipeline = Pipeline("fit", inputs=("one", "two"))
    pipeline.step(inputs=("one", "two"), name="use")(plain)
    with pytest.raises(BadPipeline) as told:
        pipeline.run(store, job_id="j1", inputs={"three": 3, "two": 2})
    assert told.value.problems == (
        "'three' is no input of it: it takes one, two",
        "its input 'one' is missing: give inputs={'one': …}",
    )


def test_what_is_not_json_is_refused_with_its_path(store: JobStore) -> None:
    with pytest.raises(NotJson, match=r"^inputs\.text\.when\[1\] is a object") as told:
        words_pipeline().pipeline.run(store, job_id="j1", inputs={"text": {"when": [1, object()]}})
    assert told.value.path == "inputs.text.when[1]"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [float("nan")]}, r"write\.out\.a\[0\] is nan"),
        (b"bytes", r"write\.out is bytes: return context\.save"),
        ((number for number in range(3)), r"write\.out is a generator"),
        ({1: 2}, r"write\.out has the key 1"),
        ("\ud800", r"write\.out holds half a surrogate pair"),
    ],
)
def test_an_output_that_is_not_json_fails_its_step_with_the_path(store: JobStore, value: Any, message: str) -> None:
    pipeline = Pipeline("outputs")
    pipeline.step(outputs=("out",), name="write")(lambda context: value)
    with pytest.raises(NotJson, match=message):
        pipeline.run(store, job_id="j1")


@pytest.mark.parametrize(
    ("outputs", "value", "message"),
    [
        (("a", "b"), 1, "returns a dict of a, b, but returned a int"),
        (("a", "b"), {"a": 1, "c": 2}, r"returned the keys \['a', 'c'\]"),
        ((), 1, "returned a int, and has no outputs declared"),
    ],
)
def test_a_step_returns_what_it_declared(store: JobStore, outputs: tuple[str, ...], value: Any, message: str) -> None:
    pipeline = Pipeline("outputs")
    pipeline.step(outputs=outputs, name="write")(lambda context: value)
    with pytest.raises(BadPipeline, match=message):
        pipeline.run(store, job_id="j1")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("xyz", max_size=2), inner, max_size=3),
    max_leaves=8,
)


@given(JSON)
def test_a_hash_does_not_depend_on_the_order_of_keys(value: Any) -> None:
    """values.py, 1"""
    assert value_hash(to_json(value, "v")) == value_hash(to_json(turned_round(value), "v"))


def turned_round(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: turned_round(member) for key, member in reversed(value.items())}
    return [turned_round(member) for member in value] if isinstance(value, list) else value


def test_one_and_one_point_nought_and_true_are_three_values() -> None:
    """values.py, 1"""
    assert len({value_hash(text) for text in ("1", "1.0", "true", '"1"')}) == 4


@given(st.lists(st.tuples(st.sets(st.sampled_from("abcdef")), st.sets(st.sampled_from("abcdef"))), max_size=6))
def test_every_step_comes_after_those_it_needs(steps: list[tuple[set[str], set[str]]]) -> None:
    ordered, left = sorted_by_need([(place, *step) for place, step in enumerate(steps)])
    assert sorted(ordered + left) == list(range(len(steps)))
    for position, place in enumerate(ordered):
        later = ordered[position:] + left
        assert not any(steps[place][0] & steps[other][1] for other in later)
    for place in left:  # each waits for one of them
        assert any(steps[place][0] & steps[other][1] for other in left)
