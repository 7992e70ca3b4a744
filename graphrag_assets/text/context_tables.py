"""Tables as a model is shown them: a title line, a header, CSV rows."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable


def csv_line(cells: Iterable[object], delimiter: str = ",") -> str:
    """One CSV line with a line break at its end.

    Args:
        cells: Values; None is written as an empty cell.
        delimiter: Stands between cells. A cell that holds it, a quote or a line break is quoted, so that no text can
            break a row.
    """
    buffer = io.StringIO()
    csv.writer(buffer, delimiter=delimiter, lineterminator="\n").writerow(cells)
    return buffer.getvalue()


def table_head(name: str, columns: Iterable[str], delimiter: str = ",") -> str:
    """Title line and header of a table."""
    return f"-----{name}-----\n{csv_line(columns, delimiter)}"
