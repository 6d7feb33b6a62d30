"""Which agents a command's jobs get: those that ship, a function's (`--agents`), or a language model (`--model`)."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from penstock.extras import require
from penstock.systems.security_assistant.drawing.agents import Agents, load_agents
from penstock.systems.security_assistant.language_model.agents import MODEL_STAGES, model_agents
from penstock.systems.security_assistant.language_model.endpoint import (
    KEY_VARIABLE,
    URL_VARIABLE,
    Budget,
    ModelSettings,
)

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--agents", metavar="MODULE:NAME", help="A function that returns the agents to use instead of those that ship."
    ),
    click.option(
        "--model",
        metavar="NAME",
        help=f"Use this language model as the agents. {KEY_VARIABLE} in the environment is its key.",
    ),
    click.option(
        "--model-url",
        metavar="URL",
        help=f"The OpenAI-compatible endpoint of the model. Also {URL_VARIABLE}.  [https://api.openai.com/v1]",
    ),
    click.option(
        "--model-stages",
        metavar="NAMES",
        default=",".join(MODEL_STAGES),
        show_default=True,
        help="The stages that use the model.",
    ),
    click.option(
        "--model-images/--no-model-images", default=True, help="Send images of the pages, not only their text."
    ),
    click.option(
        "--model-tokens", type=click.IntRange(1), metavar="N", help="Budget: maximum number of tokens of this command."
    ),
    click.option(
        "--model-requests",
        type=click.IntRange(1),
        metavar="N",
        help="Budget: maximum number of requests of this command.",
    ),
)


def agents_options(command: Command) -> Command:
    """The options; the command is given `agents`, a function that makes them (it raises before anything is begun)."""

    @functools.wraps(command)
    def call(
        *args: Any,
        agents: str | None,
        model: str | None,
        model_url: str | None,
        model_stages: str,
        model_images: bool,
        model_tokens: int | None,
        model_requests: int | None,
        **others: Any,
    ) -> Any:
        if agents and model:
            raise click.UsageError("Give --agents or --model: either makes the agents.")
        made: Agents | None = load_agents(agents) if agents else None
        if model:
            modules = ["httpx", "pydantic", *(["pypdfium2"] if model_images else [])]
            require(*modules, extra="models", what="A language model")
            settings = ModelSettings.from_environment(os.environ, url=model_url, model=model)
            stages = [stage.strip() for stage in model_stages.split(",") if stage.strip()]
            budget = Budget(tokens=model_tokens, requests=model_requests)
            made = model_agents(settings, budget=budget, stages=stages, images=model_images)
        return command(*args, agents=made, **others)

    wrapped: Any = call
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    result: Command = wrapped
    return result
