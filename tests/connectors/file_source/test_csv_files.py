"""Rows of CSV files: each once, however steps and tasks share a file."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from beadline.common import Row, Types
from beadline.common._formats.csv_dialect import CsvDialect
from beadline.common._formats.csv_records import CsvRecordWriter
from beadline.connectors.file_source import csv as csv_files
from beadline.connectors.file_source.csv import CsvFileSource, CsvLayout
from beadline.connectors.source import Unreadable
from beadline.errors import InputError
from tests.connectors.file_source.conftest import read_all

PERSON: Any = Types.ROW_NAMED(["id", "name"], [Types.INT(), Types.STRING()])
LAYOUT = CsvLayout(CsvDialect(), PERSON, [";", ";"])


def person(number: int | None, name: str | None) -> Row:
    return Row(id=number, name=name)


def content(rows: list[Row], dialect: CsvDialect = LAYOUT.dialect) -> bytes:
    writer = CsvRecordWriter(dialect, PERSON, [";", ";"])
    return "".join(writer.line(row) + dialect.line_end for row in rows).encode()


texts = st.text(alphabet='ab,"\\\n;# é', max_size=6)


@pytest.mark.parametrize("escape", [None, "\\"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(
    names=st.lists(texts, max_size=25),
    rows=st.integers(1, 9),
    parallelism=st.integers(1, 4),
    block=st.sampled_from([1, 3, 17, 1 << 20]),
    last_line_ends=st.booleans(),
)
def test_each_row_is_read_once(
    tmp_path: Path, escape: str | None, names: list[str], rows: int, parallelism: int, block: int, last_line_ends: bool
) -> None:
    dialect = CsvDialect(escape=escape)
    wanted = [person(number, name) for number, name in enumerate(names)]
    data = content(wanted, dialect)
    path = tmp_path / "a.csv"
    path.write_bytes(data if last_line_ends else data.removesuffix(b"\n"))
    source = CsvFileSource([str(path)], replace(LAYOUT, dialect=dialect))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_files, "BLOCK", block)
        patch.setattr(csv_files, "_HEAD", max(block, 64))
        assert read_all(source, rows, parallelism) == wanted


def test_a_file_without_quotes_is_cut_at_any_line(tmp_path: Path) -> None:
    wanted = [person(number, f'"{number}') for number in range(100)]
    dialect = CsvDialect(quote=None)
    (tmp_path / "a.csv").write_bytes(content(wanted, dialect))
    assert read_all(CsvFileSource([str(tmp_path)], replace(LAYOUT, dialect=dialect)), 7, 3) == wanted


def test_a_stray_quote_makes_ranges_longer_and_loses_nothing(tmp_path: Path) -> None:
    sizes = ['5" disk' if number % 10 == 0 else "5 inch disk" for number in range(100)]
    lines = [f"{number},{size}" for number, size in enumerate(sizes)]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    found = read_all(CsvFileSource([str(tmp_path)], LAYOUT), 7, 3)
    assert [f"{row.id},{row.name}" for row in found] == lines


@pytest.mark.parametrize("compressed", [False, True])
class TestFirstRows:
    def source(self, folder: Path, data: str, compressed: bool, **layout: Any) -> CsvFileSource:
        path = folder / ("a.csv.gz" if compressed else "a.csv")
        path.write_bytes(gzip.compress(data.encode()) if compressed else data.encode())
        return CsvFileSource([str(path)], replace(LAYOUT, **layout))

    def test_a_header_is_left_out(self, tmp_path: Path, compressed: bool) -> None:
        data = "h1,h2\n" + "".join(f"{number},n{number}\n" for number in range(50))
        found = read_all(self.source(tmp_path, data, compressed, header=True), 5, 2)
        assert found == [person(number, f"n{number}") for number in range(50)]

    def test_a_strict_header_is_as_the_schema_says(self, tmp_path: Path, compressed: bool) -> None:
        good = self.source(tmp_path, "\ufeffid,name\n1,a\n", compressed, header=True, strict=True)
        assert read_all(good, 5, 2) == [person(1, "a")]
        bad = self.source(tmp_path, "name,id\na,1\n", compressed, header=True, strict=True)
        with pytest.raises(InputError, match=r"has the header \['name', 'id'\], and the schema has the columns"):
            read_all(bad, 5, 2)

    def test_the_first_row_may_be_left_out(self, tmp_path: Path, compressed: bool) -> None:
        data = "".join(f"{number},n\n" for number in range(20))
        found = read_all(self.source(tmp_path, data, compressed, skip_first=True), 3, 2)
        assert [row.id for row in found] == list(range(1, 20))


def test_each_file_has_its_own_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name\n1,a\n")
    (tmp_path / "b.csv").write_text('"a header\nof two lines",id\n2,b\n')
    (tmp_path / "c.csv").write_text("")
    source = CsvFileSource([str(tmp_path)], replace(LAYOUT, header=True))
    assert read_all(source, 100, 2) == [person(1, "a"), person(2, "b")]


@pytest.mark.parametrize(
    ("kind", "null", "texts", "values"),
    [
        (Types.INT(), None, ["1", " 2", "-3"], [1, 2, -3]),
        (Types.INT(), None, ["1", "", "3"], [1, None, 3]),
        (Types.INT(), "2", ["1", "2", "3"], [1, None, 3]),
        (Types.BYTE(), None, ["127", "128"], [127, "not a whole number of 8 bits"]),
        (Types.LONG(), None, ["1", "1_000"], [1, "not a whole number"]),
        (Types.LONG(), None, ["1", "1.5"], [1, "invalid literal"]),
        (Types.DOUBLE(), None, ["1.5", "-1E3", "2"], [1.5, -1000.0, 2.0]),
        (Types.DOUBLE(), None, ["1", "", "-Infinity"], [1.0, None, float("-inf")]),
        (Types.DOUBLE(), "-1", ["1", "-1"], [1.0, None]),
        (Types.DOUBLE(), None, ["1", "inf"], [1.0, "'inf' is not a number"]),
        (Types.DOUBLE(), None, ["1", "1_0"], [1.0, "'1_0' is not a number"]),
    ],
    ids=lambda value: str(value),
)
def test_columns_of_numbers(tmp_path: Path, kind: Any, null: str | None, texts: list[str], values: list[Any]) -> None:
    """They are read at once if all are plain, and else one by one, with the same result."""
    (tmp_path / "a.csv").write_text("".join(f"{text},x\n" for text in texts))
    row_type: Any = Types.ROW_NAMED(["number", "text"], [kind, Types.STRING()])
    layout = CsvLayout(CsvDialect(null=null), row_type, [";", ";"])
    for found, wanted in zip(read_all(CsvFileSource([str(tmp_path)], layout), 100, 1), values, strict=True):
        if isinstance(wanted, str):
            assert isinstance(found, Unreadable)
            assert wanted in str(found.problem)
        else:
            assert found.number == wanted


def test_decimal_numbers_are_rounded_to_their_scale(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1.005\n-1.5\n\n1234\n12345\n")
    kind: Any = Types.ROW_NAMED(["price"], [Types.BIG_DEC()])
    source = CsvFileSource([str(tmp_path)], CsvLayout(CsvDialect(), kind, [";"], decimals={0: (6, 2)}))
    *good, bad = read_all(source, 100, 1)
    assert [str(row.price) for row in good] == ["1.01", "-1.50", "None", "1234.00"]
    assert isinstance(bad, Unreadable)
    assert "12345 does not fit DECIMAL(6, 2)" in str(bad.problem)


def test_comments_and_empty_lines_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('# comment, "\n1,"a\n# no comment"\n\n2,b\n')
    layout = replace(LAYOUT, dialect=CsvDialect(comments=True))
    source = CsvFileSource([str(tmp_path)], layout, may_split=False)
    assert read_all(source, 100, 1) == [person(1, "a\n# no comment"), person(2, "b")]


def test_bad_rows_are_marked_and_the_others_read(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b'1,a\nx,b\n2,"c\nd"\n3\n4,\xff\n5,e\n')
    found = read_all(CsvFileSource([str(path)], LAYOUT), 100, 1)
    assert [row for row in found if isinstance(row, Row)] == [person(1, "a"), person(2, "c\nd"), person(5, "e")]
    bad = [row for row in found if isinstance(row, Unreadable)]
    assert [(row.place, row.data) for row in bad] == [
        (f"the row at byte 4 of {path}", b"x,b"),
        (f"the row at byte 16 of {path}", b"3"),
        (f"the row at byte 18 of {path}", b"4,\xff"),
    ]
    assert "field 'id'" in str(bad[0].problem)
    assert "beadline.poison.action=skip" in str(bad[0].problem)
    assert found.index(bad[0]) == 1, "in its place"
