"""Names that come close to names that are not there.

What stands where names should be may be a row of data. So a name is shown only if it is one of the wanted names but for
the case of letters and for signs, or if half of the wanted names were found.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence


def closest(missing: Sequence[str], names: Sequence[str], header: Sequence[str]) -> list[str]:
    """The names of a file that come closest to names that it does not have, without those that it may not be asked."""
    found = len(names) - len(missing)
    free = [name for name in header if name not in names]
    plain = {plain_name(name): name for name in free}
    close = []
    for name in missing:
        alike = [plain[plain_name(name)]] if plain_name(name) and plain_name(name) in plain else []
        if not alike and 2 * found >= len(names):
            alike = difflib.get_close_matches(name, free, 1)
        close += [one for one in alike if one not in close]
    return close


def plain_name(name: str) -> str:
    """A name without signs and without the case of letters."""
    return re.sub(r"[\W_]", "", name).casefold()
