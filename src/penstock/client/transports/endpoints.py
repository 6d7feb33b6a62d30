"""URLs of databases: a file, ":memory:", http(s)://host:port, aws://region.

    jobs.db, :memory:                 the embedded engine
    http://localhost:8000             any compatible endpoint; ?region=… and ?profile=… may follow
    aws://eu-west-2?profile=reports   AWS; without a region, the one that the environment or the profile has

AWS_ENDPOINT_URL_DYNAMODB and AWS_ENDPOINT_URL replace the host of an aws:// URL, as they do for every AWS SDK.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl, urlsplit

from penstock.errors import BadUrl

MEMORY = ":memory:"
VARIABLE = "PENSTOCK_DB"
_OLD_VARIABLE = "PENSTOCK_URL"
DEFAULT_REGION = "us-east-1"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_REGION = re.compile(r"[a-z]{2,8}(-[a-z0-9]+)+|local")
_AWS_HOST = re.compile(
    r"(?:[0-9]{12}\.ddb|(?:streams\.)?dynamodb(?:-fips)?)\.([a-z0-9-]+)\.(amazonaws\.com|amazonaws\.com\.cn|api\.aws)"
)
_SUFFIXES = (  # of a region's name to the domain of its partition; the last one is everybody else's
    (re.compile(r"cn-"), "amazonaws.com.cn"),
    (re.compile(r"us-iso-"), "c2s.ic.gov"),
    (re.compile(r"us-isob-"), "sc2s.sgov.gov"),
    (re.compile(r"eu-isoe-"), "cloud.adc-e.uk"),
    (re.compile(r"us-isof-"), "csp.hci.ic.gov"),
    (re.compile(r"eusc-"), "amazonaws.eu"),
    (re.compile(r""), "amazonaws.com"),
)
_DUALSTACK = {"amazonaws.com": "api.aws", "amazonaws.com.cn": "api.amazonwebservices.com.cn"}
# Without "//", "/./" and "/../", which servers sign differently. A step has no slash of its own: if it had, a long path
# could be divided into steps in more ways than anybody can try.
_PATH = re.compile(r"(?:/(?!\.{1,2}(?:/|$))[!-.0-~]+)*/?")
_PORTS = {"http": 80, "https": 443}
_HOST_AND_PORT = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]+:[0-9]{1,5}(/.*)?")
_ADDRESS = re.compile(r"(localhost|[0-9]{1,3}(\.[0-9]{1,3}){3}|\[[0-9A-Fa-f:.]+\])(:[0-9]{0,5})?(/.*)?")
_PRIVATE_ENDS = frozenset({"internal", "local", "localhost", "lan"})
_PUBLIC_ENDS = frozenset(
    [
        "com",
        "org",
        "net",
        "edu",
        "gov",
        "io",
        "dev",
        "app",
        "cloud",
        "de",
        "fr",
        "uk",
        "eu",
        "ch",
        "at",
        "nl",
        "jp",
        "in",
        "br",
    ]
)
_SLIPPED = re.compile(r"(https?|aws)(:|//)[:/]*", re.IGNORECASE)  # http:/localhost, https//host, aws:eu-west-2
_OURS = "Use a file name, :memory:, http://host:port, https://host or aws://region."


@dataclass(frozen=True, slots=True)
class File:
    """The embedded engine on this file, or ":memory:"."""

    path: str

    @property
    def name(self) -> str:
        return self.path


@dataclass(frozen=True, slots=True)
class Host:
    """Where a request is sent."""

    secure: bool
    host: str
    port: int
    path: str = "/"

    @property
    def authority(self) -> str:
        """The Host header: a port only where it is not the scheme's own, an IPv6 address in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.secure else 80) else f"{host}:{self.port}"

    @property
    def url(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.authority}{'' if self.path == '/' else self.path}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """A DynamoDB behind HTTP. `aws` is true if it wants real credentials."""

    name: str
    host: Host
    streams: Host
    region: str
    aws: bool = False
    profile: str | None = None

    @property
    def search(self) -> Host:
        """Where SearchVectors is asked: AWS has hosts of their own for it; everybody else answers it as the rest."""
        if not _AWS_HOST.fullmatch(self.host.host):
            return self.host
        name = self.host.host.replace(".ddb.", ".search-ddb.", 1)
        return replace(self.host, host=name if name != self.host.host else f"search-{name}")

    @property
    def is_amazons(self) -> bool:
        """Whether AWS answers there, as far as names tell: also by a name of its private links."""
        return self.aws or "amazonaws" in self.host.host or self.host.host.endswith(".aws")


Target = File | Endpoint


def named_database(environment: Mapping[str, str]) -> str | None:
    """The database that PENSTOCK_DB names. Raises BadUrl where only its old name is set."""
    if environment.get(_OLD_VARIABLE) and not environment.get(VARIABLE):
        raise BadUrl(_OLD_VARIABLE, "this variable is not read any more", f"Set {VARIABLE} instead.")
    return environment.get(VARIABLE) or None


def parse(
    url: str,
    environment: Mapping[str, str] | None = None,
    region_of: Callable[[str | None], str | None] | None = None,
) -> Target:
    """What `url` names; raises BadUrl. `region_of` tells a profile's region where nothing else does."""
    given = os.environ if environment is None else environment
    scheme = _SCHEME.match(url)
    if scheme is None:
        return _file(url)
    match scheme.group(1).lower():
        case "http" | "https":
            return _http(url, given)
        case "aws":
            return _aws(url, given, region_of)
    raise BadUrl(url, f"no database is reached by {scheme.group(1)!r}", _OURS)


def _file(path: str) -> File:
    if not path:
        raise BadUrl("''", "an empty URL names no database", _OURS)
    meant = _likely_url(path)
    if meant is not None:
        raise BadUrl(path, "it looks like an endpoint, and would be a file", f"Write {meant}; for the file, ./{path}.")
    return File(path)


def _likely_url(path: str) -> str | None:
    """The URL that was probably meant by what is a file's name to the letter."""
    slipped = _SLIPPED.match(path)
    if slipped is not None:
        return f"{slipped.group(1).lower()}://{path[slipped.end() :]}"
    if _AWS_HOST.fullmatch(path):
        return f"https://{path}"
    is_host = _HOST_AND_PORT.fullmatch(path) or _ADDRESS.fullmatch(path) or _is_host_name(path)
    return f"http://{path}" if is_host else None


def _is_host_name(path: str) -> bool:
    """Of db.example.org; "jobs.v2.db" and "orders.dev" are files."""
    labels = path.lower().split(".")
    may_be = (len(labels) > 2 and labels[-1] in _PUBLIC_ENDS) or (len(labels) > 1 and labels[-1] in _PRIVATE_ENDS)
    return may_be and all(label.isascii() and label.replace("-", "").isalnum() for label in labels)


def _http(url: str, environment: Mapping[str, str]) -> Endpoint:
    host, options = _host(url)
    at_aws = _AWS_HOST.fullmatch(host.host)
    region = options.get("region") or (at_aws.group(1) if at_aws else None) or _environment_region(environment)
    profile = options.get("profile")
    return Endpoint(
        host.url,
        host,
        _streams_of(host) if at_aws else host,
        _checked_region(url, region or DEFAULT_REGION),
        aws=bool(at_aws or profile),
        profile=profile,
    )


def _streams_of(host: Host) -> Host:
    """The streams API of a host of AWS's. Accounts have no host of their own for it."""
    parts = host.host.split(".")
    if parts[0] == "streams":
        return host
    name = ".".join(["streams", "dynamodb", *parts[2:]] if parts[1] == "ddb" else ["streams", *parts])
    return Host(host.secure, name, host.port, host.path)


def _aws(url: str, environment: Mapping[str, str], region_of: Callable[[str | None], str | None] | None) -> Endpoint:
    rest = url.split("://", 1)[1]
    named, _, query = rest.partition("?")
    options = _options(url, query)
    profile = options.get("profile") or environment.get("AWS_PROFILE") or None
    region = named.rstrip("/") or _environment_region(environment) or (region_of(profile) if region_of else None)
    if not region:
        raise BadUrl(url, "no region is named", "Write aws://eu-west-2, or set AWS_REGION.")
    region = _checked_region(url, region)
    name = f"aws://{region}" + (f"?profile={options['profile']}" if "profile" in options else "")
    elsewhere = _environment_endpoint(environment)
    if elsewhere:
        host, _ = _host(elsewhere)
        at_aws = bool(_AWS_HOST.fullmatch(host.host))
        return Endpoint(f"{name} ({host.url})", host, _streams_of(host) if at_aws else host, region, True, profile)
    return Endpoint(name, *_aws_hosts(region, environment), region, True, profile)


def _aws_hosts(region: str, environment: Mapping[str, str]) -> tuple[Host, Host]:
    suffix = next(suffix for prefix, suffix in _SUFFIXES if prefix.match(region))
    fips = _on(environment, "AWS_USE_FIPS_ENDPOINT")
    if _on(environment, "AWS_USE_DUALSTACK_ENDPOINT"):
        suffix = _DUALSTACK.get(suffix, suffix)
    service = "dynamodb-fips" if fips else "dynamodb"
    # Streams of the government's regions are FIPS by their usual names.
    streams = "dynamodb" if region.startswith("us-gov-") else service
    return (
        Host(True, f"{service}.{region}.{suffix}", 443),
        Host(True, f"streams.{streams}.{region}.{suffix}", 443),
    )


def _environment_region(environment: Mapping[str, str]) -> str:
    return environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION") or ""


def _environment_endpoint(environment: Mapping[str, str]) -> str:
    if _on(environment, "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"):
        return ""
    return environment.get("AWS_ENDPOINT_URL_DYNAMODB") or environment.get("AWS_ENDPOINT_URL") or ""


def _on(environment: Mapping[str, str], name: str) -> bool:
    return environment.get(name, "").lower() == "true"


# ── http ─────────────────────────────────────────────────────────────────────────────────────────


def _host(url: str) -> tuple[Host, dict[str, str]]:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise BadUrl(url, str(error), "Write it as http://host:port.") from None
    shown = url.replace(parts.netloc, parts.netloc.rpartition("@")[2]) if "@" in parts.netloc else url
    if shown != url:
        raise BadUrl(shown, "a URL is no place for credentials", "Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY.")
    if parts.scheme not in _PORTS:
        raise BadUrl(url, "an endpoint is http:// or https://", _OURS)
    if not parts.hostname or parts.fragment or re.search(r"[\x00-\x20\x7f]", url) or not _PATH.fullmatch(parts.path):
        raise BadUrl(url, "it names no endpoint", "Write it as http://host:port.")
    host = Host(parts.scheme == "https", _ascii(url, parts.hostname), _port(url, port, parts.scheme), parts.path or "/")
    return host, _options(url, parts.query)


def _port(url: str, port: int | None, scheme: str) -> int:
    if port == 0:
        raise BadUrl(url, "no server has port 0", "Write the port that the server told when it started.")
    return port or _PORTS[scheme]


def _ascii(url: str, host: str) -> str:
    """The name as it goes over the wire; DNS and HTTP know ASCII only."""
    try:
        return host if host.isascii() else host.encode("idna").decode("ascii")
    except UnicodeError:
        raise BadUrl(url, f"{host!r} is no host name", "Write it as http://host:port.") from None


def _options(url: str, query: str) -> dict[str, str]:
    options = dict(parse_qsl(query))
    unknown = sorted(options.keys() - {"region", "profile"})
    if unknown:
        raise BadUrl(url, f"unknown option {unknown[0]!r}", "A URL takes ?region=… and ?profile=….")
    return options


def _checked_region(url: str, region: str) -> str:
    if not _REGION.fullmatch(region):
        raise BadUrl(url, f"{region!r} is no region", "Regions are written like eu-west-2.")
    return region
