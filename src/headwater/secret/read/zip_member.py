"""The one file in a zip archive."""

from __future__ import annotations

import zipfile
from typing import IO, Any

from headwater.public.errors import TableError


def member(file: IO[bytes] | str) -> tuple[str, Any]:
    """The name of the file in an archive, and what reads it; notes that some systems add are passed over."""
    try:
        archive = zipfile.ZipFile(file)
        names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith("__MACOSX/")]
        if len(names) == 1:
            return names[0], archive.open(names[0])
    except (zipfile.BadZipFile, NotImplementedError):
        raise TableError("the compressed data is damaged or cut short", "make the file anew") from None
    except RuntimeError:
        raise TableError("an encrypted zip archive", "unpack it first") from None
    raise TableError(f"a zip archive that holds {len(names)} files", "unpack it and name the files, or zip one file")
