"""What other libraries call the methods of `headwater.Synthesizer`, for the error that a user of theirs gets."""

from __future__ import annotations

_UPDATE = "update(table) takes records, one or many, as often as more arrive"
_SAMPLE = "release().sample(n) gives synthetic records"

ALIASES = {
    **dict.fromkeys(("fit", "partial_fit", "learn_one", "learn_many", "fit_processed_data", "add", "append"), _UPDATE),
    **dict.fromkeys(("sample", "generate", "predict", "transform", "sample_from_conditions"), _SAMPLE),
    **dict.fromkeys(("fit_transform", "fit_sample"), f"{_UPDATE}, and {_SAMPLE}"),
    "merge": "a run has one owner: encode(table) can run anywhere, and update_rows takes what it gives",
}
"""By the name in scikit-learn, SDV, river and sketches: what to call here."""
