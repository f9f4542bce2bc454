"""SSMProbe from Python: what the program writes as arrays and tables, probes of your own, and the window on what is in memory.

    inspection = ssmprobe.read_inspect("OUT")            # what `ssmprobe inspect` wrote
    run = ssmprobe.read_run("RUN")                       # what `ssmprobe train` wrote: tables
    probe = ssmprobe.load_probe("RUN/probes/sinkhorn-s0-best.safetensors")
    output = probe(patches)                              # the reference forward pass, float64
    ssmprobe.save_probe("mine.safetensors", "gap", model, classes=["cat", "dog"], backbone="facebook/vit-mae-base")
    ssmprobe.open(image, probe, backbone="DIR")          # the window

Needs NumPy alone; pandas (`Table.to_pandas`) and torch (`save_probe` of a module) where they are used. Numbers mean what
docs/definitions.md says. Errors of files are `FileError`: the file, the field, what was found and what was expected.
"""

from importlib import metadata as _metadata

from ._dataset import Evaluation, Run, Tokens, read_evaluation, read_run, tokens
from ._files import FileError, Table, read_csv
from ._heads import HEADS, Output
from ._probe import Probe, load_probe, save_probe
from ._program import ProgramError, Window, demo, open, program, run
from ._trace import Diagnostic, Evidence, Inspection, Prediction, Trace, read_inspect, read_trace

try:
    __version__ = _metadata.version("ssmprobe")
except _metadata.PackageNotFoundError:
    __version__ = "0+checkout"  # a clone on the path, which pip did not install

__all__ = [
    "HEADS",
    "Diagnostic",
    "Evaluation",
    "Evidence",
    "FileError",
    "Inspection",
    "Output",
    "Prediction",
    "Probe",
    "ProgramError",
    "Run",
    "Table",
    "Tokens",
    "Trace",
    "Window",
    "__version__",
    "demo",
    "load_probe",
    "open",
    "program",
    "read_csv",
    "read_evaluation",
    "read_inspect",
    "read_run",
    "read_trace",
    "run",
    "save_probe",
    "tokens",
]
