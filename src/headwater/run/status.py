"""The status of a run, for its operator."""

from __future__ import annotations

from headwater.mechanisms import registry
from headwater.synthesizer import Synthesizer


def status_of(synth: Synthesizer, *, t: int | None = None, plan: bool = False) -> dict[str, str]:
    """A run in words, by name. All of it is public.

    Parameters
    ----------
    synth
        The synthesizer of the run.
    t
        How many records were taken, if more than were counted.
    plan
        Whether the schedule of buckets and noise is wanted too.
    """
    rows = {
        "records": f"{synth.t if t is None else t:,}",
        "guarantee": str(synth.guarantee),
        "mechanism": synth.mechanism,
        "chosen": registry.reason(synth.mechanism, synth.schema),
        "level": synth.status,
        "schema": str(synth.schema),
    }
    return rows | ({"plan": str(synth.plan())} if plan else {})
