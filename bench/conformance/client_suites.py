"""The tests of client libraries, run against `penstock serve` on a free port.

A suite is a checkout that you have; `SUITES` says where it comes from and how it is made ready. Each failure that is
known has its reason here. A failure without one is printed as new, and the exit code is 1.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from xml.etree import ElementTree

from bench.servers import penstock, running

LIMIT_SECONDS = 3000
Outcome = tuple[str, str]
"""A test's name, and "passed", "failed" or "skipped"."""


@dataclass(frozen=True)
class Suite:
    """How one suite is fetched, made ready and run. {url}, {port} and {report} stand for what is known at its start."""

    name: str
    source: str
    ready: str
    command: tuple[str, ...]
    read: Callable[[Path], Iterator[Outcome]]
    settings: dict[str, str] = field(default_factory=dict)
    prepare: tuple[str, ...] = ()
    """A command that runs first, for example to make tables."""
    files: dict[str, str] = field(default_factory=dict)
    """Files that are written into the checkout: settings that turn off a DynamoDB of its own."""
    known: tuple[tuple[str, str], ...] = ()
    """Patterns of failing tests' names, each with the reason."""


# ── reports ───────────────────────────────────────────────────────────────────────────────────────


def read_jest(report: Path) -> Iterator[Outcome]:
    for file in json.loads(report.read_text())["testResults"]:
        if not file["assertionResults"] and file["status"] == "failed":
            yield Path(file["name"]).name, "failed"  # the file could not even be read
        for test in file["assertionResults"]:
            yield test["fullName"], test["status"] if test["status"] in ("passed", "failed") else "skipped"


def read_mocha(report: Path) -> Iterator[Outcome]:
    text = report.read_text()  # tests print too; the reporter's object is the last thing
    result = json.JSONDecoder().raw_decode(text, text.rindex('{\n  "stats": {'))[0]
    for kind, outcome in (("passes", "passed"), ("failures", "failed"), ("pending", "skipped")):
        for test in result[kind]:
            yield test["fullTitle"], outcome


def read_go(report: Path) -> Iterator[Outcome]:
    outcomes = {"pass": "passed", "fail": "failed", "skip": "skipped"}
    for line in report.read_text().splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("Test") and "/" not in event["Test"] and event["Action"] in outcomes:
            yield event["Test"], outcomes[event["Action"]]


def read_junit(report: Path) -> Iterator[Outcome]:
    """A file, or a folder of files: one for each class of tests."""
    for file in sorted(report.glob("TEST-*.xml")) if report.is_dir() else [report]:
        for test in ElementTree.parse(file).iter("testcase"):
            kinds = {part.tag for part in test}
            outcome = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
            yield f"{test.get('classname')}::{test.get('name')}", outcome


# ── suites ────────────────────────────────────────────────────────────────────────────────────────


_JEST = (
    "module.exports = {...require('./jest.config.js'), rootDir: __dirname, globalSetup: undefined, "
    "globalTeardown: undefined}\n"
)

# One of ElectroDB's tables defines attributes that no key uses, which DynamoDB refuses and DynamoDB Local takes.
_ELECTRODB = """
const fs = require("fs");
for (const name of fs.readdirSync("./test/definitions")) {
  const table = require("./test/definitions/" + name);
  const used = [table, ...(table.GlobalSecondaryIndexes || []), ...(table.LocalSecondaryIndexes || [])]
    .flatMap((part) => (part.KeySchema || []).map((key) => key.AttributeName));
  table.AttributeDefinitions = (table.AttributeDefinitions || []).filter((one) => used.includes(one.AttributeName));
}
require("./test/init.js");
"""

# pydynox starts LocalStack in a container; this stands in its place.
_LOCALSTACK = """import os


class LocalStackContainer:
    def __init__(self, *_, **__): ...

    def start(self): ...

    def stop(self): ...

    def with_services(self, *_): ...

    def get_url(self):
        return os.environ["SUITE_URL"]
"""

# The module's own pom builds the client and starts DynamoDB Local. This one takes the client as it was released, and
# compiles only the tests that talk to DynamoDB, with what they import.
_ENHANCED_POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>penstock</groupId><artifactId>suite</artifactId><version>1</version>
  <properties>
    <maven.compiler.source>8</maven.compiler.source>
    <maven.compiler.target>8</maven.compiler.target>
    <project.build.sourceEncoding>UTF-8</project.build.sourceEncoding>
  </properties>
  <dependencies>DEPENDENCIES</dependencies>
  <build>
    <directory>penstock-target</directory>
    <plugins>
      <plugin>
        <artifactId>maven-compiler-plugin</artifactId><version>3.14.1</version>
        <configuration>
          <skipMain>true</skipMain>
          <testIncludes><testInclude>**/functionaltests/**</testInclude></testIncludes>
        </configuration>
      </plugin>
      <plugin>
        <artifactId>maven-surefire-plugin</artifactId><version>3.1.2</version>
        <configuration>
          <includes><include>**/functionaltests/**/*Test*.java</include></includes>
          <reportsDirectory>${suite.report}</reportsDirectory>
        </configuration>
      </plugin>
    </plugins>
  </build>
</project>
""".replace(
    "DEPENDENCIES",
    "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>".format(
            *artifact.split(":")
        )
        for artifact in (
            "software.amazon.awssdk:dynamodb-enhanced:2.54.2",
            "org.junit.jupiter:junit-jupiter:5.10.3",
            "org.junit.vintage:junit-vintage-engine:5.10.3",
            "org.hamcrest:hamcrest-all:1.3",
            "org.assertj:assertj-core:3.20.2",
            "org.mockito:mockito-core:4.3.1",
            "com.google.guava:guava:29.0-jre",
            "com.fasterxml.jackson.core:jackson-databind:2.15.2",
            "org.apache.logging.log4j:log4j-slf4j-impl:2.17.1",
        )
    ),
)

# The tests' own starts DynamoDB Local in their process; this stands in its place.
_ENHANCED_TESTS = "src/test/java/software/amazon/awssdk/enhanced/dynamodb/functionaltests"
_ENHANCED_LOCAL = """package software.amazon.awssdk.enhanced.dynamodb.functionaltests;

import java.net.URI;
import software.amazon.awssdk.awscore.client.builder.AwsClientBuilder;
import software.amazon.awssdk.services.dynamodb.DynamoDbAsyncClient;
import software.amazon.awssdk.services.dynamodb.DynamoDbClient;

class LocalDynamoDb {
    void start() { }
    void stop() { }
    DynamoDbClient createClient() { return connected(DynamoDbClient.builder()); }
    DynamoDbAsyncClient createAsyncClient() { return connected(DynamoDbAsyncClient.builder()); }

    private static <B extends AwsClientBuilder<B, C>, C> C connected(B builder) {
        return builder.endpointOverride(URI.create(System.getenv("SUITE_URL"))).build();
    }
}
"""

SUITES = {
    suite.name: suite
    for suite in (
        Suite(
            "onetable",
            "https://github.com/sensedeep/dynamodb-onetable",
            "rm -f package-lock.json && npm install --ignore-scripts",
            (
                *("node_modules/.bin/jest", "-c", "jest.penstock.js", "--json", "--outputFile={report}"),
                *("--runInBand", "--testTimeout=60000"),  # five seconds are too few on a busy machine
            ),
            read_jest,
            {"DYNAMODB_PORT": "{port}", "PORT": "{port}"},
            files={"jest.penstock.js": _JEST},
        ),
        Suite(
            "electrodb",
            "https://github.com/tywalch/electrodb",
            "rm -f package-lock.json && npm install --ignore-scripts (sst and aws-cdk-lib are not needed)",
            (
                *("sh", "-c"),
                "node_modules/.bin/mocha -r ts-node/register --timeout 60000 --reporter json './test/**.spec.*' "
                "> {report}",
            ),
            read_mocha,
            {"LOCAL_DYNAMO_ENDPOINT": "{url}"},
            prepare=("node", "penstock.init.js"),
            files={"penstock.init.js": _ELECTRODB},
            known=(
                (
                    "trigger the setter of a watcher",
                    "pins the order of attributes in Local's answers; none is promised",
                ),
                ("'limit' option is less than one", "pins Local's text; AWS's names the constraint"),
                ("transactWrite should perform transaction", "pins Local's text; AWS's has no full stop"),
                ("^Query Pagination", "has a limit of 20 seconds of its own: too few on a busy machine"),
            ),
        ),
        Suite(
            "guregu",
            "https://github.com/guregu/dynamo",
            "go mod download",
            ("sh", "-c", "go test -json . > {report}"),
            read_go,
            {
                "DYNAMO_TEST_ENDPOINT": "{url}",
                "DYNAMO_TEST_REGION": "us-east-1",
                "DYNAMO_TEST_TABLE": "TestDB-%",
                "DYNAMO_TEST_CREATE_TABLE": "true",
            },
        ),
        Suite(
            "pydynox",
            "https://github.com/ferrumio/pydynox",
            "python3 -m venv .venv && .venv/bin/pip install 'pydynox[pydantic,opentelemetry]' pytest pytest-asyncio "
            "hypothesis pytest-benchmark boto3 'pydantic[email]' opentelemetry-sdk (pydynox of the checkout's release, "
            "or of the next one: a wheel has the library's compiled part)",
            (
                *(".venv/bin/python", "-m", "pytest", "-q", "--junitxml={report}", "tests/integration"),
                # These need S3 and KMS.
                *("--ignore=tests/integration/s3", "--ignore=tests/integration/encryption"),
            ),
            read_junit,
            {"SUITE_URL": "{url}"},
            files={"testcontainers/__init__.py": "", "testcontainers/localstack.py": _LOCALSTACK},
        ),
        Suite(
            "java-enhanced",
            "https://github.com/aws/aws-sdk-java-v2 (tag 2.54.2), its folder services-custom/dynamodb-enhanced",
            "mvn -v (Maven and a JDK, for example 17; the first run fetches the rest)",
            (
                *("mvn", "-B", "-q", "-f", "penstock.pom.xml", "test", "-Dmaven.test.failure.ignore"),
                "-Dsuite.report={report}",
            ),
            read_junit,
            {"SUITE_URL": "{url}"},
            files={
                "penstock.pom.xml": _ENHANCED_POM,
                f"{_ENHANCED_TESTS}/LocalDynamoDb.java": _ENHANCED_LOCAL,
            },
            known=(
                (
                    "AnnotatedTableSchemaTest::createTableWith(Defaults_then|ProvisionedThroughput_succeeds)",
                    "pins Local's text for a table that is gone; AWS's names the table",
                ),
                (
                    "::(updateCreateKeyOnlyRecord|update_nullDocument|updateItem_createsNewPartialItemThenUpdateItem|"
                    "updateItemWithFlattenMap_correctlyFlattens)",
                    "an update that only removes makes an item of the key on Local, none on AWS",
                ),
                (
                    "document.*::(updateOverwriteCompleteRecord_usingShortcutForm|bytesInAlTypes)",
                    "pins the order of attributes in Local's answers; none is promised",
                ),
                (
                    "BatchGetItemTest::notFoundRecord(s|Ignored)_withReturnConsumedCapacity",
                    "to read an item that is not there costs nothing on Local, half a unit on AWS",
                ),
                (
                    "TransactWriteItemsTest::(mixedCommands_returnValuesOnConditionCheckFailureSet_allConditionsFail|"
                    "transactWrite_withConditionCheckFailure_shouldReturnAllOldValues)",
                    "has two actions on one item in a transaction, which AWS refuses before it looks at conditions",
                ),
                (
                    "FailedConversionAsyncTest::iterableExceptionOnRead",
                    "pins Local's order of partitions in a scan; none is promised",
                ),
            ),
        ),
    )
}


# ── a run ─────────────────────────────────────────────────────────────────────────────────────────


def run_suite(suite: Suite, folder: Path) -> list[Outcome]:
    """Each test's outcome, against a server in memory that lives as long as the run."""
    with tempfile.TemporaryDirectory(prefix="suite-") as directory:
        report = Path(directory) / "report"
        for name, text in suite.files.items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
        with running(penstock(memory=True), Path(directory) / "data") as server:
            known = {"url": server.url, "port": str(urlsplit(server.url).port), "report": str(report)}
            credentials = {"AWS_ACCESS_KEY_ID": "suite", "AWS_SECRET_ACCESS_KEY": "suite", "AWS_REGION": "us-east-1"}
            settings = {name: value.format(**known) for name, value in suite.settings.items()}
            for command in filter(None, (suite.prepare, suite.command)):
                subprocess.run(
                    [word.format(**known) for word in command],
                    cwd=folder,
                    env={**os.environ, **credentials, **settings},
                    stdout=sys.stderr,
                    timeout=LIMIT_SECONDS,
                    check=False,
                )
        if not report.exists():
            raise SystemExit(f"{suite.name} wrote no report; make it ready first: cd {folder} && {suite.ready}")
        return list(suite.read(report))


def reason(suite: Suite, name: str) -> str | None:
    """Why this test is known to fail; None if it is not."""
    return next((why for pattern, why in suite.known if re.search(pattern, name)), None)


def main(words: list[str]) -> int:
    if len(words) != 2 or words[0] not in SUITES:
        print("Usage: python -m bench.conformance NAME DIR, where DIR is a checkout of\n")
        for suite in SUITES.values():
            print(f"  {suite.name:14} {suite.source}\n{'':17}made ready with: {suite.ready}")
        return 2
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the server ends, too
    suite, folder = SUITES[words[0]], Path(words[1]).resolve()
    outcomes = run_suite(suite, folder)
    failed = [name for name, outcome in outcomes if outcome == "failed"]
    skipped = sum(outcome == "skipped" for _, outcome in outcomes)
    print(
        f"{suite.name}: {len(outcomes) - len(failed) - skipped} of {len(outcomes) - skipped} passed, {skipped} skipped"
    )
    for name in failed:
        print(f"- {name}: {reason(suite, name) or 'NEW'}")
    return 1 if any(reason(suite, name) is None for name in failed) else 0
