"""Tables that took no part in choosing constants, but for two of the first stage with pairs of marginals."""

from __future__ import annotations

import pandas as pd

import headwater as hw
from benchmarks.tables.data import Table, shuffled, with_schema


def _stops() -> Table:
    """51,920 stops by the police of one city; 15 columns, six of them with gaps, and one of 87 neighbourhoods."""
    frame = shuffled("carData", "MplsStops").drop(columns="idNum")
    when = pd.to_datetime(frame.pop("date"), utc=True)
    frame["month"], frame["weekday"], frame["hour"] = when.dt.month, when.dt.day_of_week, when.dt.hour
    columns = {
        "lat": hw.Number(44.85, 45.1),
        "long": hw.Number(-93.35, -93.15),
        "month": hw.Integer(1, 12),
        "weekday": hw.Integer(0, 6),
        "hour": hw.Integer(0, 23),
    }
    return with_schema("stops", frame, columns)


def _wages() -> Table:
    """61,697 answers about work and pay since 1974; 11 columns."""
    columns = {
        "year": hw.Integer(1974, 2018),
        "realrinc": hw.Number(0, 150_000),
        "age": hw.Integer(18, 89),
        "occ10": hw.Integer(0, 9999),
        "prestg10": hw.Integer(0, 100),
        "childs": hw.Integer(0, 8),
    }
    return with_schema("wages", shuffled("stevedata", "gss_wages"), columns)


def _happiness() -> Table:
    """17,137 answers to a social survey; 33 columns, many of them functions of others."""
    columns = {
        "year": hw.Integer(1994, 2006),
        "prestige": hw.Integer(0, 100),
        "educ": hw.Integer(0, 20),
        "babies": hw.Integer(0, 10),
        "preteen": hw.Integer(0, 10),
        "teens": hw.Integer(0, 10),
        "tvhours": hw.Integer(0, 24),
    }
    return with_schema("happiness", shuffled("wooldridge", "happiness"), columns)


READERS = {"stops": _stops, "wages": _wages, "happiness": _happiness}
