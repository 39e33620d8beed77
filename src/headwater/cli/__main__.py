"""The entry point: `headwater`, or `python -m headwater.cli`."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line, or say what it needs."""
    gc.set_threshold(50_000)  # imports make objects that stay: looking through them again and again takes a while
    try:
        try:
            import pyarrow  # noqa: F401
            import rich  # noqa: F401
            import typer  # noqa: F401
        except ImportError as error:
            sys.exit(f"the command line needs {error.name}: pip install 'headwater[cli]'")
        from headwater.cli.commands import COMMANDS, build

        asked = sys.argv[1:2]  # help and mistakes need all commands, a command only itself
        app = build(asked if asked and asked[0] in COMMANDS else COMMANDS)
    except KeyboardInterrupt:
        sys.exit(130)  # nothing has begun yet
    try:
        app()
    finally:
        gc.freeze()  # everything ends now: looking through all that is left for what is unused takes a while


if __name__ == "__main__":
    main()
