"""`python3 -m deploy.setup [PART...]`: set up this machine for tests, lab and demo."""

from __future__ import annotations

import argparse
import sys

from deploy.setup import prerequisites


def main(arguments: list[str]) -> int:
    """Check the prerequisites, then build the named parts.
    Exit 0: done; 1: failed; 2: something must be mended first.
    """
    old = prerequisites.python_problem(sys.version_info[:2])
    if old:  # the other modules do not even load on an older Python
        return _complain([old], 2)
    from deploy.setup import cache, parts, progress  # noqa: PLC0415
    from deploy.setup.errors import SetupError  # noqa: PLC0415

    names = _names(arguments)
    try:
        wanted = parts.with_needs(names, parts.all_parts())
        todo = [part.name for part in wanted if not cache.is_current(part)]
        if not todo:
            return 0
        problems = prerequisites.missing_for(todo, cache.cache_root())
        if problems:
            return _complain(problems, 2)
        progress.say("setup", f"building {' '.join(todo)}")
        parts.ensure(*names)
    except SetupError as error:
        return _complain([str(error)], 1)
    except KeyboardInterrupt:
        return _complain(["interrupted; run it again to go on from here"], 130)
    progress.say("setup", "done")
    return 0


def _names(arguments: list[str]) -> tuple[str, ...]:
    parser = argparse.ArgumentParser(prog="python3 -m deploy.setup", description=__doc__)
    parser.add_argument("part", nargs="*", default=["all"], help="parts or groups to build (default: all)")
    return tuple(parser.parse_args(arguments).part)


def _complain(problems: list[str], code: int) -> int:
    for problem in problems:
        print(f"setup: {problem}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
