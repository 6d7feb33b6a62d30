"""Definitions in other formats: import, export, cloudformation, terraform and policy."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

import click
import orjson

from penstock.cli.kit import groups
from penstock.cli.kit.databases import open_database
from penstock.cli.kit.exit_codes import FAILED
from penstock.cli.kit.options import db_option, dry_run_option, json_option, out_file_option, unused_db_option
from penstock.cli.kit.output import print_json, write_text
from penstock.cli.tables.options import (
    NamedTables,
    load_tables,
    naming_of,
    naming_options,
    only_option,
    optional_definitions_argument,
    parse_texts,
    tables_options,
)
from penstock.cli.tables.schema import failure_json, show_failures
from penstock.tables.definitions.definition import Table
from penstock.tables.formats import cloudformation as cloudformation_format
from penstock.tables.formats import terraform as terraform_format
from penstock.tables.formats.export import DEFAULT_FOLDER, ExportReport
from penstock.tables.formats.export import export as export_tables
from penstock.tables.formats.import_tables import (
    DEFAULT_OUT,
    Format,
    Imported,
    check_selection,
    files_of,
    read_tables,
    text_of,
    write_files,
)
from penstock.tables.iam_policy import COMMANDS, policy_text
from penstock.tables.iam_policy import policy as policy_document
from penstock.tables.plan.changes import count


@groups.command("import", exit_codes={FAILED: "a table is missing or could not be read"})
@db_option()
@click.argument("names", nargs=-1, metavar="[TABLE]...")
@click.option("--all", "every", is_flag=True, help="Every table.")
@click.option("--prefix", default="", metavar="TEXT", help="Every table whose name begins with this.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="Only tables that have this tag; repeatable.")
@click.option(
    "--as", "kind", type=click.Choice(tuple(DEFAULT_OUT)), default="python", show_default=True, help="The format."
)
@click.option("--out", metavar="PATH", help="The file, or for json the folder; - prints it. [tables.py, schemas, …]")
@click.option("--warm", is_flag=True, help="With warm throughput, which DynamoDB raises itself.")
@click.option("--force", is_flag=True, help="Overwrite files that exist.")
@json_option
def import_tables(
    target: str,
    names: tuple[str, ...],
    every: bool,
    prefix: str,
    tags: tuple[str, ...],
    kind: Format,
    out: str | None,
    warm: bool,
    force: bool,
    as_json: bool,
) -> None:
    """Read live tables into definitions: as Python, JSON, CloudFormation, or Terraform with import blocks.

    \b
    Examples:
      penstock tables import --all --db aws://us-east-1
      penstock tables import --prefix shop- --tag Team=blue --as terraform --db aws://us-east-1
      penstock tables import jobs orders --as json --out schemas --db http://127.0.0.1:8000

    Nothing in the database changes. A plan of what was imported says "Nothing to do". What Penstock does not manage
    (replicas, Kinesis destinations, Contributor Insights) is listed as not compared.
    """
    if not (names or every or prefix or tags):
        raise click.UsageError("Which tables? Name them, or give --prefix, --tag or --all.")
    wanted = parse_texts("--tag", tags)
    policy = shlex.join(["penstock", "tables", "policy", "--for", "import", *_name_words(names or (f"{prefix}*",))])
    with open_database(target) as db:
        found = read_tables(db, names, prefix=prefix, tags=wanted, warm=warm, policy=policy)
    check_selection(found, [f"--db {target}", *names, *([f"--prefix {prefix}"] if prefix else []), *tags])
    files: dict[Path, str] = {}
    step = text = ""
    if out == "-":
        text = text_of(found, kind)
    elif found.tables:
        path = Path(out or DEFAULT_OUT[kind])
        files, step = files_of(found, kind, path), _next_step(kind, path, target)
        write_files(files, force=force)
    if as_json:
        print_json(_import_form(found, list(files), step) | ({"text": text} if out == "-" else {}))
    else:
        click.echo(text, nl=False)
        _show_import(found, step, list(files))
    if found.failures or found.missing:
        raise click.exceptions.Exit(FAILED)


def _name_words(names: tuple[str, ...]) -> list[str]:
    return [word for name in names for word in ("--name", name)]


def _next_step(kind: Format, path: Path, target: str) -> str:
    """The complete command that continues."""
    if kind == "terraform":
        return f"{shlex.join(['cd', str(path.parent)])} && terraform init && terraform plan"
    source = f"{path.stem}:all" if kind == "python" else str(path)
    command = shlex.join(["penstock", "tables", "plan", source, "--db", target])
    moved = kind == "python" and path.parent != Path()
    return f"{shlex.join(['env', f'PYTHONPATH={path.parent}'])} {command}" if moved else command


def _import_form(found: Imported, files: list[Path], step: str) -> dict[str, object]:
    return {
        "tables": [table.name for table in found.tables],
        "written": [str(file) for file in files],
        "not_compared": {name: list(several) for name, several in found.not_compared.items()},
        "not_told": list(found.unsupported),
        "missing": list(found.missing),
        "failures": [failure_json(one) for one in found.failures],
        "next": step,
    }


def _tables_by_note(found: Imported) -> dict[str, list[str]]:
    """One line tells of all tables that have it: a right that is missing is missing for each of them."""
    notes: dict[str, list[str]] = {}
    for name, several in found.not_compared.items():
        for one in several:
            notes.setdefault(one, []).append(name)
    return notes


def _show_import(found: Imported, step: str, files: list[Path] | None = None) -> None:
    """On standard error, but for what was written: the text may be on standard output."""
    for file in files or ():
        click.echo(f"  {file}")
    for one, names in _tables_by_note(found).items():
        click.echo(f"Not compared: {', '.join(names)}: {one}", err=True)
    if found.unsupported:
        click.echo(f"Left out, because this endpoint does not tell: {', '.join(found.unsupported)}.", err=True)
    for name in found.missing:
        click.echo(f"missing {name}: there is no such table", err=True)
    show_failures(found.failures)
    if step:
        click.echo(f"Imported {count(len(found.tables), 'table')}. To compare them with the database:\n  {step}")


@groups.command("export", exit_codes={FAILED: "a table is missing or could not be read"})
@db_option()
@tables_options
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=DEFAULT_FOLDER,
    show_default=True,
    metavar="DIR",
    help="The folder.",
)
@click.option("--warm", is_flag=True, help="With warm throughput, which DynamoDB raises itself.")
@dry_run_option
@json_option
def export(named: NamedTables, target: str, out: Path, warm: bool, dry_run: bool, as_json: bool) -> None:
    """Write the definitions of live tables to a folder: {suffix}.json in AWS's own shape, and table-summary.txt.

    \b
    Examples:
      penstock tables export construction-expenses --db aws://us-east-1
      penstock tables apply infrastructure/schemas --db tables.db --env dev

    Nothing in the database changes. Two exports of the same table are the same bytes. A file is replaced as a whole,
    and never by what could not be read.
    """
    with open_database(target) as db:
        policy = named.policy_command("export")
        report = export_tables(db, named.tables, named.naming, out, warm=warm, dry_run=dry_run, policy=policy)
    if as_json:
        print_json(_export_form(report, dry_run))
    else:
        _show_export(report, out, dry_run)
    if not report.is_whole:
        raise click.exceptions.Exit(1)


def _export_form(report: ExportReport, dry_run: bool) -> dict[str, object]:
    return {
        "dry_run": dry_run,
        "written": [str(file) for file in report.written],
        "unchanged": [str(file) for file in report.unchanged],
        "missing": list(report.missing),
        "failures": [failure_json(one) for one in report.failures],
        "summary": None if report.summary is None else str(report.summary),
    }


def _show_export(report: ExportReport, folder: Path, dry_run: bool) -> None:
    for file in report.written:
        click.echo(f"  {file}")
    for name in report.missing:
        click.echo(f"missing {name}: there is no such table; its file is left as it is", err=True)
    show_failures(report.failures)
    if report.summary is None:
        click.echo("The summary is left as it is: not every table could be read.", err=True)
    deed = "would be written" if dry_run else "written"
    words = [f"{count(len(report.written), 'file')} {deed}", f"{len(report.unchanged)} unchanged"]
    words += [f"{len(report.missing)} missing"] if report.missing else []
    words += [f"{len(report.failures)} failed"] if report.failures else []
    click.echo(f"Exported to {folder}: {', '.join(words)}.")


@groups.command("cloudformation")
@unused_db_option
@tables_options
@out_file_option
@json_option
def cloudformation(named: NamedTables, out: Path | None, as_json: bool) -> None:
    """Write the tables as a CloudFormation template. No database is asked.

    \b
    Examples:
      penstock tables cloudformation construction-expenses --env staging
      penstock tables cloudformation infrastructure/schemas --out template.json
    """
    write_text(cloudformation_format.template_text(named.tables, named.naming), out, as_json=as_json)


@groups.command("terraform")
@unused_db_option
@tables_options
@out_file_option
@json_option
def terraform(named: NamedTables, out: Path | None, as_json: bool) -> None:
    """Write the tables as Terraform resources. No database is asked.

    \b
    Examples:
      penstock tables terraform construction-expenses --env staging
      penstock tables terraform infrastructure/schemas --out tables.tf
    """
    text = terraform_format.template_text(named.tables, named.naming)
    if as_json and out is None:  # a file always has Terraform's own syntax
        text = orjson.dumps({"file": "tables.tf", "text": text}).decode() + "\n"
    write_text(text, out, as_json=as_json)


@groups.command("policy")
@optional_definitions_argument
@unused_db_option
@naming_options
@only_option
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="NAME",
    help="A table by its full name, beside those of DEFINITIONS: what rekey, restore and load make; repeatable.",
)
@click.option(
    "--for",
    "commands",
    multiple=True,
    type=click.Choice(COMMANDS),
    default=("plan", "apply", "verify", "export"),
    show_default=True,
    help="A command that the policy allows; repeatable.",
)
@click.option("--region", metavar="NAME", help="The tables' region. [AWS_REGION, else any: *]")
@click.option("--account", default="*", show_default=True, metavar="ID", help="The tables' AWS account.")
@click.option("--partition", default="aws", show_default=True, metavar="NAME", help="aws, aws-cn, aws-us-gov.")
@out_file_option
@json_option
def policy(
    definitions: str | None,
    env: str | None,
    prefix: str | None,
    layout: str,
    only: tuple[str, ...],
    names: tuple[str, ...],
    commands: tuple[str, ...],
    region: str | None,
    account: str,
    partition: str,
    out: Path | None,
    as_json: bool,
) -> None:
    """Write the least IAM policy for commands and tables: these actions, on these tables, and nothing else.

    \b
    Examples:
      penstock tables policy construction-expenses --env staging --for plan --for apply
      penstock tables policy delphi --for export --account 123456789012 --out policy.json
      penstock tables policy --for rekey --name Embeddings --name Embeddings2
    """
    tables: tuple[Table, ...] = ()
    if definitions is None:
        if not names:
            raise click.UsageError("Give DEFINITIONS, or tables with --name.")
        naming = naming_of(prefix, env)
    else:
        named = load_tables(definitions, env=env, prefix=prefix, layout=layout, only=only)
        tables, naming = named.tables, named.naming
    region = region or os.environ.get("AWS_REGION") or "*"
    document = policy_document(
        commands, tables, naming, region=region, account=account, partition=partition, also=names
    )
    write_text(policy_text(document), out, as_json=as_json)
