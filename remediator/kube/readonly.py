"""An API server that can only be read through: for verbs that promise to change nothing."""

from __future__ import annotations

from collections.abc import Mapping

from remediator.errors import Blocked
from remediator.kube.errors import Json
from remediator.kube.session import Api, Listing


class ReadOnlyApi:
    """The Api protocol with its writes cut off: they are Blocked before anything is sent."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def get(self, path: str, *, deadline: float) -> Json | None:
        """Read one object."""
        return self._api.get(path, deadline=deadline)

    def list(self, path: str, *, deadline: float, params: Mapping[str, str] | None = None) -> Listing:
        """Read all objects of a collection, page by page."""
        return self._api.list(path, deadline=deadline, params=params)

    def patch(self, path: str, body: Json, *, deadline: float) -> Json | None:  # noqa: ARG002 - as the protocol has it
        """Never sent."""
        raise Blocked(f"patch {path}: this command changes nothing")

    def post(self, path: str, body: Json, *, deadline: float, harmless: bool = False) -> Json | None:  # noqa: ARG002 - as the protocol has it
        """Never sent."""
        raise Blocked(f"create {path}: this command changes nothing")

    def delete(self, path: str, uid: str, *, deadline: float, grace: int | None = None) -> Json | None:  # noqa: ARG002 - as the protocol has it
        """Never sent."""
        raise Blocked(f"delete {path}: this command changes nothing")
