"""Files that somebody else may have written: read within bounds, with errors that say what is wrong where."""

from __future__ import annotations

import csv
import io
import json
import os
import secrets
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from contextlib import suppress
from itertools import dropwhile
from pathlib import Path
from tokenize import TokenError
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

PathLike = str | os.PathLike[str]
Array = NDArray[Any]

MAX_TEXT_BYTES = 2 << 30
"""Longest JSON or CSV file that is read, as the program reads evaluations."""
MAX_HEADER_BYTES = 32 << 20
"""Longest header of a `.safetensors` file that is read."""
MAX_ARCHIVE_BYTES = 4 << 30
"""Most bytes that the arrays of an `.npz` may unpack to."""
SHOWN_COLUMNS = 12
"""How many columns the line names that a table is printed as."""
GUARDED = ("=", "+", "-", "@", "\t", "\r")
"""What a word begins with that a spreadsheet would take for a formula."""

# bfloat16 has no type in NumPy: its bits are the upper half of a float32.
_DTYPES = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "I64": "<i8",
    "I32": "<i4",
    "I16": "<i2",
    "I8": "|i1",
}
_DTYPES |= {"U64": "<u8", "U32": "<u4", "U16": "<u2", "U8": "|u1", "BOOL": "|b1"}


class FileError(ValueError):
    """A file is not what it should be: its path, the field, what was found and what was expected."""

    def __init__(self, path: PathLike, field: str, found: object, expected: object) -> None:
        super().__init__(os.fspath(path), field, found, expected)  # all of them, so that it can be pickled
        self.path: str = os.fspath(path)
        self.field: str = field
        self.found: object = found
        self.expected: object = expected

    def __str__(self) -> str:
        return f"{self.path}: {self.field} is {self.found}, expected {self.expected}"


class Json:
    """An object of a JSON file that knows where it stands, so that what is missing is named."""

    def __init__(self, path: PathLike, value: Any, field: str = "the file") -> None:
        if not isinstance(value, dict):
            raise FileError(path, field, _kind(value), "an object")
        self.path, self.value, self.field = path, value, field

    def get(self, name: str, kind: type | tuple[type, ...] = object, default: Any = ...) -> Any:
        """The value of a field; `default` where it is absent, an error where there is no default or another type."""
        if name not in self.value and default is not ...:
            return default
        found, kinds = self.value.get(name), kind if isinstance(kind, tuple) else (kind,)
        overflows = float in kinds and isinstance(found, int) and found.bit_length() > 1023
        is_flag = isinstance(found, bool) and not {bool, object} & {*kinds}  # to Python, true is the number 1
        if name not in self.value or not isinstance(found, kind) or is_flag or overflows:
            words = " or ".join("null" if k is type(None) else _WORDS.get(k, "a value") for k in kinds)
            raise FileError(self.path, f"`{name}` of {self.field}", _kind(found) if name in self.value else "absent", words)
        return found

    def child(self, name: str) -> Json:
        """The object of a field."""
        return Json(self.path, self.get(name, dict), f"`{name}`")

    def count(self, name: str, least: int = 0) -> int:
        """A whole number from `least`."""
        found: int = self.get(name, int)
        if found < least:
            raise FileError(self.path, f"`{name}` of {self.field}", found, f"a whole number from {least}")
        return found

    def grid(self) -> tuple[int, int]:
        """Rows and columns of `grid`."""
        return self.child("grid").count("rows", 1), self.child("grid").count("cols", 1)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        found = self.get(name, list)
        if not all(isinstance(text, str) for text in found):
            raise FileError(self.path, f"`{name}` of {self.field}", "a list with something else", "a list of texts")
        return tuple(found)

    def band(self, name: str) -> tuple[float, float] | None:
        """Two numbers, or none where the field is null or absent."""
        found = self.get(name, (list, type(None)), None)
        if found is None:
            return None
        low, high = self.array(name, (2,), "f8").tolist()
        return low, high

    def array(self, name: str, shape: tuple[int, ...] | None = None, dtype: str = "f4", value: Any = ...) -> Array:
        """The numbers of a field, `null` as NaN; of this shape, -1 where any length will do."""
        given = self.get(name, list) if value is ... else value
        integer = dtype[0] in "iu"
        kinds = {int} if integer else {int, float, type(None)}
        try:
            # NumPy would convert words and fractions, too.
            if not {type(cell) for cell in np.array(given, dtype=object).flat} <= kinds:
                raise TypeError
            found = np.array(given, dtype=dtype) if integer else np.array(given, dtype="f8").astype(dtype)
        except (TypeError, ValueError, OverflowError):
            raise FileError(self.path, f"`{name}`", "not a list of numbers", "numbers") from None
        if shape is None:
            return found
        free = [i for i, length in enumerate(shape) if length == -1]
        whole = int(np.prod([length for length in shape if length != -1]))
        if found.size % max(whole, 1) or (not free and found.size != whole):
            raise FileError(self.path, f"`{name}`", f"{found.size} numbers", f"numbers of shape {list(shape)}")
        return found.reshape(shape)


_WORDS = {
    dict: "an object",
    list: "a list",
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "true or false",
}


def counted(number: int, noun: str) -> str:
    """A number with its noun: `1 row`, `2 rows`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _kind(value: object) -> str:
    return "null" if value is None else _WORDS.get(type(value), type(value).__name__)


def of_kind(value: Json, name: str, kind: str) -> None:
    """An error unless the file has a field that only its kind has: somebody passed another file."""
    if name not in value.value:
        raise FileError(value.path, "the file", f"something else, without `{name}`", kind)


def read_text(path: PathLike) -> str:
    """A text file of at most `MAX_TEXT_BYTES`, its ends of lines as they are."""
    size = os.stat(path).st_size
    if size > MAX_TEXT_BYTES:
        raise FileError(path, "its size", f"{size} bytes", f"at most {MAX_TEXT_BYTES}")
    try:
        return Path(path).read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        raise FileError(path, f"byte {error.start}", "no UTF-8", "a text in UTF-8") from None


def read_json(path: PathLike, text: str | None = None) -> Json:
    """The object that a JSON file holds."""
    text = read_text(path) if text is None else text
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is no `JSONDecodeError`
        raise FileError(path, "its text", f"no JSON ({error})", "JSON as ssmprobe writes it") from None
    return Json(path, value)


def format_of(value: Json, known: int, default: Any = ...) -> None:
    """An error unless `format`, `default` where it is absent, is the one that is known."""
    found = value.get("format", int, default)
    if found != known:
        remedy = "open it with the version of ssmprobe that wrote it, or a newer one"
        raise FileError(value.path, "`format`", found, f"{known}; {remedy}")


class Table(dict[str, Array]):
    """Columns by name, all of one length; text as `object`, numbers as `float64` or `int64`, what is not known as NaN.

    `pandas.DataFrame(table)` and `polars.DataFrame(table)` take it as it is; a notebook shows it where pandas is installed.
    """

    def __init__(self, columns: Mapping[str, ArrayLike]) -> None:
        super().__init__({name: np.asarray(column) for name, column in columns.items()})

    def __missing__(self, name: str) -> Array:
        raise KeyError(f"there is no column {name!r}; there are {', '.join(self)}")

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.values()), ()))

    def to_pandas(self) -> Any:
        """The same as a `pandas.DataFrame`; needs pandas."""
        import pandas

        return pandas.DataFrame(self)

    def __repr__(self) -> str:
        names = [*self][:SHOWN_COLUMNS]
        more = f" and {len(self) - len(names)} more" if len(self) > len(names) else ""
        return f"Table of {counted(self.rows, 'row')}: {', '.join(names)}{more}"

    def _repr_html_(self) -> Any:
        with suppress(ImportError):
            return self.to_pandas()._repr_html_()


def table(rows: Iterable[Mapping[str, Any]], names: Iterable[str], text: Iterable[str]) -> Table:
    """A table of these columns; those not in `text` are numbers, and an empty cell is NaN."""
    rows, text = list(rows), set(text)
    columns: dict[str, Array] = {}
    for name in names:
        cells: list[Any] = [row.get(name) for row in rows]
        if name in text:
            columns[name] = np.array(cells, dtype=object)
            continue
        # Seeds may have more digits than a float64 holds.
        whole = all(isinstance(cell, int) or (isinstance(cell, str) and cell.lstrip("-").isdigit()) for cell in cells)
        numbers = [int(cell) if whole else np.nan if cell in (None, "") else float(cell) for cell in cells]
        fits = whole and all(-(1 << 63) <= number < 1 << 63 for number in numbers)
        columns[name] = np.array(numbers, dtype="i8" if fits else "f8")
    return Table(columns)


def read_csv(path: PathLike, text: str | Iterable[str] = ()) -> Table:
    """A CSV as ssmprobe writes it, numbers but for the columns `text`: lines before it that begin with `#` are comments, and
    a word that a spreadsheet would take for a formula has an apostrophe before it, which is taken off."""
    text = {text} if isinstance(text, str) else set(text)
    lines = dropwhile(lambda line: line.startswith("#"), io.StringIO(read_text(path), newline=""))
    try:
        names, *rows = list(csv.reader(lines)) or [[]]
    except csv.Error as error:
        raise FileError(path, "its text", f"no CSV ({error})", "CSV as ssmprobe writes it") from None
    for number, row in enumerate(rows, start=2):
        if len(row) != len(names):
            raise FileError(path, f"row {number}", f"{len(row)} cells", f"{len(names)}, as the first row names them")
    plain = [[cell[1:] if cell[:1] == "'" and cell.lstrip("'")[:1] in GUARDED else cell for cell in row] for row in rows]
    named = [dict(zip(names, row, strict=True)) for row in plain]
    columns: dict[str, Array] = {}
    for name in names:
        try:
            columns |= table(named, [name], text)
        except (ValueError, OverflowError) as error:
            expected = "a number, or words where `text` names the column"
            found = str(error).removeprefix("could not convert string to float: ")
            raise FileError(path, f"a cell of `{name}`", found, expected) from None
    return Table(columns)


def read_npz(path: PathLike) -> dict[str, Array]:
    """The arrays of an `.npz`; no pickles, and no more bytes than `MAX_ARCHIVE_BYTES`."""
    try:
        with zipfile.ZipFile(path) as archive:
            size = sum(entry.file_size for entry in archive.infolist())
        if size > MAX_ARCHIVE_BYTES:
            raise FileError(path, "its size unpacked", f"{size} bytes", f"at most {MAX_ARCHIVE_BYTES}")
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (zipfile.BadZipFile, zlib.error, TokenError, EOFError, KeyError, RuntimeError, OSError, MemoryError) as error:
        if isinstance(error, OSError) and error.filename is not None:  # it cannot be opened
            raise
        raise FileError(path, "the file", f"no NPZ ({error})", "NumPy's archive") from None
    except ValueError as error:
        if isinstance(error, FileError):
            raise
        raise FileError(path, "an array", str(error), "numbers") from None


def read_safetensors(path: PathLike) -> tuple[dict[str, Array], dict[str, str]]:
    """The tensors of a `.safetensors` file, mapped and not copied (bfloat16 as float32), and its metadata."""
    size = os.stat(path).st_size
    if size < 8:
        raise FileError(path, "its size", f"{size} bytes", "8 or more: a `.safetensors` file begins with its header's length")
    with Path(path).open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if length > min(MAX_HEADER_BYTES, size - 8):
            most = f"at most {min(MAX_HEADER_BYTES, size - 8)} of {size} bytes, as in a `.safetensors` file"
            raise FileError(path, "the header's length", length, most)
        try:
            header = read_json(path, file.read(length).decode("utf-8")).value
        except UnicodeDecodeError:
            raise FileError(path, "the header", "no UTF-8", "JSON") from None
    data: Array = np.memmap(path, mode="r", offset=8 + length) if size > 8 + length else np.zeros(0, "u1")
    metadata = Json(path, header.pop("__metadata__", {}), "the metadata")
    tensors: dict[str, Array] = {}
    for name, entry in header.items():
        entry = Json(path, entry, f"tensor `{name}`")
        dtype, shape, offsets = entry.get("dtype", str), entry.get("shape", list), entry.get("data_offsets", list)
        if dtype not in _DTYPES:
            raise FileError(path, f"the type of `{name}`", dtype, "one of " + ", ".join(_DTYPES))
        numbers = [*shape, *offsets]
        if len(offsets) != 2 or not all(type(n) is int and n >= 0 for n in numbers):
            raise FileError(path, f"shape and place of `{name}`", f"{shape} {offsets}", "whole numbers from 0")
        begin, end = offsets
        bytes_of = np.dtype(_DTYPES[dtype]).itemsize
        for side in shape:
            bytes_of *= side
        if not begin <= end <= data.size or end - begin != bytes_of:
            found = f"bytes {begin} to {end} of {data.size}"
            raise FileError(path, f"the place of `{name}`", found, f"{bytes_of} bytes for {dtype} {shape}")
        try:
            values = data[begin:end].view(_DTYPES[dtype]).reshape(shape)
        except (ValueError, OverflowError) as error:
            raise FileError(path, f"the shape of `{name}`", str(error), "one that NumPy has") from None
        tensors[name] = (values.astype("<u4") << 16).view("<f4") if dtype == "BF16" else values
    return tensors, {name: metadata.get(name, str) for name in metadata.value}


def write_safetensors(path: PathLike, tensors: Mapping[str, Array], metadata: Mapping[str, str]) -> None:
    """Writes float32 and int64 tensors with this metadata, whole or not at all."""
    header: dict[str, Any] = {"__metadata__": dict(metadata)}
    blocks, end = [], 0
    for name, values in tensors.items():
        kind = "I64" if values.dtype.kind in "iu" else "F32"
        block = values.astype(_DTYPES[kind]).tobytes()
        header[name] = {"dtype": kind, "shape": list(values.shape), "data_offsets": [end, end + len(block)]}
        blocks.append(block)
        end += len(block)
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    write_atomically(path, b"".join([len(text).to_bytes(8, "little"), text, *blocks]))


def write_atomically(path: PathLike, content: bytes) -> None:
    """Writes a file beside its place, or that of a link's target, and moves it there, so that no half of one is left."""
    path = Path(os.path.realpath(path))
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        with beside.open("xb") as file:
            file.write(content)
        beside.replace(path)
    except BaseException as error:
        with suppress(OSError):
            beside.unlink()
        if isinstance(error, OSError):  # which names the file beside it
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise
