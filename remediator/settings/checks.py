"""Checks of single settings; each error says what to write instead and never repeats the value."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, StringConstraints

SQLITE = "sqlite:///"


def _sqlite_url(url: str) -> str:
    if not url.startswith(SQLITE) or len(url) == len(SQLITE):
        raise ValueError(f"must be a SQLite URL; write {SQLITE}/var/lib/remediator/remediator.db")
    if ":memory:" in url:
        raise ValueError("must be a file: the record has to survive a restart")
    return url


def _http_url(url: str) -> str:
    return _url(url, "http://slurm-restapi.slurm:6820", with_path=False)


def _server_url(url: str) -> str:
    return _url(url, "http://alertmanager.monitoring:9093", with_path=True)


def _url(url: str, example: str, *, with_path: bool) -> str:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise ValueError(f"must be an http:// or https:// URL with a host; write {example}")
    if parts.username is not None or parts.password is not None:
        raise ValueError("must not carry credentials; put the token in a file and name it in token_path")
    if (parts.path.strip("/") and not with_path) or parts.query or parts.fragment:
        end = "its path" if with_path else "host and port"
        raise ValueError(f"must end after {end}; write {example}")
    _ = parts.port  # urlsplit checks the port only when asked; its ValueError says what is wrong
    return url.rstrip("/")


def _absolute(path: Path) -> Path:
    if not path.is_absolute():
        raise ValueError("must be an absolute path of a file; secrets are named here by path, never by value")
    return path


SqliteUrl = Annotated[str, AfterValidator(_sqlite_url)]
HttpUrl = Annotated[str, AfterValidator(_http_url)]
ServerUrl = Annotated[str, AfterValidator(_server_url)]
AbsolutePath = Annotated[Path, AfterValidator(_absolute)]
Dns = Annotated[str, StringConstraints(pattern=r"^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$")]
LabelName = Annotated[str, StringConstraints(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]{0,127}$")]
LabelKey = Annotated[
    str,
    StringConstraints(
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
    ),
]
LabelValue = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?$")]
