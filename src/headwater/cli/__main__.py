"""The entry point: `headwater`, or `python -m headwater.cli`."""

from __future__ import annotations

import gc
import sys


def main() -> None:
    """Run the command line, or say what it needs."""
    gc.set_threshold(50_000)  # imports make objects that stay: looking through them again and again takes a while
    try:
        import pyarrow  # noqa: F401

        from headwater.cli.app import app
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in ("pyarrow", "rich", "typer"):
            raise
        sys.exit(f"the command line needs {error.name}: pip install 'headwater[cli]'")
    except KeyboardInterrupt:
        sys.exit(130)  # nothing has begun yet
    try:
        app()
    finally:
        gc.freeze()  # everything ends now: looking through all that is left for what is unused takes a while


if __name__ == "__main__":
    main()
