"""Schemas of the tables between rooms, and joins that are checked."""

from evalkit.tables.joins import checked_join
from evalkit.tables.schemas import ITEMS, OUTCOMES, SAMPLES, SCORES, STATUSES, Column, Table, check

__all__ = ["ITEMS", "OUTCOMES", "SAMPLES", "SCORES", "STATUSES", "Column", "Table", "check", "checked_join"]
