"""The status of a run, for its operator."""

from __future__ import annotations

from headwater.public import protocol as registry
from headwater.synthesizer import Synthesizer


def status_of(synth: Synthesizer, *, t: int | None = None, plan: bool = False) -> dict[str, str]:
    """A run in words, by name."""
    rows = {
        "records": f"{synth.t if t is None else t:,}",
        "guarantee": str(synth.guarantee),
        "mechanism": synth.mechanism,
        "chosen": registry.reason(synth.mechanism, synth.schema),
        "level": synth.status,
        **({} if synth.expect is None else {"expect": f"{synth.expect:,} records"}),
        "schema": str(synth.schema),
    }
    return rows | ({"plan": str(synth.plan())} if plan else {})
