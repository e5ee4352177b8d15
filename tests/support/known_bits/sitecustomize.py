"""Python runs this first in a process whose `PYTHONPATH` begins with this folder.

Only tests put it there (`entropy.known_environment`): jaxdp itself has no way to be told its bits,
which would be a way to take its noise off.
"""

import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
from entropy import NAME_OF_STREAM, KnownEntropy

sys.path.pop(0)

_seed, _name = os.environ[NAME_OF_STREAM].split(" ", maxsplit=1)
_known = KnownEntropy(int(_seed))
_known.install()
# Until the process ends.
_stream = _known.stream(_name)
_stream.__enter__()
