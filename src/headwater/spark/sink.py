"""Releases as a table of Spark: one partition for each release, and its card beside it."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headwater.public.files import FileRefusedError
from headwater.public.folder import card_of, write_table
from headwater.public.release import Release
from headwater.run.sink import Published

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class TableSink:
    """Releases as a table in Parquet, on any file system that Spark writes to.

    The table is partitioned by ``release``, the number of records at its time. Cards are in a table beside it, whose
    name ends in ``_cards``. A release is written before its card: what has no card is not a release yet, and is written
    over when the run goes on.

    Parameters
    ----------
    session
        Of this process.
    path
        Where the table is.
    """

    def __init__(self, session: SparkSession, path: str) -> None:
        self.session, self.path = session, path.rstrip("/")

    @property
    def location(self) -> str:
        """The absolute path with its file system, as the state remembers it."""
        path, system = self._files(self.path)
        return f"spark:{system.makeQualified(path).toString()}"

    def begin(self, run_id: str) -> None:
        """Refuse a table with releases of another run."""
        if any(card.get("run") != run_id for card in self._cards().values()):
            raise FileRefusedError(f"{self.path}: this table holds releases of another run; choose another path")

    def publish(self, release: Release, run_id: str) -> Published:
        """Write a release as a partition of the table, then its card. One that has a card stays as it is."""
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "data.parquet"
            write_table(release.tables("arrow"), data, "parquet", release.schema)
            card = card_of(release, data, run_id, None)
        known = self._cards().get(release.t)
        if known is None:
            self._write(release.to_spark(self.session), self.path, release.t)
            line = self.session.createDataFrame([(json.dumps(card, ensure_ascii=False),)], "card string")
            self._write(line, f"{self.path}_cards", release.t)
        elif known["sha256"] != card["sha256"]:
            raise FileRefusedError(
                f"{self.path}: the release of t = {release.t} was published before with other content; start a new "
                "run, with another path and a new state"
            )
        return Published(release.t, f"{self.path}/release={release.t}", card["sha256"], release)

    def there(self, release: Release, run_id: str) -> Published | None:
        """The release of so many records of this run, if it has a card."""
        card = self._cards().get(release.t, {})
        if card.get("run") != run_id:
            return None
        return Published(release.t, f"{self.path}/release={release.t}", card["sha256"], release)

    def newest(self, run_id: str) -> int:
        """The largest ``t`` of this run's cards; 0 if there is none."""
        return max((t for t, card in self._cards().items() if card.get("run") == run_id), default=0)

    def _files(self, path: str) -> tuple[Any, Any]:
        """A path as Hadoop knows it, and its file system."""
        files = self.session._jvm.org.apache.hadoop.fs.Path(path)
        return files, files.getFileSystem(self.session._jsc.hadoopConfiguration())

    def _write(self, frame: DataFrame, path: str, t: int) -> None:
        partition = frame.selectExpr("*", f"CAST({t} AS BIGINT) AS release")
        writer = partition.write.mode("overwrite").option("partitionOverwriteMode", "dynamic")
        writer.partitionBy("release").parquet(path)

    def _cards(self) -> dict[int, dict[str, Any]]:
        """The cards of all releases by their number of records."""
        path = f"{self.path}_cards"
        files, system = self._files(path)
        if not system.exists(files):
            return {}
        rows = self.session.read.parquet(path).collect()
        return {int(row["release"]): json.loads(row["card"]) for row in rows}
